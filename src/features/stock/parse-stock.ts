import { isIPv6 } from 'node:net'
import { z } from 'zod'
import { countriesOf, ratesIn } from '../../domain/catalog/catalog.ts'
import type { Problem } from '../../domain/catalog/catalog-rules.ts'
import { type DedicatedProduct, isDedicated, type Product } from '../../domain/catalog/product.ts'
import {
  endpointHost,
  endpointPort,
  endpointProtocols,
  endpointSecret,
  shownAt,
} from '../../domain/shared/endpoint-fields.ts'
import type { StockedAddress, StockedEndpoint } from '../../domain/stock/events.ts'
import { canonicalIp } from '../../kernel/ip-address.ts'
import { isStorable, storableText } from '../../kernel/json-text.ts'
import type { Login } from '../../platform/vault/logins.ts'

const name = (maxLength: number) =>
  z.string().min(1).max(maxLength).refine(isStorable, { error: storableText })

const endpoint = z
  .strictObject({
    protocol: z.enum(endpointProtocols, `one of ${endpointProtocols.join(', ')}`),
    host: endpointHost,
    port: endpointPort,
    username: endpointSecret.nullish(),
    password: endpointSecret.nullish(),
    udp: z.boolean('true or false').default(false),
  })
  .refine(({ protocol, udp }) => protocol === 'socks5' || !udp, {
    path: ['udp'],
    error: 'false, since UDP passes through socks5 alone',
  })

/** One address in an operator's file. The command's options provide the missing fields. */
const addressEntry = z.strictObject({
  product: z.string('a product id').nullish(),
  country: z.string('a country, alpha-3').nullish(),
  ip: z.string('an address'),
  city: name(80).nullish(),
  asn: z.int().min(1).max(4_294_967_295).nullish(),
  asnOrg: name(120).nullish(),
  carrierId: z.string().nullish(),
  service: z.enum(['dedicated', 'shared']).nullish(),
  endpoint: endpoint.nullish(),
})

export type StockingInput = {
  /** The default for addresses without this field, as are the four below. */
  readonly product: string | null
  readonly country: string | null
  /**
   * One address a line (`#` starts a comment), a JSON array of `{product, country, ip, city, asn, asnOrg, carrierId,
   * service, endpoint}`, or one such object a line.
   */
  readonly text: string
  readonly defaults: Partial<Omit<StockedAddress, 'ip' | 'endpoint'>>
}

/** An address to stock. The login of its endpoint goes to the vault. */
type AddressToStock = Omit<StockedAddress, 'endpoint'> & {
  readonly endpoint?: Omit<StockedEndpoint, 'credentialId'> & { readonly login: Login | null }
}

/** Addresses of one product in one country. */
export type ParsedStock = {
  readonly productId: string
  readonly country: string
  readonly addresses: readonly AddressToStock[]
}

type ParsedStocking =
  | { readonly ok: true; readonly stocks: readonly ParsedStock[] }
  | { readonly ok: false; readonly problems: readonly Problem[] }

type Entry = { readonly path: string; readonly value: unknown }
type Stocked = { readonly productId: string; readonly country: string; readonly address: AddressToStock }

const contentLines = (text: string): readonly (readonly [content: string, path: string])[] =>
  text.split(/\r?\n/).map((content, index) => [content.trim(), `line ${index + 1}`])

const jsonLines = (text: string): readonly (Entry | Problem)[] =>
  contentLines(text).flatMap(([content, path]) => {
    if (content === '' || content.startsWith('#')) return []
    try {
      return [{ path, value: JSON.parse(content) as unknown }]
    } catch {
      // Without the text, because broken JSON may have a password.
      return [{ path, value: 'no JSON', expected: 'one JSON object a line' }]
    }
  })

