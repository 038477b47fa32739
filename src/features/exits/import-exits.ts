import { isIP, isIPv6 } from 'node:net'
import { z } from 'zod'
import type { Problem } from '../../domain/catalog/catalog-rules.ts'
import type { Coverage, ExitTerms, ExitVia, Location } from '../../domain/exits/events.ts'
import { isLocation, maxAsn, slugOf, systems } from '../../domain/exits/line.ts'
import { templateProblem } from '../../domain/exits/username-template.ts'
import {
  endpointHost,
  endpointPort,
  endpointProtocols,
  endpointSecret,
  shownAt,
} from '../../domain/shared/endpoint-fields.ts'
import { families } from '../../domain/shared/order-terms.ts'
import { alpha2Of } from '../../kernel/countries.ts'
import { isStorable, storableText } from '../../kernel/json-text.ts'
import type { Login } from '../../platform/vault/logins.ts'

/** The most lines of a file. */
const maxExits = 50_000
/** The most problems in one report. */
const maxProblems = 50

/** Prefix of the sandbox's exit ids. */
export const sandboxPrefix = 'sandbox-'

const nameSchema = (label: string) =>
  z
    .string(`a ${label}`)
    .max(80, 'at most 80 characters')
    .refine(isStorable, { error: storableText })
    .refine((name) => isLocation(slugOf(name)), `a ${label} with Latin letters or digits`)
const country = z
  .string('a country code of ISO 3166 such as us or USA')
  .refine((code) => alpha2Of(code) !== null, 'a country code of ISO 3166 such as us or USA')
const asn = z.int(`a whole AS number from 1 to ${maxAsn}`).min(1).max(maxAsn)
const os = z.enum(systems, `one of ${systems.join(', ')}`)
const template = z
  .string('a text of at most 400 characters')
  .max(400, 'at most 400 characters')
  .superRefine((text, context) => {
    const problem = /^[\u0020-\u007e]*$/.test(text) ? templateProblem(text) : 'printable ASCII characters'
    if (problem !== null) context.addIssue({ code: 'custom', message: problem })
  })

const commonFields = {
  id: z
    .string('an id of 1 to 64 of a-z 0-9 . _ -')
    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'an id of 1 to 64 of a-z 0-9 . _ -')
    .refine((id) => !id.startsWith(sandboxPrefix), `an id that does not begin with ${sandboxPrefix}`),
  family: z.enum(families, `one of ${families.join(', ')}`).default('residential'),
  weight: z.number('a number from 0.001 to 1000').min(0.001).max(1_000).default(1),
  capacity: z.int('whole connections from 1 on').min(1).max(1_000_000).nullish(),
  udp: z.boolean('true or false').default(false),
  carrier: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, 'a carrier id of the catalogue')
    .nullish(),
}
const locationFields = {
  country,
  state: nameSchema('state').nullish(),
  city: nameSchema('city').nullish(),
  isp: nameSchema('name of an ISP').nullish(),
  asn: asn.nullish(),
  os: os.nullish(),
}
const endpoint = { host: endpointHost, port: endpointPort }
const logins = { username: endpointSecret.nullish(), password: endpointSecret.nullish() }
const proxied = <Kind extends string>(kind: Kind) =>
  z.strictObject({ kind: z.literal(kind), ...commonFields, ...locationFields, ...endpoint, ...logins })

const cover = z.strictObject({
  country,
  states: z.array(nameSchema('state')).default([]),
  cities: z
    .array(z.strictObject({ name: nameSchema('city'), state: nameSchema('state').nullish() }))
    .default([]),
  isps: z
    .array(z.strictObject({ name: nameSchema('name of an ISP'), asns: z.array(asn).default([]) }))
    .default([]),
  asns: z.array(asn).default([]),
  os: z.array(os).default([]),
})

const entry = z.discriminatedUnion(
  'kind',
  [
    z.strictObject({
      kind: z.literal('direct'),
      ...commonFields,
      ...locationFields,
      localAddress: z
        .string()
        .refine((text) => isIP(text) !== 0, 'an address of this machine')
        .nullish(),
    }),
    z.strictObject({
      kind: z.literal('prefix'),
      ...commonFields,
      ...locationFields,
      prefix: z.string('an IPv6 prefix such as 2001:db8::/48').refine((text) => {
        const [address = '', bits = ''] = text.split('/')
        return (
          isIPv6(address) && !address.includes('%') && /^\d{1,3}$/.test(bits) && +bits >= 16 && +bits <= 127
        )
      }, 'an IPv6 prefix such as 2001:db8::/48'),
    }),
    proxied('http'),
    proxied('https'),
    proxied('socks5'),
    z.strictObject({
      kind: z.literal('template'),
      ...commonFields,
      ...endpoint,
      protocol: z.enum(endpointProtocols, `one of ${endpointProtocols.join(', ')}`),
      username: template,
      password: template.default(''),
      covers: z.array(cover, 'a list of countries').min(1, 'at least one country').max(300),
    }),
  ],
  'one of direct, prefix, http, https, socks5, template',
)
type Entry = z.infer<typeof entry>

