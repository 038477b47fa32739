import {
  freeCount,
  type LiveStock,
  orderableCountries,
  type StockCount,
} from '../../domain/catalog/availability.ts'
import {
  type Catalog,
  countriesOf,
  metaOf,
  numberOf,
  periodsOf,
  ratesIn,
} from '../../domain/catalog/catalog.ts'
import type { Quote } from '../../domain/catalog/pricing.ts'
import { isDedicated, type Product } from '../../domain/catalog/product.ts'
import { countryOf } from '../../kernel/countries.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import {
  type Choice,
  choicesFrom,
  emptyFormInput,
  type FormInput,
  fieldOf,
  hiddenOf,
  type Problems,
  selectOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  fieldTextsOf,
  goTo,
  type PageOutcome,
  refused,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import {
  countText,
  dollarText,
  parseWholeCents,
  perText,
  queryText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { productView as catalogView, type Quotes, quoteView, tiersTable } from '../catalog/index.ts'
import type { ReadBalance } from '../wallet/index.ts'
import {
  chargeOf,
  noQuote,
  orderOfForm,
  payPart,
  quotedView,
  quoteForm,
  quoteOrProblems,
  refusedPurchase,
} from './buy-form.ts'
import type { PlaceOrder } from './place-order.ts'
import { payerOf } from './prepare-order.ts'

/** The values of the order form, as the texts of the API's price query. */
type OrderFormValues = { readonly quantity: string } & Readonly<Record<string, string>>

const familyNames: Readonly<Record<Product['family'], string>> = {
  residential: 'Residential',
  isp: 'ISP',
  mobile: 'Mobile',
  ipv4: 'IPv4',
  ipv6: 'IPv6',
}

const daysText = (days: number): string => countText(days, 'day')

/** The largest quantity that can be sold in a country: of the pool with the most addresses. */
const freeOf = (product: Product, counts: readonly StockCount[], country: string): number =>
  isDedicated(product)
    ? Math.max(0, ...ratesIn(product, country).map(({ target }) => freeCount(counts, target)))
    : 0

/** The text if it is a choice, else the usual one, else the first choice. */
const choiceOf = (choices: readonly string[], text: string, usual = ''): string =>
  choices.includes(text) ? text : choices.includes(usual) ? usual : (choices[0] ?? '')

/** The values of the form. Impossible choices are replaced by the usual ones; the quantity stays as typed. */
const parseOrderForm = (
  product: Product,
  counts: readonly StockCount[],
  text: (name: string) => string,
): OrderFormValues => {
  const quantity = text('quantity') === '' ? String(product.minQuantity) : text('quantity')
  if (!isDedicated(product)) return { quantity }
  const stocked = orderableCountries(product, counts)
  const countries = countriesOf(product)
  const defaultCountry = stocked.has('USA') ? 'USA' : (countries.find((each) => stocked.has(each)) ?? 'USA')
  const country = choiceOf(countries, text('country').toUpperCase(), defaultCountry)
  const period_days = choiceOf(periodsOf(product, country).map(String), text('period_days'), '30')
  const lines = ratesIn(product, country).map(({ target }) => target)
  const chosen = (name: string, values: readonly (string | number | null)[]) => {
    const value = text(name)
    return value !== '' && values.some((each) => String(each) === value) ? { [name]: value } : {}
  }
  return {
    quantity,
    country,
    period_days,
    ...(product.shape === 'addresses_mobile' && {
      ...chosen(
        'carrier_id',
        lines.map(({ carrierId }) => carrierId),
      ),
      ...chosen(
        'service',
        lines.map(({ service }) => service),
      ),
      ...chosen(
        'rotation_minutes',
        lines.map(({ rotationMinutes }) => rotationMinutes),
      ),
    }),
  }
}

/** Fields that may be empty; the service then chooses. */
const optionalFields = ['carrier_id', 'service', 'rotation_minutes']
const metaFields = ['country', 'period_days', ...optionalFields]

/**
 * The targeting of the form: location and period. Empty optional fields, such as the carrier, are those of the quote,
 * unless the quote was for other fields.
 */
const parseMetaFields = ({ text }: FormInput): Readonly<Record<string, unknown>> => {
  const isAsQuoted = metaFields.every(
    (name) => text(name) === '' || text(`quoted_${name}`) === '' || text(name) === text(`quoted_${name}`),
  )
  const textOf = (name: string): string =>
    text(name) === '' && isAsQuoted && optionalFields.includes(name) ? text(`quoted_${name}`) : text(name)
  return Object.fromEntries(
    metaFields
      .map((name) => [name, textOf(name)] as const)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [name, /days|minutes/.test(name) ? numberOf(value) : value]),
  )
}

const cheapest: Choice = { value: '', label: 'the cheapest in stock' }

const distinct = <Value extends string | number>(values: readonly (Value | null)[]): readonly Value[] => [
  ...new Set(values.filter((value) => value !== null)),
]

