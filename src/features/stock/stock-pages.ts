import type pg from 'pg'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { problemText } from '../../domain/catalog/catalog-rules.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
  selectOf,
  textAreaOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, type PersonVisit, personPage, refusedView, show } from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { countText, stateText } from '../../platform/ui/text.ts'
import { addAddresses, type StockingReport } from './add-stock.ts'
import { type ParsedStock, parseStocking } from './parse-stock.ts'
import { type PoolKey, poolsAfter } from './stock-counts.ts'
import type { StockLogins } from './stock-logins.ts'

const path = '/console/operator/stock'

const keyText = ({ productId, country, carrierId, service }: PoolKey): string =>
  [productId, country, carrierId ?? '', service ?? ''].join('~')

const keyOf = (text: string | null): PoolKey | null => {
  const [productId, country, carrierId, service, ...excess] = (text ?? '').split('~')
  return productId === undefined || country === undefined || service === undefined || excess.length > 0
    ? null
    : { productId, country, carrierId: carrierId || null, service: service || null }
}

type StockReads = { readonly pool: pg.Pool; readonly clock: Clock; readonly caughtUp: CaughtUp }

const stock = async ({ pool, clock, caughtUp }: StockReads, { query }: PersonVisit) => {
  const before = query.get('before')
  const after = keyOf(before)
  await caughtUp()
  const poolRows = await poolsAfter({ pool, clock }, { after, limit: pageRows + 1 })
  const { rows, next } = pagedOf(poolRows, keyText)
  return show({
    title: 'Stock',
    acts: html`<a class="button first" href="${path}/add">Add addresses</a>`,
    body: html`<p>Addresses that dedicated products are sold from. One that was given back rests for a quarter of an hour before it is sold again.</p>
${tableOf({
  caption: 'Pools of addresses, by product and country',
  rows,
  empty: html`<p>${after === null ? 'Nothing is stocked.' : 'No pool follows.'}</p>`,
  columns: [
    { title: 'Product', head: true, cell: ({ productId }) => productId },
    { title: 'Country', cell: ({ country }) => country },
    {
      title: 'Line',
      cell: ({ carrierId, service }) => [carrierId, service].filter((word) => word !== null).join(', '),
    },
    { title: 'In stock', number: true, cell: ({ total }) => String(total) },
    { title: 'Rented', number: true, cell: ({ rented }) => String(rented) },
    { title: 'Resting', number: true, cell: ({ resting }) => String(resting) },
    { title: 'Free', number: true, cell: ({ available }) => String(available) },
    {
      title: 'State',
      cell: ({ available }) =>
        available > 0 ? stateText('for sale', 'good') : stateText('sold out', 'warn'),
    },
  ],
})}
${pagerOf(path, {}, { before: after === null ? null : before, next }, { first: 'From the start', next: 'More pools' })}`,
    same: ['npx farebox stock list', 'npx farebox stock add --file FILE'],
  })
}

/** The stock by pool. */
export const stockPages = (services: StockReads): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'showStock',
    summary: 'Pools of dedicated addresses: in stock, rented, resting, free',
    for: ['operator'],
    nav: { label: 'Stock', group: 'Operator' },
    show: (visit) => stock(services, visit),
  }),
]

const stockingPath = '/console/operator/stock/add'
/** The largest number of addresses that a page lists. */
const maxNamed = 50

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

type StockingServices = {
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
  readonly runner: CommandRunner
  readonly stockLogins: Pick<StockLogins, 'store' | 'drop'>
}

