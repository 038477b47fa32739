import type pg from 'pg'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { problemText } from '../../domain/catalog/catalog-rules.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { formPage, pageForm, selectField, textAreaField, textField } from '../../platform/ui/form-page.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { listPage } from '../../platform/ui/list.ts'
import { type ConsolePage, operatorPage, refused } from '../../platform/ui/page.ts'
import { countColumn, nameColumn, stateColumn } from '../../platform/ui/table.ts'
import { buttonLink, countText } from '../../platform/ui/text.ts'
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
  listPage(operatorPage, {
    path,
    name: 'showStock',
    summary: 'Pools of dedicated addresses: in stock, rented, resting, free',
    title: 'Stock',
    actions: buttonLink(stockingPath, 'Add addresses', 'first'),
    intro: () =>
      html`<p>Addresses of dedicated products. A returned address rests for 15 minutes before it is sold again.</p>`,
    caption: 'Pools of addresses, by product and country',
    load: async (_, page) => {
      await caughtUp()
      return poolsAfter({ pool, clock }, page)
    },
    parseKey: keyOf,
    keyOf: (row) => keyText(row),
    columns: (_) => [
      nameColumn('Product', ({ productId, country, carrierId, service }) => ({
        text: `${productId}, ${country}`,
        note: [carrierId, service].filter((word) => word !== null).join(', '),
      })),
      countColumn('In stock', ({ total }) => total),
      countColumn('Rented', ({ rented }) => rented),
      countColumn('Resting', ({ resting }) => resting),
      countColumn('Free', ({ available }) => available, { place: 'lead' }),
      stateColumn('State', ({ available }) => (available > 0 ? ['for sale', 'good'] : ['sold out', 'warn'])),
    ],
    empty: html`<p>Nothing is in stock.</p><p>${buttonLink(stockingPath, 'Add addresses', 'first')}</p>`,
    labels: { first: 'First pools', next: 'More pools' },
    file: 'stock',
    cliEquivalents: () => ['bin/farebox stock list', 'bin/farebox stock add --file FILE'],
  }),
]

const services = [
  { value: '', label: 'none' },
  { value: 'dedicated', label: 'dedicated' },
  { value: 'shared', label: 'shared' },
] as const

const asnOf = (text: string) => {
  const asn = /^\d{0,10}$/.test(text) ? Number(text) : -1
  return (asn === 0 && text !== '') || asn < 0 || asn > 4_294_967_295
    ? { problem: 'Type the number of a network, 1 to 4294967295.' }
    : asn || null
}

const orNull = (text: string): string | null => text || null

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
    cliEquivalents: ['bin/farebox stock list'],
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
  formPage(operatorPage, {
    path: stockingPath,
    name: 'addStock',
    summary: 'Adds addresses to stock',
    confirmed: true,
    act: { once: true },
    form: ({ cause }) => {
      const dedicated = catalog
        .current()
        .products.filter(({ shape }) => shape.startsWith('addresses'))
        .map(({ id, name }) => ({ value: id, label: name }))
      return pageForm({
        title: 'Add to stock',
        intro: html`<p>Each address is in stock once, across all products. Addresses that are already in this stock do not change. A different endpoint replaces the old one, also for rented addresses.</p>`,
        fields: {
          text: textAreaField({
            label: 'Addresses',
            hint: 'One per line, or JSON as in files for "stock add". The fields below fill in what the lines leave out.',
            parse: (text) => text || { problem: 'Type at least one address.' },
          }),
          product: selectField({
            label: 'Product',
            hint: 'For addresses without a product.',
            choices: [{ value: '', label: 'in each line' }, ...dedicated],
          }),
          country: textField({
            label: 'Country',
            hint: 'Alpha-3 such as USA, for addresses without a country.',
            maxlength: 3,
            parse: (text) => orNull(text.toUpperCase()),
          }),
          city: textField({ label: 'City', hint: 'Empty: none.', maxlength: 80, parse: orNull }),
          asn: textField({
            label: 'ASN',
            hint: 'The number of the network. Empty: none.',
            inputmode: 'numeric',
            maxlength: 10,
            parse: asnOf,
          }),
          asnOrg: textField({ label: 'Network name', hint: 'Empty: none.', maxlength: 120, parse: orNull }),
          carrier: textField({
            label: 'Carrier',
            hint: 'The carrier id of mobile addresses.',
            maxlength: 64,
            parse: orNull,
          }),
          service: selectField({ label: 'Service', hint: 'For mobile addresses.', choices: services }),
        },
        submit: 'Add to stock',
        back: path,
        cliEquivalents: [
          'bin/farebox stock add --product isp-static --country USA --addresses 203.0.113.7,203.0.113.8',
          'bin/farebox stock add --file FILE',
        ],
        run: async ({ text, product, country, city, asn, asnOrg, carrier, service }) => {
          const parsed = parseStocking((id) => catalog.current().resolve(id), {
            product: product || null,
            country,
            text,
            defaults: { city, asn, asnOrg, carrierId: carrier, service: service || null },
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
            const { report } = await addAddresses(runner, await stockLogins.store(stock), cause)
            await stockLogins.drop(report.formerLogins)
            added.push({ stock, report })
          }
          return reportView(added)
        },
      })
    },
  }),
]