/** The fields that determine the quote. */
const fieldsOf = (
  product: Product,
  counts: readonly StockCount[],
  values: OrderFormValues,
  problems: Problems,
): Html => {
  const form = { typed: emptyFormInput, problems }
  const select = (name: string, label: string, choices: readonly Choice[]): Html =>
    selectOf({ name, label, value: values[name] ?? '', choices }, form)
  const quantity = fieldOf(
    {
      name: 'quantity',
      label: `Quantity, ${product.unit}`,
      hint: `${product.minQuantity} to ${product.maxQuantity}.`,
      inputmode: 'numeric',
      maxlength: 9,
      value: values.quantity,
    },
    form,
  )
  if (!isDedicated(product)) return quantity
  const { country = '' } = values
  const lines = ratesIn(product, country).map(({ target }) => target)
  const countries = countriesOf(product)
    .map((alpha3) => ({ ...countryOf(alpha3), free: freeOf(product, counts, alpha3) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  const mobileFields =
    product.shape !== 'addresses_mobile'
      ? null
      : html`${select('carrier_id', 'Carrier', [
          cheapest,
          ...product.carriers
            .filter((carrier) => carrier.country === country)
            .map(({ id, name }) => ({ value: id, label: name })),
        ])}
${select('service', 'Modem', [cheapest, ...choicesFrom(distinct(lines.map(({ service }) => service)))])}
${select('rotation_minutes', 'Address changes', [
  cheapest,
  ...distinct(lines.map((line) => line.rotationMinutes)).map((minutes) => ({
    value: String(minutes),
    label: minutes === 0 ? 'by link' : `every ${countText(minutes, 'minute')}`,
  })),
])}`
  return html`${quantity}
${select(
  'country',
  'Country',
  countries.map(({ alpha3, name, free }) => ({
    value: alpha3,
    label: free === 0 ? `${name} (sold out)` : name,
  })),
)}
<div id="live-target" class="group" data-live>
${select(
  'period_days',
  'Period',
  periodsOf(product, country).map((days) => ({ value: String(days), label: daysText(days) })),
)}
${mobileFields}</div>`
}

/** The products for sale, and a page of each with its quote and its order form. */
export const cataloguePages = ({
  catalog,
  stock,
  reads,
  quotes,
  placeOrder,
  readBalance,
}: {
  readonly catalog: { current(): Pick<Catalog, 'products' | 'resolve'> }
  readonly stock: Pick<LiveStock, 'all'>
  readonly reads: Pick<Reads, 'settledHere'>
  readonly quotes: Quotes
  readonly placeOrder: PlaceOrder
  readonly readBalance: ReadBalance
}): readonly ConsolePage[] => {
  const productOf = ({ params }: AccountVisit): Product => {
    const product = catalog.current().resolve(params.id ?? '')
    if (!product) throw refuse('not_found', 'no product has this id')
    return product
  }

  const orderPart = async (
    visit: AccountVisit,
    product: Product,
    figures: Quote,
    counts: readonly StockCount[],
  ): Promise<Html> => {
    const { target } = figures
    if (!quoteView(product, figures, counts).available)
      return html`<p>${product.state === 'active' && target !== null ? `Only ${countText(freeCount(counts, target), 'address is', 'addresses are')} free there.` : 'It cannot be ordered now.'}</p>`
    const wallet = await readBalance(visit.account.accountId)
    const quotedFields = Object.entries(target === null ? {} : metaOf(target))
    return html`${payPart(visit, { cents: chargeOf(figures), wallet })}${quotedFields.map(([name, value]) => hiddenOf(`quoted_${name}`, String(value)))}`
  }

  const quoteCard = async (
    visit: AccountVisit,
    product: Product,
    figures: Quote,
    counts: readonly StockCount[],
  ): Promise<Html> => {
    const { quantity, target, reseller } = figures
    const carrier =
      product.shape === 'addresses_mobile'
        ? product.carriers.find(({ id }) => id === target?.carrierId)?.name
        : undefined
    return html`<p class="figure">${dollarText(chargeOf(figures))}</p>
<p>${quantity} ${product.unit}${target === null ? null : html`, ${countryOf(target.country).name}, ${daysText(target.periodDays)}`}${product.shape === 'gateway_time' ? html`, ${daysText(product.periodDays)}` : null}${carrier === undefined ? null : html`<br><small>${carrier}, ${target?.service ?? ''}, ${target?.rotationMinutes === 0 ? 'changes by link' : `changes every ${countText(target?.rotationMinutes ?? 0, 'minute')}`}</small>`}</p>
${reseller === null ? null : html`<p><small>Your cost. Your customers pay ${dollarText(reseller.customerCents)}.</small></p>`}
${await orderPart(visit, product, figures, counts)}`
  }

  const productView = async (visit: AccountVisit): Promise<View | PageOutcome> => {
    const product = productOf(visit)
    const { name, description, features, successorId } = product
    if (product.state === 'retired')
      return {
        title: name,
        body: html`<div class="empty"><p>It is no longer sold.</p>${successorId === null ? null : html`<p><a href="/console/catalogue/${successorId}">See its successor</a></p>`}</div>`,
      }
    const quoteContext = { caller: payerOf(visit), after: null }
    const counts = await quotes.stockOf(product, quoteContext)
    const values = parseOrderForm(product, counts, fieldTextsOf(visit))
    const { figures, problems } = await quoteOrProblems(quotes.quoteOf(product, values, quoteContext))
    const query = queryText(figures === null ? { quantity: String(product.minQuantity) } : values)
    const order = figures && {
      product_id: product.id,
      quantity: figures.quantity,
      ...(figures.target && { fulfillment_meta: metaOf(figures.target) }),
      expected_amount_cents: chargeOf(figures),
    }
    return quotedView(visit, problems, {
      title: name,
      actions: html`<a href="/console/catalogue">All products</a>`,
      body: html`${description === '' ? null : html`<p>${description}</p>`}
${features.length === 0 ? null : html`<ul>${features.map((feature) => html`<li>${feature}</li>`)}</ul>`}
${quoteForm({
  action: `/console/catalogue/${product.id}`,
  fields: fieldsOf(product, counts, values, problems),
  quote: figures === null ? noQuote(problems) : await quoteCard(visit, product, figures, counts),
})}
${isDedicated(product) ? null : html`<h2>List prices</h2>${tiersTable(catalogView(product, counts))}`}`,
      islands: ['live-parts'],
      cliEquivalents: [
        `curl "$API/products/${product.id}/price${query}" -H "X-API-Key: $KEY"`,
        ...(order
          ? [
              `curl $API/orders -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '${JSON.stringify(order)}'`,
            ]
          : []),
      ],
    })
  }

  const order = async (visit: AccountVisit, typed: FormInput) => {
    const product = productOf(visit)
    if (product.state === 'retired') return refused({}, 409)
    const expected = parseWholeCents(typed.text('expected'))
    if (expected === undefined) return refused({})
    const meta = parseMetaFields(typed)
    const quantity = numberOf(typed.text('quantity')) as number
    const body = { quantity, fulfillment_meta: meta, expected_amount_cents: expected }
    try {
      const placed = await placeOrder(
        orderOfForm(visit, typed.key, product.id, body, {
          kind: 'order',
          productId: product.id,
          quantity,
          meta: isDedicated(product) ? meta : undefined,
        }),
      )
      const { orderId } = placed.order.details
      return goTo(`/console/orders/${orderId}`, placed.replayed ? 'This was already ordered.' : 'Ordered.')
    } catch (error) {
      const bought = `${typed.text('quantity')} ${product.unit}`
      return refusedPurchase(error, { bought, quotedCents: expected })
    }
  }

  return [
    accountPage({
      path: '/console/catalogue',
      name: 'showCatalogue',
      summary: 'All products and their lowest prices',
      show: async ({ account }) => {
        await reads.settledHere(account.accountId, 0)
        const counts = await stock.all()
        const products = catalog.current().products.filter(({ state }) => state !== 'retired')
        return {
          title: 'Catalogue',
          body: tableOf({
            caption: 'Products by family',
            rows: products.map((product) => catalogView(product, counts.get(product.id) ?? [])),
            empty: 'There are no products yet.',
            columns: [
              {
                title: 'Product',
                head: true,
                cell: ({ id, name, description }) =>
                  html`<a href="/console/catalogue/${id}">${name}</a>${description === '' ? null : html`<br><small>${description}</small>`}`,
              },
              { title: 'Family', cell: ({ family }) => familyNames[family] },
              {
                title: 'Delivery',
                cell: ({ delivery }) => (delivery === 'lines' ? 'a plan with lines' : 'addresses'),
              },
              {
                title: 'State',
                cell: ({ available, lifecycle }) =>
                  available
                    ? stateText('available', 'good')
                    : lifecycle.state === 'parked'
                      ? html`${stateText('paused', 'off')}${lifecycle.parkedUntil === null ? null : html` <small>until ${timeText(lifecycle.parkedUntil)}</small>`}`
                      : stateText('sold out', 'warn'),
              },
              {
                title: 'From',
                number: true,
                cell: ({ publishedPrice: { fromCents, per } }) =>
                  html`${dollarText(fromCents)} <small>per ${perText(per)}</small>`,
              },
            ],
          }),
          cliEquivalents: ['curl $API/products -H "X-API-Key: $KEY"'],
        }
      },
    }),
    accountPage({
      path: '/console/catalogue/{id}',
      name: 'showProduct',
      summary: 'One product with its quote and its order form',
      show: productView,
      act: { once: 'by key', run: order },
    }),
  ]
}
