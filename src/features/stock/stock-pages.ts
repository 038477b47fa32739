import type pg from 'pg'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { problemText } from '../../domain/catalog/catalog-rules.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { fieldOf, formOf, problemsIn, selectOf, textAreaOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, operatorPage, refused } from '../../platform/ui/page.ts'
import { listOf } from '../../platform/ui/table.ts'
import { buttonLink, countText, stateText } from '../../platform/ui/text.ts'
import { addAddresses, type StockingReport } from './add-stock.ts'
import { type ParsedStock, parseStocking } from './parse-stock.ts'
import { type PoolKey, poolsAfter } from './stock-counts.ts'
import type { StockLogins } from './stock-logins.ts'

const path = '/console/operator/stock'
const stockingPath = '/console/operator/stock/add'
/** The largest number of addresses that a page lists. */
const maxNamed = 50

const keyText = ({ productId, country, carrierId, service }: PoolKey): string =>
  [productId, country, carrierId ?? '', service ?? ''].join('~')

const keyOf = (text: string | null): PoolKey | null => {
  const [productId, country, carrierId, service, ...excess] = (text ?? '').split('~')
  return productId === undefined || country === undefined || service === undefined || excess.length > 0
    ? null
    : { productId, country, carrierId: carrierId || null, service: service || null }
}

/** The stock by pool. */
export const stockPages = ({
  pool,
  clock,
  caughtUp,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly caughtUp: CaughtUp
}): readonly ConsolePage[] => [
  operatorPage({
    path,
    name: 'showStock',
    summary: 'Pools of dedicated addresses: in stock, rented, resting, free',
    nav: { label: 'Stock', group: 'Operator' },
    show: async (visit) => {
      await caughtUp()
      return {
        title: 'Stock',
        actions: buttonLink(stockingPath, 'Add addresses', 'first'),
        body: html`<p>Addresses of dedicated products. A returned address rests for 15 minutes before it is sold again.</p>
${await listOf(visit, {
  caption: 'Pools of addresses, by product and country',
  load: (page) => poolsAfter({ pool, clock }, page),
  parseKey: keyOf,
  keyOf: keyText,
  empty: 'Nothing is in stock.',
  labels: { first: 'First pools', next: 'More pools' },
  columns: [
    { title: 'Product', head: true, cell: ({ productId }) => productId },
    { title: 'Country', cell: ({ country }) => country },
    {
      title: 'Line',
      cell: ({ carrierId, service }) => [carrierId, service].filter((word) => word !== null).join(', '),
    },
    { title: 'In stock', number: true, cell: ({ total }) => total },
    { title: 'Rented', number: true, cell: ({ rented }) => rented },
    { title: 'Resting', number: true, cell: ({ resting }) => resting },
    { title: 'Free', number: true, cell: ({ available }) => available },
    {
      title: 'State',
      cell: ({ available }) =>
        available > 0 ? stateText('for sale', 'good') : stateText('sold out', 'warn'),
    },
  ],
})}`,
        cliEquivalents: ['npx farebox stock list', 'npx farebox stock add --file FILE'],
      }
    },
  }),
]

const services = [
  { value: '', label: 'none' },
  { value: 'dedicated', label: 'dedicated' },
  { value: 'shared', label: 'shared' },
] as const

const asnOf = (text: string): number | null | undefined => {
  if (text === '') return null
  const asn = /^\d{1,10}$/.test(text) ? Number(text) : 0
  return asn >= 1 && asn <= 4_294_967_295 ? asn : undefined
}

type Added = { readonly stock: ParsedStock; readonly report: StockingReport }

const listed = (title: string, items: readonly string[]): Html =>
  items.length === 0
    ? nothing
    : html`<h2>${title}</h2>
<p>${items.slice(0, maxNamed).join(', ')}${items.length > maxNamed ? ` and ${items.length - maxNamed} more` : ''}</p>
`

const reportView = (added: readonly Added[]): View => {
  const collect = (of: (report: StockingReport) => readonly string[]) =>
    added.flatMap(({ report }) => of(report))
  const elsewhere = collect((report) =>
    report.elsewhere.map(({ ip, productId, country }) => `${ip} (${productId} in ${country})`),
  )
  return {
    title: 'Added to stock',
    body: html`<ul>${added.map(
      ({ stock: { productId, country }, report }) =>
        html`<li>${countText(report.added.length, 'address', 'addresses')} of ${productId} in ${country}</li>\n`,
    )}</ul>
${listed('Not added: in stock for another product or country', elsewhere)}${listed(
  'With a changed endpoint',
  collect(({ changed }) => changed),
)}${listed(
  'Already in stock',
  collect(({ alreadyStocked }) => alreadyStocked),
)}<p class="actions">${buttonLink(path, 'Show stock', 'first')}${buttonLink(stockingPath, 'Add more')}</p>`,
    cliEquivalents: ['npx farebox stock list'],
  }
}

