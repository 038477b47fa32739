import { z } from 'zod'
import type { LiveStock } from '../../domain/catalog/availability.ts'
import { type Catalog, numberOf, parseListQuery, quotable } from '../../domain/catalog/catalog.ts'
import { quantityOf, type RefreshTerms, type TermsOf } from '../../domain/catalog/pricing.ts'
import { type DedicatedProduct, isDedicated, type Product } from '../../domain/catalog/product.ts'
import { refuse } from '../../platform/http/errors.ts'
import { integerQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import {
  OptionsSchema,
  optionsExample,
  PriceListSchema,
  ProductListSchema,
  ProductSchema,
  priceListExample,
  productExample,
  QuoteSchema,
  quoteExample,
} from './catalog-schemas.ts'
import { createQuotes } from './quotes.ts'
import { createProductViews, optionsView, priceListView, quoteView, requireAccepted } from './views.ts'

const params = z.object({
  id: z.string().meta({ description: 'A product id. Former ids of a product also work.' }),
})
const productParam = { id: 'isp-static' }
// Only the product knows the accepted quantities and countries, which a refusal must list.
const quantity = (description: string) =>
  z.string().meta({ description, override: { type: 'integer', minimum: 1 } })
const alpha3 = (keywords: Readonly<Record<string, unknown>> = {}) =>
  z.string().meta({
    description: 'An ISO 3166-1 alpha-3 country code, e.g. USA.',
    override: { type: 'string', pattern: '^[A-Za-z]{3}$', ...keywords },
  })
const periodDays = (description: string) => integerQuery({ min: 1, default: 30, description }).optional()

/** Required in the interface description. The handler refuses a missing value, for the same reason as above. */
const required = (text: z.ZodString) => z.preprocess((value) => value ?? '', text).meta(text.meta() ?? {})

/**
 * The catalogue and its prices: docs/reference/api.md, "Catalogue and prices". Any valid key may read them. Stock is
 * read from the read tables, once they include the caller's own changes.
 */
export const catalogRoutes = (dependencies: {
  readonly catalog: { current(): Catalog }
  readonly stock: LiveStock
  readonly reads: Pick<Reads, 'settledHere'>
  readonly termsOf: TermsOf
  readonly refreshTerms: RefreshTerms
}): readonly Route[] => {
  const { catalog, stock, reads } = dependencies
  const views = createProductViews()

  const productOf = (id: string): Product => {
    const product = catalog.current().resolve(id)
    if (product === undefined)
      throw refuse('not_found', 'no product has this id; GET /api/v1/products lists them')
    return product
  }
  const quotableOf = (id: string): Product => requireAccepted(quotable(productOf(id)))

  const { stockOf, quoteOf, termsFor } = createQuotes(dependencies)

  return [
    route({
      method: 'GET',
      path: '/api/v1/products',
      operationId: 'listProducts',
      summary: 'List products',
      description:
        'All products, sorted by family and id. Retired products are included only with `state=retired`. Base your integration on `shape`, `delivery` and `renewal`, not on ids.',
      tag: 'Catalog',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      query: z.object({
        state: wordQuery(
          ['active', 'parked', 'retired'],
          'Only products in this state.',
          'ProductState',
        ).optional(),
      }),
      responses: {
        200: {
          description: 'The products.',
          body: ProductListSchema,
          example: { products: [productExample] },
        },
      },
      errors: [],
      async handler({ caller, after, query }) {
        await reads.settledHere(caller.accountId, after ?? 0)
        return { status: 200, body: views.list(catalog.current(), query.state, await stock.all()) }
      },
    }),
    route({
      method: 'GET',
      path: '/api/v1/products/{id}',
      operationId: 'getProduct',
      summary: 'Read a product',
      description: 'One product, active or retired, with its `howTo`: the requests that buy the product.',
      tag: 'Catalog',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      params,
      examples: { params: productParam },
      responses: { 200: { description: 'The product.', body: ProductSchema, example: productExample } },
      errors: ['not_found'],
      async handler(request) {
        const product = productOf(request.params.id)
        return { status: 200, body: views.product(product, await stockOf(product, request)) }
      },
    }),
    route({
      method: 'GET',
      path: '/api/v1/products/{id}/price',
      operationId: 'quotePrice',
      summary: 'Quote a price',
      description:
        'The exact amount that an order with the same inputs charges. A parked product has a quote with `available` false. On a reseller key, `amountCents` is the price for the customer.',
      tag: 'Catalog',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      params,
      query: z.object({
        quantity: required(quantity("Whole GB, speed units or IPs, within the product's bounds.")),
        country: alpha3({ default: 'USA' }).optional(),
        period_days: periodDays('For dedicated IPs only: the rental period in days.'),
        carrier_id: z.string().optional().meta({
          description: 'Mobile products only: the id of the carrier. Left out: the cheapest available line.',
        }),
        service: z.string().optional().meta({
          description:
            'Mobile products only: `dedicated` or `shared`. Left out: the cheapest available service.',
        }),
        rotation_minutes: integerQuery({
          min: 0,
          description:
            'For mobile products only: the rotation interval in minutes. 0: rotation by link. Left out: the cheapest available rotation.',
        }).optional(),
      }),
      codes: {
        query: {
          quantity: 'invalid_quantity',
          period_days: 'invalid_period',
          rotation_minutes: 'invalid_targeting',
        },
      },
      examples: { params: productParam, query: { quantity: 5, country: 'USA', period_days: 30 } },
      responses: { 200: { description: 'The quote.', body: QuoteSchema, example: quoteExample } },
      errors: [
        'not_found',
        { code: 'product_unavailable', extra: { successorId: 'residential-basic' } },
        'invalid_quantity',
        'invalid_country',
        'invalid_period',
        'invalid_targeting',
      ],
      async handler(request) {
        const product = productOf(request.params.id)
        const { figures, counts } = await quoteOf(product, request.query, request)
        return { status: 200, body: quoteView(product, figures, counts) }
      },
    }),
    route({
      method: 'GET',
      path: '/api/v1/products/{id}/price-list',
      operationId: 'getPriceList',
      summary: 'Read a price list',
      description:
        'The prices of dedicated IPs in one country. The list has a line for each period; for mobile products, a line for each carrier, service and rotation of one period.',
      tag: 'Catalog',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      params,
      query: z.object({
        country: required(alpha3()),
        quantity: quantity(
          "How many IPs each line prices; the product's smallest order when left out.",
        ).optional(),
        period_days: periodDays('For mobile products only: the rental period in days.'),
      }),
      codes: {
        query: {
          country: 'invalid_country',
          quantity: 'invalid_quantity',
          period_days: 'invalid_period',
        },
      },
      examples: { params: productParam, query: { country: 'USA' } },
      responses: {
        200: { description: 'The price list.', body: PriceListSchema, example: priceListExample },
      },
      errors: [
        'not_found',
        { code: 'product_unavailable', extra: { successorId: 'residential-basic' } },
        'no_price_list',
        'invalid_quantity',
        'invalid_country',
        'invalid_period',
      ],
      async handler(request) {
        const { params: path, query, caller } = request
        const product = dedicated(
          quotableOf(path.id),
          'no_price_list',
          'is sold per GB or per speed tier and has no price list; ask its price',
        )
        const quantity = requireAccepted(quantityOf(product, numberOf(query.quantity ?? product.minQuantity)))
        const { country, periodDays } = requireAccepted(parseListQuery(product, query))
        const context = {
          stock: await stockOf(product, request),
          terms: await termsFor(caller, product),
          importedAt: catalog.current().importedAt,
        }
        return { status: 200, body: priceListView(product, { country, quantity, periodDays }, context) }
      },
    }),
    route({
      method: 'GET',
      path: '/api/v1/products/{id}/options',
      operationId: 'getOptions',
      summary: 'Read the available countries and periods',
      description:
        'The countries with stock and the periods of dedicated IPs. A country without stock is removed at once.',
      tag: 'Catalog',
      access: 'any-key',
      writes: false,
      customer: 'unaffected',
      params,
      examples: { params: productParam },
      responses: {
        200: {
          description: 'The available countries and periods.',
          body: OptionsSchema,
          example: optionsExample,
        },
      },
      errors: [
        'not_found',
        { code: 'product_unavailable', extra: { successorId: 'residential-basic' } },
        'no_options',
      ],
      async handler(request) {
        const product = dedicated(
          quotableOf(request.params.id),
          'no_options',
          'is a gateway product: the country is chosen when lines are generated from its plan',
        )
        return { status: 200, body: optionsView(product, await stockOf(product, request)) }
      },
    }),
  ]
}

const dedicated = (
  product: Product,
  code: 'no_price_list' | 'no_options',
  explanation: string,
): Product & DedicatedProduct => {
  if (!isDedicated(product)) throw refuse(code, `${product.id} ${explanation}`)
  return product
}
