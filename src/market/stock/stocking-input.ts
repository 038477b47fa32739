import { isIPv6 } from 'node:net'
import { z } from 'zod'
import { isStorable, storableText } from '../../kernel/storable.ts'
import type { Problem } from '../catalog/problem.ts'
import { type DedicatedProduct, isDedicated, type Product } from '../catalog/product.ts'
import { countriesOf, ratesIn } from '../catalog/rates.ts'
import type { StockedAddress } from './events.ts'
import { canonicalIp } from './ip.ts'
import type { Stocking } from './stocking.ts'

const name = (maxLength: number) =>
  z.string().min(1).max(maxLength).refine(isStorable, { error: storableText })

/** One address as an operator's file names it; what is left out comes from the command's options. */
const addressEntry = z.strictObject({
  ip: z.string(),
  city: name(80).nullish(),
  asn: z.int().min(1).max(4_294_967_295).nullish(),
  asnOrg: name(120).nullish(),
  carrierId: z.string().nullish(),
  service: z.enum(['dedicated', 'shared']).nullish(),
})

export type StockingInput = {
  readonly country: string
  /** One address a line (`#` starts a comment), or a JSON array of `{ip, city, asn, asnOrg, carrierId, service}`. */
  readonly text: string
  /** For addresses that do not say it themselves. */
  readonly defaults: Partial<Omit<StockedAddress, 'ip'>>
}

export type ParsedStocking =
  | { readonly ok: true; readonly stocking: Stocking }
  | { readonly ok: false; readonly problems: readonly Problem[] }

type Entry = { readonly path: string; readonly value: unknown }

const entriesOf = (text: string): readonly Entry[] => {
  if (text.trimStart().startsWith('['))
    return (JSON.parse(text) as unknown[]).map((value, index) => ({ path: `[${index}]`, value }))
  return text.split(/\r?\n/).flatMap((line, index) => {
    const content = line.replace(/#.*/, '').trim()
    return content === ''
      ? []
      : content
          .split(/[\s,]+/)
          .filter(Boolean)
          .map((ip) => ({ path: `line ${index + 1}`, value: { ip } }))
  })
}

const addressOf = (
  product: Product & DedicatedProduct,
  input: StockingInput,
  { path, value }: Entry,
): StockedAddress | Problem => {
  const parsed = addressEntry.safeParse(value)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    return { path: [path, ...issue.path].join('.'), value, expected: issue.message }
  }
  const { ip: text, ...said } = parsed.data
  const ip = canonicalIp(text)
  if (ip === null) return { path, value: text, expected: 'an IPv4 or IPv6 address of one host' }
  const version = isIPv6(ip) ? 'ipv6' : 'ipv4'
  if ((product.family === 'ipv4' || product.family === 'ipv6') && version !== product.family)
    return { path, value: text, expected: `an ${product.family === 'ipv4' ? 'IPv4' : 'IPv6'} address` }
  const pick = <Field extends keyof typeof said>(field: Field) => said[field] ?? input.defaults[field] ?? null
  const carrierId = pick('carrierId')
  const service = pick('service')
  const rates = ratesIn(product, input.country)
  if (!rates.some(({ target }) => target.carrierId === carrierId && target.service === service)) {
    const known = new Set(rates.map(({ target }) => `${target.carrierId} ${target.service}`))
    return {
      path,
      value: { carrierId, service },
      expected:
        product.shape === 'addresses_mobile'
          ? `a carrier and service of ${product.id} in ${input.country}: ${[...known].join(', ')}`
          : `no carrier and no service on ${product.id}`,
    }
  }
  return { ip, city: pick('city'), asn: pick('asn'), asnOrg: pick('asnOrg'), carrierId, service }
}

/** Checks addresses against the product that they are stocked for; all of them or none, every problem named. */
export const parseStocking = (product: Product, input: StockingInput): ParsedStocking => {
  const one = (path: string, value: unknown, expected: string): ParsedStocking => ({
    ok: false,
    problems: [{ path, value, expected }],
  })
  if (!isDedicated(product))
    return one('product', product.id, 'a product of dedicated IPs (shape addresses or addresses_mobile)')
  const countries = countriesOf(product)
  if (!countries.includes(input.country))
    return one(
      'country',
      input.country,
      `a country that ${product.id} has prices for: ${countries.join(', ')}`,
    )
  let entries: readonly Entry[]
  try {
    entries = entriesOf(input.text)
  } catch (error) {
    return one('', (error as Error).message, 'one address a line, or a JSON array')
  }
  if (entries.length === 0) return one('', input.text, 'at least one address')
  const addresses: StockedAddress[] = []
  const problems: Problem[] = []
  for (const entry of entries) {
    const address = addressOf(product, input, entry)
    if ('expected' in address) problems.push(address)
    else addresses.push(address)
  }
  return problems.length > 0
    ? { ok: false, problems }
    : { ok: true, stocking: { productId: product.id, country: input.country, addresses } }
}
