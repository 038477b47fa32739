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
import type { Assets } from '../../platform/ui/assets.ts'
import {
  type Choice,
  emptyFormInput,
  type FormInput,
  fieldOf,
  hiddenOf,
  type Problems,
  parseWholeCents,
  problemOfRefusal,
  selectOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { countText, dollarText, perText, stateText, timeText } from '../../platform/ui/text.ts'
import { productView, type Quotes, quoteView } from '../catalog/index.ts'
import type { ReadBalance } from '../wallet/index.ts'
import { chargeOf, noQuote, orderOfForm, payPart, quoteForm, refusedPurchase } from './buy-form.ts'
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
const oneOf = (choices: readonly string[], text: string, usual = ''): string =>
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
  const country = oneOf(countries, text('country').toUpperCase(), defaultCountry)
  const period_days = oneOf(periodsOf(product, country).map(String), text('period_days'), '30')
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
const fields = (
  product: Product,
  counts: readonly StockCount[],
  formValues: OrderFormValues,
  problems: Problems,
): Html => {
  const quantity = fieldOf(
    {
      name: 'quantity',
      label: `Quantity, ${product.unit}`,
      hint: `${product.minQuantity} to ${product.maxQuantity}.`,
      inputmode: 'numeric',
      maxlength: 9,
      value: formValues.quantity,
    },
    emptyFormInput,
    problems,
  )
  if (!isDedicated(product)) return quantity
  const { country = '', period_days = '', carrier_id = '', service = '', rotation_minutes = '' } = formValues
  const lines = ratesIn(product, country).map(({ target }) => target)
  const countries = countriesOf(product)
    .map((alpha3) => ({ ...countryOf(alpha3), free: freeOf(product, counts, alpha3) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  return html`${quantity}
${selectOf(
  {
    name: 'country',
    label: 'Country',
    value: country,
    choices: countries.map(({ alpha3, name, free }) => ({
      value: alpha3,
      label: free === 0 ? `${name} (sold out)` : name,
    })),
  },
  problems,
)}
<div id="live-target" class="group" data-live>
${selectOf(
  {
    name: 'period_days',
    label: 'For',
    value: period_days,
    choices: periodsOf(product, country).map((days) => ({ value: String(days), label: daysText(days) })),
  },
  problems,
)}
${
  product.shape !== 'addresses_mobile'
    ? null
    : html`${selectOf({
        name: 'carrier_id',
        label: 'Carrier',
        value: carrier_id,
        choices: [
          cheapest,
          ...product.carriers
            .filter((carrier) => carrier.country === country)
            .map(({ id, name }) => ({ value: id, label: name })),
        ],
      })}
${selectOf({
  name: 'service',
  label: 'Modem',
  value: service,
  choices: [
    cheapest,
    ...distinct(lines.map((line) => line.service)).map((value) => ({ value, label: value })),
  ],
})}
${selectOf({
  name: 'rotation_minutes',
  label: 'Address changes',
  value: rotation_minutes,
  choices: [
    cheapest,
    ...distinct(lines.map((line) => line.rotationMinutes)).map((minutes) => ({
      value: String(minutes),
      label: minutes === 0 ? 'by link' : `every ${countText(minutes, 'minute')}`,
    })),
  ],
})}`
}</div>`
}

/** The products for sale. */
export const cataloguePages = ({
  catalog,
  stock,
  reads,
}: {
  readonly catalog: { current(): Pick<Catalog, 'products'> }
  readonly stock: Pick<LiveStock, 'all'>
  readonly reads: Pick<Reads, 'settledHere'>
}): readonly ConsolePage[] => {
  const list = async ({ account }: AccountVisit) => {
    await reads.settledHere(account.accountId, 0)
    const counts = await stock.all()
    const products = catalog.current().products.filter(({ state }) => state !== 'retired')
    return show({
      title: 'Catalogue',
      body: tableOf({
        caption: 'Products by family',
        rows: products.map((product) => productView(product, counts.get(product.id) ?? [])),
        empty: html`<p>Nothing is sold yet.</p>`,
        columns: [
          {
            title: 'Product',
            head: true,
            cell: ({ id, name, description }) =>
              html`<a href="/console/catalogue/${id}">${name}</a>${description === '' ? null : html`<br><small>${description}</small>`}`,
          },
          { title: 'Family', cell: ({ family }) => familyNames[family] },
          {
            title: 'You get',
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
      same: ['curl $API/products -H "X-API-Key: $KEY"'],
    })
  }

  return [
    accountPage({
      path: '/console/catalogue',
      name: 'showCatalogue',
      summary: 'What is sold, and from which price',
      nav: { label: 'Catalogue' },
      show: list,
    }),
  ]
}

/** A page of each product with its quote and its order form. */
export const productPages = ({
  catalog,
  quotes,
  placeOrder,
  readBalance,
  island,
}: {
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
  readonly quotes: Quotes
  readonly placeOrder: PlaceOrder
  readonly readBalance: ReadBalance
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const productOf = ({ params }: AccountVisit): Product => {
    const product = catalog.current().resolve(params.id ?? '')
    if (!product) throw refuse('not_found', 'no product has this id')
    return product
  }

  const orderForm = async (
    visit: AccountVisit,
    product: Product,
    figures: Quote,
    counts: readonly StockCount[],
  ) => {
    const cents = chargeOf(figures)
    const balanceCents = await readBalance(visit.account.accountId)
    const { available } = quoteView(product, figures, counts)
    const { target } = figures
    if (!available)
      return html`<p>${product.state === 'active' && target !== null ? `${countText(freeCount(counts, target), 'address is', 'addresses are')} free there, fewer than these.` : 'It cannot be ordered now.'}</p>`
    const line = Object.entries(target === null ? {} : metaOf(target))
    return html`${payPart(visit, { cents, balanceCents })}${line.map(([name, value]) => hiddenOf(`quoted_${name}`, String(value)))}`
  }

  const quoteCard = async (
    visit: AccountVisit,
    product: Product,
    figures: Quote,
    counts: readonly StockCount[],
  ): Promise<Html> => {
    const cents = chargeOf(figures)
    const { quantity, target, reseller } = figures
    const carrier =
      product.shape === 'addresses_mobile'
        ? product.carriers.find(({ id }) => id === target?.carrierId)?.name
        : undefined
    return html`<p class="figure">${dollarText(cents)}</p>
<p>${quantity} ${product.unit}${target === null ? null : html`, ${countryOf(target.country).name}, ${daysText(target.periodDays)}`}${product.shape === 'gateway_time' ? html`, ${daysText(product.periodDays)}` : null}${carrier === undefined ? null : html`<br><small>${carrier}, ${target?.service ?? ''}, ${target?.rotationMinutes === 0 ? 'changes by link' : `changes every ${countText(target?.rotationMinutes ?? 0, 'minute')}`}</small>`}</p>
${reseller === null ? null : html`<p><small>Your cost. A customer of yours pays ${dollarText(reseller.customerCents)}.</small></p>`}
${await orderForm(visit, product, figures, counts)}`
  }

  /** The page with the current quote; `refused` is the message above it after a refused order. */
  const view = async (
    visit: AccountVisit,
    product: Product,
    text: (name: string) => string,
    refused: Html = nothing,
  ) => {
    const quoteContext = { caller: payerOf(visit), after: null }
    const counts = await quotes.stockOf(product, quoteContext)
    const formValues = parseOrderForm(product, counts, text)
    const quoted = await quotes.quoteOf(product, formValues, quoteContext).then(
      ({ figures }) => ({ figures, problems: {} as Problems }),
      (error: unknown) => ({ figures: null, problems: problemOfRefusal(error) }),
    )
    const { figures, problems } = quoted
    const query = new URLSearchParams(
      figures === null ? { quantity: String(product.minQuantity) } : formValues,
    )
    const order = figures && {
      product_id: product.id,
      quantity: figures.quantity,
      ...(figures.target && { fulfillment_meta: metaOf(figures.target) }),
      expected_amount_cents: chargeOf(figures),
    }
    return {
      problems,
      view: {
        title: product.name,
        acts: html`<a href="/console/catalogue">All products</a>`,
        body: html`${refused}${product.description === '' ? null : html`<p>${product.description}</p>`}
${product.features.length === 0 ? null : html`<ul>${product.features.map((feature) => html`<li>${feature}</li>`)}</ul>`}
${quoteForm({
  action: `/console/catalogue/${product.id}`,
  fields: fields(product, counts, formValues, problems),
  quote: figures === null ? noQuote(problems) : await quoteCard(visit, product, figures, counts),
})}`,
        scripts: [island('live-parts')],
        same: [
          `curl "$API/products/${product.id}/price?${query}" -H "X-API-Key: $KEY"`,
          ...(order
            ? [
                `curl $API/orders -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '${JSON.stringify(order)}'`,
              ]
            : []),
        ],
      },
    }
  }

  const retiredView = ({ name, successorId }: Product) => ({
    title: name,
    body: html`<div class="empty"><p>It is not sold any more.</p>${successorId === null ? null : html`<p><a href="/console/catalogue/${successorId}">What is sold in its place</a></p>`}</div>`,
  })

  const order = async (visit: AccountVisit, typed: FormInput) => {
    const product = productOf(visit)
    if (product.state === 'retired') return refusedView(retiredView(product), 409)
    const expected = parseWholeCents(typed.text('expected'))
    const meta = parseMetaFields(typed)
    if (expected === undefined) return refusedView((await view(visit, product, typed.text)).view)
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
      return goTo(`/console/orders/${orderId}`, placed.replayed ? 'It was ordered before.' : 'Ordered.')
    } catch (error) {
      const bought = `${typed.text('quantity')} ${product.unit}`
      const { message, status } = refusedPurchase(error, { bought, quotedCents: expected })
      return refusedView((await view(visit, product, typed.text, message)).view, status)
    }
  }

  return [
    accountPage({
      path: '/console/catalogue/{id}',
      name: 'showProduct',
      summary: 'One product with its quote, and its order',
      show: async (visit) => {
        const product = productOf(visit)
        if (product.state === 'retired') return show(retiredView(product))
        const orderView = await view(visit, product, (name) => visit.query.get(name)?.trim() ?? '')
        return Object.keys(orderView.problems).length === 0
          ? show(orderView.view)
          : refusedView(orderView.view)
      },
      act: { once: 'by key', run: order },
    }),
  ]
}
