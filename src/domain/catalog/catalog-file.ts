import { z } from 'zod'
import { isCountry } from '../../kernel/countries.ts'
import { sha256 } from '../../kernel/digest.ts'
import { pluralize } from '../../kernel/formats.ts'
import { canonicalJson, isStorable, storableText } from '../../kernel/json-text.ts'
import { families } from '../shared/order-terms.ts'
import { catalogProblems, type Problem } from './catalog-rules.ts'
import type { ProductTerms } from './product.ts'

/**
 * The catalogue file: all products and their prices. docs/operations/catalog.md explains it with an example. Prices
 * are whole micro-dollars a unit (1 cent = 10,000), because an IPv6 address may cost less than a cent. Floats are not
 * accepted.
 */

/** $10,000 a unit. A higher price has too many zeros by mistake. */
const maxUnitPriceMicros = 10_000_000_000
const maxGatewayQuantity = 100_000
/** The addresses of one order are in one event, far below the 1 MiB that an append may have. */
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
const integerFrom = (min: number, max: number) => z.int().min(min).max(max)
const listOf = <Item extends z.ZodType>(item: Item, max: number) => z.array(item).min(1).max(max)

const tiers = listOf(
  z.strictObject({
    from: integerFrom(1, maxGatewayQuantity),
    unitPriceMicros: integerFrom(1, maxUnitPriceMicros),
  }),
  50,
)
const periodDays = integerFrom(1, 1_095)

const commonFields = {
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

const gatewayFields = {
  minQuantity: integerFrom(1, maxGatewayQuantity),
  maxQuantity: integerFrom(1, maxGatewayQuantity),
  tiers,
  generate: z.strictObject({
    maxCount: integerFrom(1, 5_000),
    targeting: z.array(z.enum(['country', 'state', 'city', 'isp', 'asn', 'os', 'strict', 'udp', 'exclude'])),
  }),
}
const dedicatedFields = {
  minQuantity: integerFrom(1, maxAddressQuantity),
  maxQuantity: integerFrom(1, maxAddressQuantity),
  renewal: z.literal('extend'),
}

const product = z.discriminatedUnion('shape', [
  z.strictObject({
    ...commonFields,
    ...gatewayFields,
    shape: z.literal('gateway_gb'),
    renewal: z.enum(['topup', 'repurchase']),
  }),
  z.strictObject({
    ...commonFields,
    ...gatewayFields,
    shape: z.literal('gateway_time'),
    renewal: z.literal('repurchase'),
    periodDays,
  }),
  z.strictObject({
    ...commonFields,
    ...dedicatedFields,
    shape: z.literal('addresses'),
    rates: listOf(
      z.strictObject({ countries: listOf(country, 250), periodDays: listOf(periodDays, 20), tiers }),
      2_000,
    ),
  }),
  z.strictObject({
    ...commonFields,
    ...dedicatedFields,
    shape: z.literal('addresses_mobile'),
    carriers: listOf(
      z.strictObject({ id: slug('a carrier id such as att-us'), name: text(80), country }),
      500,
    ),
    rates: listOf(
      z.strictObject({
        carriers: listOf(z.string(), 500),
        service: z.enum(['dedicated', 'shared']),
        rotationMinutes: listOf(integerFrom(0, 1_440), 20),
        periodDays: listOf(periodDays, 20),
        tiers,
      }),
      2_000,
    ),
  }),
]) satisfies z.ZodType<ProductTerms>

/**
 * The file: `{"products": [...]}`. Missing lists are empty, a missing `state` is `active`, and missing billing is pay
 * as you go.
 */
export const catalogFile = z.strictObject({
  products: listOf(product, 1_000),
})

/** A checked catalogue file. */
export type CatalogFile = { readonly digest: string; readonly products: readonly ProductTerms[] }

export type ParsedCatalog =
  | { readonly ok: true; readonly file: CatalogFile }
  | { readonly ok: false; readonly problems: readonly Problem[] }

const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : text === '' ? String(step) : `${text}.${String(step)}`,
    '',
  )

const valueAt = (root: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (value, step) => (typeof value === 'object' && value !== null ? Reflect.get(value, step) : undefined),
    root,
  )

const sizeText = (size: number | bigint, origin: string): string =>
  origin === 'string' ? pluralize(size, 'character') : String(size)

const expectedText = (issue: z.core.$ZodIssue): string => {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected === 'int' ? 'a whole number' : `of type ${issue.expected}`
    case 'invalid_value':
      return issue.values.length === 1
        ? JSON.stringify(issue.values[0])
        : `one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return `at least ${sizeText(issue.minimum, issue.origin)}`
    case 'too_big':
      return `at most ${sizeText(issue.maximum, issue.origin)}`
    case 'unrecognized_keys':
      return `no field ${issue.keys.join(', ')}`
    case 'invalid_union':
      return 'shape one of gateway_gb, gateway_time, addresses, addresses_mobile'
    default:
      return issue.message
  }
}

/** SHA-256, lower-case hex, of the catalogue's canonical JSON. Layout and field order do not change it. */
export const catalogDigest = (products: readonly ProductTerms[]): string =>
  sha256(canonicalJson({ products })).toString('hex')

/**
 * Checks the text of a catalogue file. Returns its products with all defaults and its digest, or every problem, each
 * with path, value and the expected value.
 */
export const parseCatalog = (text: string): ParsedCatalog => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return { ok: false, problems: [{ path: '', value: (error as Error).message, expected: 'a JSON file' }] }
  }
  const parsed = catalogFile.safeParse(json)
  if (!parsed.success)
    return {
      ok: false,
      problems: parsed.error.issues.map((issue) => ({
        path: pathText(issue.path),
        value: valueAt(json, issue.path),
        expected: expectedText(issue),
      })),
    }
  const { products } = parsed.data
  const problems = catalogProblems(products)
  return problems.length > 0
    ? { ok: false, problems }
    : { ok: true, file: { digest: catalogDigest(products), products } }
}
