import { type LiveStock, noStock } from '../../domain/catalog/availability.ts'
import { type Catalog, countriesOf, periodsOf } from '../../domain/catalog/catalog.ts'
import { type DedicatedProduct, isDedicated, type Product } from '../../domain/catalog/product.ts'
import { countryOf } from '../../kernel/countries.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type Filters, filterForm } from '../../platform/ui/list.ts'
import { type ConsolePage, goTo, openPage, type Visit } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { amountText, dollarText, perText, stateText } from '../../platform/ui/text.ts'
import { priceListView, productView } from './views.ts'

const root = '/prices'
const usualDays = 30
const usualCountry = 'USA'

type PriceReads = { readonly catalog: { current(): Catalog }; readonly stock: LiveStock }
type ProductView = ReturnType<typeof productView>

const pathOf = (id: string): string => `${root}/${encodeURIComponent(id)}`

const stateOf = ({ state, available }: Pick<ProductView, 'state' | 'available'>): Html => {
  if (state === 'parked') return stateText('paused', 'off')
  return available ? stateText('for sale', 'good') : stateText('sold out', 'warn')
}

/** The next step of a visitor who is not signed in. */
const toOrder = ({ visitor }: Visit): Html =>
  visitor === null ? html`<p><a href="/console/sign-in">Sign in to order</a></p>` : nothing

/** A product and its lowest price in the schema.org vocabulary. */
const offerOf = ({ name, description, publishedPrice: { fromCents, currency }, available }: ProductView) => ({
  '@type': 'Product',
  name,
  description,
  offers: {
    '@type': 'AggregateOffer',
    priceCurrency: currency,
    lowPrice: amountText(fromCents).replaceAll(',', ''),
    availability: `https://schema.org/${available ? 'InStock' : 'OutOfStock'}`,
  },
})

const list = async ({ catalog, stock }: PriceReads, visit: Visit): Promise<View> => {
  const counts = await stock.all()
  const views = catalog
    .current()
    .products.filter(({ state }) => state !== 'retired')
    .map((product) => productView(product, counts.get(product.id) ?? noStock))
  const description = `The prices of all proxies: ${views.map(({ name }) => name).join(', ')}. Prepaid, in US dollars.`
  return {
    title: 'Prices',
    indexed: {
      path: root,
      description,
      data: {
        '@type': 'ItemList',
        name: 'Prices',
        itemListElement: views.map((view, at) => ({
          '@type': 'ListItem',
          position: at + 1,
          item: offerOf(view),
        })),
      },
    },
    body: html`<p>Prepaid, in US dollars. An order is paid from the wallet or on the page of a payment provider.</p>
${tableOf({
  caption: 'Products and their lowest prices',
  rows: views,
  empty: 'There are no products yet.',
  columns: [
    {
      title: 'Product',
      head: true,
      cell: ({ id, name, description: descriptionText }) =>
        html`<a href="${pathOf(id)}">${name}</a><br><small>${descriptionText}</small>`,
    },
    { title: 'Family', cell: ({ family }) => family },
    { title: 'From, USD', number: true, cell: ({ publishedPrice }) => amountText(publishedPrice.fromCents) },
    { title: 'Per', cell: (view) => perText(view.publishedPrice.per) },
    { title: 'State', cell: stateOf },
  ],
})}
${toOrder(visit)}`,
    cliEquivalents: ['curl $API/products -H "X-API-Key: $KEY"'],
  }
}

/** The list prices of a product by quantity. */
export const tiersTable = ({ tiers = [], unit }: Pick<ProductView, 'tiers' | 'unit'>): Html =>
  tableOf({
    caption: 'List prices of one unit',
    rows: tiers,
    columns: [
      { title: `From, ${unit}`, number: true, head: true, cell: ({ fromQuantity }) => String(fromQuantity) },
      { title: `Per ${unit}, USD`, number: true, cell: ({ unitPriceCents }) => amountText(unitPriceCents) },
    ],
  })

type Line = ReturnType<typeof priceListView>['lines'][number]

const namesOf = (values: readonly string[], nameOf: (value: string) => string) =>
  Object.fromEntries(values.map((value) => [value, nameOf(value)]))

const rotationOf = (line: Line): string => {
  if (!('rotation' in line)) return ''
  return line.rotation === 'by_link' ? 'by link' : `every ${String(line.rotationMinutes)} minutes`
}

