import { z } from 'zod'
import { families } from '../../domain/shared/order-terms.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'

/** The schemas of the catalogue's answers, for the interface description and for response checks. */

const cents = z.int().meta({ description: 'An amount in whole cents, USD.' })
const currency = z.literal('USD')
const states = ['active', 'parked', 'retired'] as const
const country = z.object({ alpha3: z.string(), name: z.string() })
const service = namedEnum('ProxyService', ['dedicated', 'shared'])

const howToStep = z.object({
  step: z.int(),
  title: z.string(),
  method: z.enum(['GET', 'POST', 'DELETE']),
  path: z.string().meta({
    description:
      'The path of the request. It can contain the placeholders {orderId}, {planId}, {proxyId} and {subscriptionId}, which stand for values of earlier answers.',
  }),
  headers: z.record(z.string(), z.string()),
  body: z.record(z.string(), z.unknown()).nullable(),
})

export const ProductSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    family: namedEnum('ProductFamily', families),
    state: namedEnum('ProductState', states),
    successorId: z.string().nullable(),
    available: z.boolean().meta({ description: 'True: an order of the minimum quantity is possible now.' }),
    shape: namedEnum('ProductShape', ['gateway_gb', 'gateway_time', 'addresses', 'addresses_mobile']),
    unit: z.string(),
    delivery: namedEnum('ProductDelivery', ['lines', 'addresses']),
    renewal: z.enum(['topup', 'repurchase', 'extend']),
    minQuantity: z.int(),
    maxQuantity: z.int(),
    billing: z.object({
      payg: z.boolean(),
      subscription: z.boolean(),
      intervals: z.array(namedEnum('BillingInterval', ['month', 'year'])),
    }),
    description: z.string(),
    features: z.array(z.string()),
    protocols: z.array(z.string()),
    targeting: z.array(z.string()).meta({
      description:
        'Dedicated IPs: the fields of `fulfillment_meta`. Gateway products: the targeting options of proxy lines.',
    }),
    generate: z.object({ maxCount: z.int() }).optional(),
    periodDays: z
      .int()
      .nullable()
      .optional()
      .meta({ description: 'The duration of a `gateway_time` plan in days.' }),
    tiers: z
      .array(z.object({ fromQuantity: z.int(), unitPriceCents: cents }))
      .optional()
      .meta({
        description:
          'Gateway products: the price of every unit of an order, in whole cents, by the minimum quantity of the tier (`fromQuantity`).',
      }),
    lifecycle: z.object({
      state: namedEnum('ProductState', states),
      since: z.iso.datetime(),
      parkedUntil: z.iso.datetime().nullable(),
      retiredAt: z.iso.datetime().nullable(),
      successorId: z.string().nullable(),
      aliases: z
        .array(z.string())
        .meta({ description: 'Former ids of the product. Requests with these ids still work.' }),
    }),
    publishedPrice: z.object({ fromCents: cents, unit: z.string(), per: z.string(), currency }),
    howTo: z.array(howToStep).meta({
      description:
        'The exact requests that buy the product, once or by subscription. Empty while the product cannot be ordered.',
    }),
  })
  .meta({ id: 'Product' })

export const ProductListSchema = z.object({ products: z.array(ProductSchema) }).meta({ id: 'ProductList' })

const targeting = z
  .object({
    country: z.string(),
    period_days: z.int(),
    carrier_id: z.string().optional(),
    service: service.optional(),
    rotation_minutes: z.int().optional(),
  })
  .meta({
    description:
      'The priced target of dedicated IPs. An order accepts it as `fulfillment_meta`. Absent for other products.',
  })

export const QuoteSchema = z
  .object({
    productId: z.string(),
    quantity: z.int(),
    unitPriceCents: cents.meta({
      description:
        '`amountCents` divided by the quantity, rounded half up, in whole cents. `amountCents` is the binding price.',
    }),
    amountCents: cents.meta({
      description: 'The amount that an order with the same inputs charges, in whole cents.',
    }),
    currency,
    billingType: z.literal('PAYG'),
    available: z.boolean(),
    targeting: targeting.optional(),
    yourCostCents: cents.optional().meta({
      description:
        "Reseller keys only: the cost in whole cents, which the order debits from the reseller's wallet.",
    }),
    marginCents: cents
      .optional()
      .meta({ description: 'Reseller keys only: `amountCents` minus `yourCostCents`.' }),
    listCents: cents
      .optional()
      .meta({ description: 'Reseller keys only: the list price of the service, in whole cents.' }),
    note: z.string().optional(),
  })
  .meta({ id: 'PriceQuote' })