const view = (
  catalog: StockingServices['catalog'],
  visit: PersonVisit,
  typed: FormInput,
  problems: Problems,
): View => {
  const dedicated = catalog
    .current()
    .products.filter(({ shape }) => shape.startsWith('addresses'))
    .map(({ id, name }) => ({ value: id, label: name }))
  return {
    title: 'Add to the stock',
    body: html`${problemsOf(problems)}
<p>Each address is in stock once, across all products. One that is in this stock already is left as it is; named with another endpoint, it is reached by that one from now on, also while it is rented.</p>
<form method="post" action="${stockingPath}" class="stack" novalidate>
${keyField(visit.formKey)}
${textAreaOf({ name: 'text', label: 'Addresses', hint: 'One a line, or JSON as a file of "stock add" has it. What lines of JSON do not say comes from below.' }, typed, problems)}
${selectOf({ name: 'product', label: 'Product', hint: 'For addresses that do not say it.', choices: [{ value: '', label: 'each says its own' }, ...dedicated], value: typed.text('product') }, problems)}
${fieldOf({ name: 'country', label: 'Country', hint: 'Alpha-3 such as USA, for addresses that do not say it.', maxlength: 3 }, typed, problems)}
${fieldOf({ name: 'city', label: 'City', hint: 'Empty: none.', maxlength: 80 }, typed, problems)}
${fieldOf({ name: 'asn', label: 'ASN', hint: 'The number of the network. Empty: none.', inputmode: 'numeric', maxlength: 10 }, typed, problems)}
${fieldOf({ name: 'asnOrg', label: 'Whose network it is', hint: 'Empty: nobody’s.', maxlength: 120 }, typed, problems)}
${fieldOf({ name: 'carrier', label: 'Carrier', hint: 'Of mobile addresses: its id.', maxlength: 64 }, typed, problems)}
${selectOf({ name: 'service', label: 'Service', hint: 'Of mobile addresses.', choices: services, value: typed.text('service') }, problems)}
<div class="acts"><button class="first">Add to the stock</button> <a href="/console/operator/stock">Back</a></div>
</form>`,
    same: [
      'npx farebox stock add --product isp-static --country USA --addresses 203.0.113.7,203.0.113.8',
      'npx farebox stock add --file FILE',
    ],
  }
}

const namesOf = (items: readonly string[]): string =>
  `${items.slice(0, maxNamed).join(', ')}${items.length > maxNamed ? ` and ${items.length - maxNamed} more` : ''}`

type Added = { readonly stock: ParsedStock; readonly report: StockingReport }

const listed = (title: string, items: readonly string[]): Html =>
  items.length === 0 ? nothing : html`<h2>${title}</h2>\n<p>${namesOf(items)}</p>\n`

const reportView = (added: readonly Added[]): View => {
  const collect = (of: (report: StockingReport) => readonly string[]) =>
    added.flatMap(({ report }) => of(report))
  return {
    title: 'Added to the stock',
    body: html`<ul>${added.map(
      ({ stock: { productId, country }, report }) =>
        html`<li>${countText(report.added.length, 'address', 'addresses')} of ${productId} in ${country}</li>\n`,
    )}</ul>
${listed(
  'In the stock of something else: not added',
  collect(({ elsewhere }) =>
    elsewhere.map(({ ip, productId, country }) => `${ip} (${productId} in ${country})`),
  ),
)}${listed(
  'Reached by another endpoint now',
  collect(({ changed }) => changed),
)}${listed(
  'In this stock already',
  collect(({ alreadyStocked }) => alreadyStocked),
)}<p class="acts"><a class="button first" href="/console/operator/stock">To the stock</a> <a class="button" href="${stockingPath}">Add more</a></p>`,
    same: ['npx farebox stock list'],
  }
}

const add = async (
  { catalog, runner, stockLogins }: StockingServices,
  visit: PersonVisit,
  typed: FormInput,
) => {
  const asn = asnOf(typed.text('asn'))
  const service = services.find(({ value }) => value === typed.text('service'))?.value || null
  const text = typed.text('text')
  const problems: Problems = {
    ...(text === '' && { text: 'Type at least one address.' }),
    ...(asn === undefined && { asn: 'Type the number of a network, 1 to 4294967295.' }),
  }
  if (Object.keys(problems).length > 0) return refusedView(view(catalog, visit, typed, problems))
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
      service,
    },
  })
  if (!parsed.ok) {
    const problemsText = parsed.problems.slice(0, 20).map(problemText).join('; ')
    const ellipsis = parsed.problems.length > 20 ? ' …' : ''
    return refusedView(
      view(catalog, visit, typed, {
        text: `${countText(parsed.problems.length, 'problem')}: ${problemsText}${ellipsis}`,
      }),
    )
  }
  const added: Added[] = []
  for (const stock of parsed.stocks) {
    const { report } = await addAddresses(runner, await stockLogins.store(stock), visit.cause)
    await stockLogins.drop(report.formerLogins)
    added.push({ stock, report })
  }
  return show(reportView(added))
}

/** Adds addresses to stock, as the command does. */
export const stockingPages = (services: StockingServices): readonly ConsolePage[] => [
  personPage({
    path: stockingPath,
    name: 'addStock',
    summary: 'Puts addresses in stock',
    for: ['operator'],
    confirmed: true,
    show: async (visit) => show(view(services.catalog, visit, emptyFormInput, {})),
    act: { once: true, run: (visit, typed) => add(services, visit, typed) },
  }),
]