/** The prices of dedicated addresses in a country: one line for each period, or for each mobile line of one period. */
const linesOf = async (
  { catalog, stock }: PriceReads,
  product: Product & DedicatedProduct,
  { query }: Visit,
): Promise<Html> => {
  const countries = countriesOf(product)
  const country =
    countries.find((code) => code === query.get('country')?.toUpperCase()) ??
    countries.find((code) => code === usualCountry) ??
    countries[0]
  if (country === undefined) return html`<p>There is no price now.</p>`
  const periods = periodsOf(product, country).toSorted((one, other) => one - other)
  const mobile = product.shape === 'addresses_mobile'
  const days =
    periods.find((each) => String(each) === query.get('days')) ??
    periods.find((each) => each === usualDays) ??
    periods[0]!
  const { lines } = priceListView(
    product,
    { country, quantity: product.minQuantity, periodDays: mobile ? days : null },
    { stock: await stock.of(product.id), terms: null, importedAt: catalog.current().importedAt },
  )
  const filters: Filters = {
    country: {
      label: 'Country',
      choices: namesOf(countries, (code) => countryOf(code).name),
      standard: country,
    },
    ...(mobile && {
      days: {
        label: 'Period',
        choices: namesOf(periods.map(String), (each) => `${each} days`),
        standard: String(days),
      },
    }),
  }
  const { minQuantity, unit } = product
  return html`${filterForm(pathOf(product.id), filters, { country, days: String(days) })}
${tableOf({
  caption: `Prices of ${minQuantity} ${unit} in ${countryOf(country).name}`,
  rows: lines,
  empty: 'There is no price for this country.',
  columns: [
    mobile
      ? {
          title: 'Carrier',
          head: true,
          cell: (line: Line) => ('carrier' in line ? String(line.carrier) : ''),
        }
      : { title: 'Period', head: true, cell: ({ period }: Line) => period },
    { title: `${minQuantity} ${unit}, USD`, number: true, cell: ({ listCents }) => amountText(listCents) },
    ...(mobile
      ? [
          { title: 'Service', cell: (line: Line) => ('service' in line ? String(line.service) : '') },
          { title: 'Rotates', cell: rotationOf },
        ]
      : []),
    {
      title: 'State',
      cell: ({ available }) => (available ? stateText('for sale', 'good') : stateText('sold out', 'warn')),
    },
  ],
})}`
}

const pricePage = async (services: PriceReads, visit: Visit) => {
  const product = services.catalog.current().resolve(visit.params.id ?? '')
  if (!product || product.state === 'retired') throw refuse('not_found', 'no product has this id')
  if (product.id !== visit.params.id) return goTo(pathOf(product.id))
  const view = productView(product, isDedicated(product) ? await services.stock.of(product.id) : noStock)
  const { name, description, features, protocols, minQuantity, maxQuantity, unit, publishedPrice } = view
  return {
    title: `${name} prices`,
    indexed: {
      path: pathOf(product.id),
      description: `${description} From ${dollarText(publishedPrice.fromCents)} per ${perText(view.publishedPrice.per)}.`,
      data: offerOf(view),
    },
    body: html`<p>${description}</p>
${features.length === 0 ? null : html`<ul>${features.map((feature) => html`<li>${feature}</li>`)}</ul>`}
${detailsOf([
  ['State', stateOf(view)],
  ['From', `${dollarText(publishedPrice.fromCents)} per ${perText(publishedPrice.per)}`],
  ['Protocols', protocols.join(', ')],
  ['Quantity', `${minQuantity} to ${maxQuantity} ${unit}`],
])}
<h2>Prices</h2>
${isDedicated(product) ? await linesOf(services, product, visit) : tiersTable(view)}
<p><a href="${root}">All prices</a></p>
${toOrder(visit)}`,
    cliEquivalents: [
      `curl $API/products/${product.id} -H "X-API-Key: $KEY"`,
      `curl "$API/products/${product.id}/price?quantity=${minQuantity}" -H "X-API-Key: $KEY"`,
      ...(isDedicated(product)
        ? [`curl "$API/products/${product.id}/price-list?country=${usualCountry}" -H "X-API-Key: $KEY"`]
        : []),
    ],
  }
}

/** The public price list: the API's quotes for an account that is not a reseller. */
export const pricePages = (services: PriceReads): readonly ConsolePage[] => [
  openPage({
    path: '/prices',
    name: 'showPrices',
    summary: 'All products and their prices',
    show: (visit) => list(services, visit),
  }),
  openPage({
    path: '/prices/{id}',
    name: 'showPrice',
    summary: 'The prices of one product',
    show: (visit) => pricePage(services, visit),
  }),
]