const priceLine = z.object({
  days: z.int(),
  period: z.string(),
  available: z.boolean().meta({ description: 'False: the addresses are sold out.' }),
  listCents: cents,
  carrierId: z.string().optional(),
  carrier: z.string().optional(),
  service: service.optional(),
  rotation: namedEnum('ProxyRotation', ['by_link', 'interval']).optional(),
  rotationMinutes: z.int().optional(),
  yourCostCents: cents.optional(),
  customerCents: cents.optional(),
  marginCents: cents.optional(),
})

export const PriceListSchema = z
  .object({
    productId: z.string(),
    unit: z.string(),
    country: z.string(),
    quantity: z.int().meta({ description: 'The number of IPs that each line prices.' }),
    currency,
    countries: z.array(country),
    lines: z.array(priceLine),
    refreshedAt: z.iso
      .datetime()
      .optional()
      .meta({ description: 'Mobile products only: the time when the prices were set.' }),
    partner: z
      .object({ discountPct: z.number(), markup: z.number(), sellable: z.boolean() })
      .optional()
      .meta({
        description:
          'Reseller keys only: the discount and the markup of the reseller, and whether the reseller can sell the product.',
      }),
    note: z.string().optional(),
  })
  .meta({ id: 'PriceList' })

export const OptionsSchema = z
  .object({
    productId: z.string(),
    unit: z.string(),
    minQuantity: z.int(),
    maxQuantity: z.int(),
    countries: z
      .array(
        country.extend({
          available: z.int().meta({
            description:
              'The number of addresses that are free for one order. It can be larger than `maxQuantity`. For mobile products: the stock of the carrier and service with the most free addresses.',
          }),
        }),
      )
      .meta({ description: 'The countries where the product can be ordered now.' }),
    periods: z.array(z.object({ days: z.int(), label: z.string() })),
  })
  .meta({ id: 'ProductOptions' })

/** An example of each of the catalogue's answers, for the interface description. */

export const productExample = {
  id: 'isp-static',
  name: 'Static ISP',
  family: 'isp',
  state: 'active',
  successorId: null,
  available: true,
  shape: 'addresses',
  unit: 'IP',
  delivery: 'addresses',
  renewal: 'extend',
  minQuantity: 1,
  maxQuantity: 500,
  billing: { payg: true, subscription: true, intervals: ['month', 'year'] },
  description: 'Dedicated addresses registered to consumer providers.',
  features: ['One user an address'],
  protocols: ['http', 'https', 'socks5'],
  targeting: ['country', 'period_days'],
  lifecycle: {
    state: 'active',
    since: '2026-11-01T00:00:00.000Z',
    parkedUntil: null,
    retiredAt: null,
    successorId: null,
    aliases: ['static-residential'],
  },
  publishedPrice: { fromCents: 200, unit: 'IP', per: 'IP/30d', currency: 'USD' },
  howTo: [
    {
      step: 1,
      title: 'Quote the price',
      method: 'GET',
      path: '/api/v1/products/isp-static/price?quantity=1&country=USA&period_days=30',
      headers: {},
      body: null,
    },
  ],
}

export const quoteExample = {
  productId: 'isp-static',
  quantity: 5,
  unitPriceCents: 280,
  amountCents: 1400,
  currency: 'USD',
  billingType: 'PAYG',
  available: true,
  targeting: { country: 'USA', period_days: 30 },
}

export const priceListExample = {
  productId: 'isp-static',
  unit: 'IP',
  country: 'USA',
  quantity: 1,
  currency: 'USD',
  countries: [{ alpha3: 'USA', name: 'United States' }],
  lines: [
    { days: 7, period: '7 days', available: true, listCents: 120 },
    { days: 30, period: '30 days', available: true, listCents: 280 },
  ],
}

export const optionsExample = {
  productId: 'isp-static',
  unit: 'IP',
  minQuantity: 1,
  maxQuantity: 500,
  countries: [{ alpha3: 'USA', name: 'United States', available: 120 }],
  periods: [
    { days: 7, label: '7 days' },
    { days: 30, label: '30 days' },
  ],
}