/** Adds addresses to stock, as the command does. */
export const stockingPages = ({
  catalog,
  runner,
  stockLogins,
}: {
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
  readonly runner: CommandRunner
  readonly stockLogins: Pick<StockLogins, 'store' | 'drop'>
}): readonly ConsolePage[] => [
  operatorPage({
    path: stockingPath,
    name: 'addStock',
    summary: 'Adds addresses to stock',
    confirmed: true,
    show: async ({ form }) => {
      const dedicated = catalog
        .current()
        .products.filter(({ shape }) => shape.startsWith('addresses'))
        .map(({ id, name }) => ({ value: id, label: name }))
      return {
        title: 'Add to stock',
        body: html`<p>Each address is in stock once, across all products. Addresses that are already in this stock do not change. A different endpoint replaces the old one, also for rented addresses.</p>
${formOf(form, {
  fields: [
    textAreaOf(
      {
        name: 'text',
        label: 'Addresses',
        hint: 'One per line, or JSON as in files for "stock add". The fields below fill in what the lines leave out.',
      },
      form,
    ),
    selectOf(
      {
        name: 'product',
        label: 'Product',
        hint: 'For addresses without a product.',
        choices: [{ value: '', label: 'in each line' }, ...dedicated],
      },
      form,
    ),
    fieldOf(
      {
        name: 'country',
        label: 'Country',
        hint: 'Alpha-3 such as USA, for addresses without a country.',
        maxlength: 3,
      },
      form,
    ),
    fieldOf({ name: 'city', label: 'City', hint: 'Empty: none.', maxlength: 80 }, form),
    fieldOf(
      {
        name: 'asn',
        label: 'ASN',
        hint: 'The number of the network. Empty: none.',
        inputmode: 'numeric',
        maxlength: 10,
      },
      form,
    ),
    fieldOf({ name: 'asnOrg', label: 'Network name', hint: 'Empty: none.', maxlength: 120 }, form),
    fieldOf(
      { name: 'carrier', label: 'Carrier', hint: 'The carrier id of mobile addresses.', maxlength: 64 },
      form,
    ),
    selectOf({ name: 'service', label: 'Service', hint: 'For mobile addresses.', choices: services }, form),
  ],
  submit: 'Add to stock',
  back: path,
})}`,
        cliEquivalents: [
          'npx farebox stock add --product isp-static --country USA --addresses 203.0.113.7,203.0.113.8',
          'npx farebox stock add --file FILE',
        ],
      }
    },
    act: {
      once: true,
      run: async (visit, typed) => {
        const asn = asnOf(typed.text('asn'))
        const text = typed.text('text')
        const problems = problemsIn({
          text: text === '' && 'Type at least one address.',
          asn: asn === undefined && 'Type the number of a network, 1 to 4294967295.',
        })
        if (problems) return refused(problems)
        const textOrNull = (name: string): string | null => typed.text(name) || null
        const parsed = parseStocking((id) => catalog.current().resolve(id), {
          product: textOrNull('product'),
          country: textOrNull('country')?.toUpperCase() ?? null,
          text,
          defaults: {
            city: textOrNull('city'),
            asn: asn ?? null,
            asnOrg: textOrNull('asnOrg'),
            carrierId: textOrNull('carrier'),
            service: services.find(({ value }) => value === typed.text('service'))?.value || null,
          },
        })
        if (!parsed.ok) {
          const problemTexts = parsed.problems.slice(0, 20).map(problemText).join('; ')
          const ellipsis = parsed.problems.length > 20 ? ' …' : ''
          return refused({
            text: `${countText(parsed.problems.length, 'problem')}: ${problemTexts}${ellipsis}`,
          })
        }
        const added: Added[] = []
        for (const stock of parsed.stocks) {
          const { report } = await addAddresses(runner, await stockLogins.store(stock), visit.cause)
          await stockLogins.drop(report.formerLogins)
          added.push({ stock, report })
        }
        return reportView(added)
      },
    },
  }),
]
