import { z } from 'zod'
import { isStorable, storableText } from '../../kernel/storable.ts'
import { isCountry } from '../../terms/countries.ts'
import { families } from '../../terms/order-details.ts'
import type { ProductTerms } from './product.ts'

/**
 * One catalogue file: everything that is sold, at which prices. docs/catalog.md explains it with an example. Prices are
 * whole micro-dollars a unit (1 cent = 10,000), because an IPv6 address may cost less than a cent; no float is taken.
 */

/** $10,000 a unit: what is above it is a mistake of zeros. */
const maxUnitPriceMicros = 10_000_000_000
const maxGatewayQuantity = 100_000
/** One order's addresses stand in one event, far below the 1 MiB that an append may have. */
const maxAddressQuantity = 1_000

const text = (maxLength: number) =>
  z.string().trim().min(1).max(maxLength).refine(isStorable, { error: storableText })
const slug = (expected: string) =>
  z
    .string()
    .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, { error: expected })
    .max(64)
const productId = slug('lower-case letters, digits and single hyphens, e.g. residential-premium')
const country = z.string().refine(isCountry, { error: 'an ISO 3166-1 alpha-3 code in upper case, e.g. USA' })
const wholeFrom = (min: number, max: number) => z.int().min(min).max(max)
const listOf = <Item extends z.ZodType>(item: Item, max: number) => z.array(item).min(1).max(max)

const tiers = listOf(
  z.strictObject({
    from: wholeFrom(1, maxGatewayQuantity),
    unitPriceMicros: wholeFrom(1, maxUnitPriceMicros),
  }),
  50,
)
const periodDays = wholeFrom(1, 1_095)

const common = {
  id: productId,
  aliases: z.array(productId).max(20).default([]),
  name: text(120),
  description: text(2_000),
  features: z.array(text(200)).max(30).default([]),
  protocols: listOf(z.enum(['http', 'https', 'socks5']), 3),
  family: z.enum(families),
  state: z.enum(['active', 'parked', 'retired']).default('active'),
  successorId: productId.nullable().default(null),
  parkedUntil: z.iso.datetime().nullable().default(null),
  unit: text(32),
  billing: z
    .strictObject({
      payg: z.boolean(),
      subscription: z.boolean(),
      intervals: z.array(z.enum(['month', 'year'])).max(2),
    })
    .default({ payg: true, subscription: false, intervals: [] }),
}

const gateway = {
  minQuantity: wholeFrom(1, maxGatewayQuantity),
  maxQuantity: wholeFrom(1, maxGatewayQuantity),
  tiers,
  generate: z.strictObject({
    maxCount: wholeFrom(1, 5_000),
    targeting: z.array(z.enum(['country', 'state', 'city', 'isp', 'asn', 'os', 'strict', 'udp', 'exclude'])),
  }),
}
const dedicated = {
  minQuantity: wholeFrom(1, maxAddressQuantity),
  maxQuantity: wholeFrom(1, maxAddressQuantity),
  renewal: z.literal('extend'),
}

const product = z.discriminatedUnion('shape', [
  z.strictObject({
    ...common,
    ...gateway,
    shape: z.literal('gateway_gb'),
    renewal: z.enum(['topup', 'repurchase']),
  }),
  z.strictObject({
    ...common,
    ...gateway,
    shape: z.literal('gateway_time'),
    renewal: z.literal('repurchase'),
    periodDays,
  }),
  z.strictObject({
    ...common,
    ...dedicated,
    shape: z.literal('addresses'),
    rates: listOf(
      z.strictObject({ countries: listOf(country, 250), periodDays: listOf(periodDays, 20), tiers }),
      2_000,
    ),
  }),
  z.strictObject({
    ...common,
    ...dedicated,
    shape: z.literal('addresses_mobile'),
    carriers: listOf(
      z.strictObject({ id: slug('a carrier id such as att-us'), name: text(80), country }),
      500,
    ),
    rates: listOf(
      z.strictObject({
        carriers: listOf(z.string(), 500),
        service: z.enum(['dedicated', 'shared']),
        rotationMinutes: listOf(wholeFrom(0, 1_440), 20),
        periodDays: listOf(periodDays, 20),
        tiers,
      }),
      2_000,
    ),
  }),
]) satisfies z.ZodType<ProductTerms>

/** The file: `{"products": [...]}`. Left out, lists are empty, `state` is `active` and billing is pay as you go. */
export const catalogFile = z.strictObject({
  products: listOf(product, 1_000),
})