/** An exit of a file. Its credentials are separate, because they go to the vault. */
export type ImportedExit = {
  readonly terms: Omit<ExitTerms, 'credentialId'>
  readonly login: Login | null
}
type ParsedExits =
  | { readonly ok: true; readonly exits: readonly ImportedExit[] }
  | { readonly ok: false; readonly problems: readonly Problem[] }

const toLocation = (name: string): Location => ({ code: slugOf(name), name })
const listOf = <Value>(value: Value | null | undefined): readonly Value[] => (value == null ? [] : [value])

const coversOf = (exitEntry: Entry): readonly Coverage[] => {
  if (exitEntry.kind === 'template')
    return exitEntry.covers.map((coverEntry) => ({
      country: alpha2Of(coverEntry.country)!,
      states: coverEntry.states.map(toLocation),
      cities: coverEntry.cities.map(({ name, state }) => ({
        ...toLocation(name),
        state: state == null ? null : slugOf(state),
      })),
      isps: coverEntry.isps.map(({ name, asns }) => ({ ...toLocation(name), asns })),
      asns: coverEntry.asns,
      systems: coverEntry.os,
    }))
  const { country: code, state, city, isp, asn: number, os: system } = exitEntry
  return [
    {
      country: alpha2Of(code)!,
      states: listOf(state).map(toLocation),
      cities: listOf(city).map((name) => ({
        ...toLocation(name),
        state: state == null ? null : slugOf(state),
      })),
      isps: listOf(isp).map((name) => ({ ...toLocation(name), asns: listOf(number) })),
      asns: listOf(number),
      systems: listOf(system),
    },
  ]
}

const viaOf = (exitEntry: Entry): ExitVia => {
  switch (exitEntry.kind) {
    case 'direct':
      return { kind: 'direct', localAddress: exitEntry.localAddress ?? null }
    case 'prefix':
      return { kind: 'prefix', prefix: exitEntry.prefix.toLowerCase() }
    case 'template':
      return { kind: 'template', protocol: exitEntry.protocol, host: exitEntry.host, port: exitEntry.port }
    default:
      return { kind: exitEntry.kind, host: exitEntry.host, port: exitEntry.port }
  }
}

const loginOf = (exitEntry: Entry): Login | null => {
  if (exitEntry.kind === 'direct' || exitEntry.kind === 'prefix') return null
  const { username, password } = exitEntry
  return username == null ? null : { username, password: password ?? '' }
}

const exitOf = (exitEntry: Entry): ImportedExit => ({
  terms: {
    exitId: exitEntry.id,
    via: viaOf(exitEntry),
    family: exitEntry.family,
    covers: coversOf(exitEntry),
    weight: exitEntry.weight,
    capacity: exitEntry.capacity ?? null,
    udp: exitEntry.udp,
    carrier: exitEntry.carrier ?? null,
  },
  login: loginOf(exitEntry),
})

const problemsOf = (line: number, value: unknown, error: z.ZodError): readonly Problem[] =>
  error.issues.map((issue) => {
    const extra = issue.code === 'unrecognized_keys' ? issue.keys.join(', ') : null
    return {
      path: [`line ${line}`, ...issue.path.map(String)].join('.'),
      value: extra ?? shownAt(value, issue.path),
      expected: extra === null ? issue.message : 'no such field',
    }
  })

/**
 * Parses a file of exits with one JSON object in each line. Empty lines and lines that begin with `#` are skipped. The
 * file is accepted completely or not at all. Problems have line numbers, up to 50 are reported.
 */
export const parseExits = (text: string): ParsedExits => {
  const exits: ImportedExit[] = []
  const problems: Problem[] = []
  const lineOfId = new Map<string, number>()
  for (const [index, content] of text.split('\n').entries()) {
    const line = index + 1
    if (problems.length >= maxProblems) break
    if (content.trim() === '' || content.trimStart().startsWith('#')) continue
    let value: unknown
    try {
      value = JSON.parse(content)
    } catch {
      // The line is not shown, because it may contain a password.
      problems.push({ path: `line ${line}`, value: 'no JSON', expected: 'one JSON object a line' })
      continue
    }
    const parsed = entry.safeParse(value)
    if (!parsed.success) {
      problems.push(...problemsOf(line, value, parsed.error))
      continue
    }
    const { id } = parsed.data
    const before = lineOfId.get(id)
    if (before !== undefined)
      problems.push({ path: `line ${line}.id`, value: id, expected: `each id once; line ${before} has it` })
    lineOfId.set(id, line)
    exits.push(exitOf(parsed.data))
  }
  if (problems.length > 0) return { ok: false, problems: problems.slice(0, maxProblems) }
  if (exits.length === 0 || exits.length > maxExits)
    return {
      ok: false,
      problems: [{ path: '', value: `${exits.length} exits`, expected: `1 to ${maxExits}` }],
    }
  return { ok: true, exits }
}