const entriesOf = (text: string): readonly (Entry | Problem)[] => {
  const [first] = contentLines(text).find(([content]) => content !== '' && !content.startsWith('#')) ?? ['']
  if (first.startsWith('{')) return jsonLines(text)
  if (first.startsWith('['))
    try {
      return (JSON.parse(text) as unknown[]).map((value, index) => ({ path: `[${index}]`, value }))
    } catch {
      return [{ path: '', value: 'no JSON', expected: 'one address a line, or a JSON array' }]
    }
  return contentLines(text).flatMap(([content, path]) =>
    content
      .replace(/#.*/, '')
      .split(/[\s,]+/)
      .filter(Boolean)
      .map((ip) => ({ path, value: { ip } })),
  )
}

type ParseRequest = {
  readonly productOf: (id: string) => Product | undefined
  readonly input: StockingInput
}

const placeOf = (
  { productOf, input }: ParseRequest,
  { path, value }: Entry,
  entryFields: { readonly product?: string | null | undefined; readonly country?: string | null | undefined },
): { readonly product: Product & DedicatedProduct; readonly country: string } | Problem => {
  const id = entryFields.product ?? input.product
  const country = (entryFields.country ?? input.country)?.toUpperCase() ?? null
  const product = id === null ? undefined : productOf(id)
  if (!product || !isDedicated(product))
    return {
      path: entryFields.product == null ? 'product' : `${path}.product`,
      value: id,
      expected: 'a product of dedicated IPs (shape addresses or addresses_mobile)',
    }
  const countries = countriesOf(product)
  if (country === null || !countries.includes(country))
    return {
      path: entryFields.country == null ? 'country' : `${path}.country`,
      value: country ?? shownAt(value, ['country']),
      expected: `a country that ${product.id} has prices for: ${countries.join(', ')}`,
    }
  return { product, country }
}

const endpointOf = (
  endpointInput: z.infer<typeof endpoint> | null | undefined,
): Pick<AddressToStock, 'endpoint'> | object => {
  if (endpointInput == null) return {}
  const { username, password, ...rest } = endpointInput
  const login = username == null ? null : { username, password: password ?? '' }
  return { endpoint: { ...rest, login } }
}

const stockedOf = (request: ParseRequest, entry: Entry): Stocked | Problem => {
  const { path, value } = entry
  const parsed = addressEntry.safeParse(value)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    const shown = issue.code === 'unrecognized_keys' ? issue.keys.join(', ') : shownAt(value, issue.path)
    return { path: [path, ...issue.path].join('.'), value: shown, expected: issue.message }
  }
  const { ip: text, product: _, country: _c, endpoint: endpointInput, ...entryFields } = parsed.data
  const destination = placeOf(request, entry, parsed.data)
  if ('expected' in destination) return destination
  const { product, country } = destination
  const ip = canonicalIp(text)
  if (ip === null) return { path, value: text, expected: 'an IPv4 or IPv6 address of one host' }
  const version = isIPv6(ip) ? 'ipv6' : 'ipv4'
  if ((product.family === 'ipv4' || product.family === 'ipv6') && version !== product.family)
    return { path, value: text, expected: `an ${product.family === 'ipv4' ? 'IPv4' : 'IPv6'} address` }
  const fieldValue = <Field extends keyof typeof entryFields>(field: Field) =>
    entryFields[field] ?? request.input.defaults[field] ?? null
  const carrierId = fieldValue('carrierId')
  const service = fieldValue('service')
  const rates = ratesIn(product, country)
  if (!rates.some(({ target }) => target.carrierId === carrierId && target.service === service)) {
    const validLines = new Set(rates.map(({ target }) => `${target.carrierId} ${target.service}`))
    return {
      path,
      value: { carrierId, service },
      expected:
        product.shape === 'addresses_mobile'
          ? `a carrier and service of ${product.id} in ${country}: ${[...validLines].join(', ')}`
          : `no carrier and no service on ${product.id}`,
    }
  }
  return {
    productId: product.id,
    country,
    address: {
      ip,
      city: fieldValue('city'),
      asn: fieldValue('asn'),
      asnOrg: fieldValue('asnOrg'),
      carrierId,
      service,
      ...endpointOf(endpointInput),
    },
  }
}

/** Checks addresses against their products. Accepts all of them or none, and lists every problem. */
export const parseStocking = (
  productOf: (id: string) => Product | undefined,
  input: StockingInput,
): ParsedStocking => {
  const entries = entriesOf(input.text)
  if (entries.length === 0)
    return { ok: false, problems: [{ path: '', value: input.text, expected: 'at least one address' }] }
  const stocks = new Map<string, { productId: string; country: string; addresses: AddressToStock[] }>()
  const seenAddresses = new Map<string, { readonly path: string; readonly text: string }>()
  const problems = new Map<string, Problem>()
  const addProblem = (problem: Problem): void => void problems.set(JSON.stringify(problem), problem)
  for (const entry of entries) {
    const stocked = 'expected' in entry ? entry : stockedOf({ productOf, input }, entry)
    if ('expected' in stocked) {
      addProblem(stocked)
      continue
    }
    const { productId, country, address } = stocked
    const text = JSON.stringify(stocked)
    const before = seenAddresses.get(address.ip)
    if (before && before.text !== text)
      addProblem({
        path: entry.path,
        value: address.ip,
        expected: `each address once; ${before.path} has it`,
      })
    seenAddresses.set(address.ip, { path: entry.path, text })
    const key = `${productId} ${country}`
    const stock = stocks.get(key) ?? { productId, country, addresses: [] }
    if (!before) stock.addresses.push(address)
    stocks.set(key, stock)
  }
  return problems.size > 0
    ? { ok: false, problems: [...problems.values()] }
    : { ok: true, stocks: [...stocks.values()] }
}
