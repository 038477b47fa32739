import { randomBytes } from 'node:crypto'
import { maxWrittenBytes, type Targeting, writeUsername } from '../../domain/exits/line.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { Gateway, VerifiedPlan } from '../plans/index.ts'
import { type LineSets, maxSets } from './line-sets.ts'
import { createExitAvailability, type TargetingInput, targetingOf } from './targeting-input.ts'

export const lineProtocols = ['http', 'https', 'socks5'] as const
export type LineProtocol = (typeof lineProtocols)[number]

export const lineFormats = [
  'host:port:user:pass',
  'user:pass@host:port',
  'user:pass:host:port',
  'url',
  'url-socks5',
  'host:port',
  'json',
  'custom',
] as const
export type LineFormat = (typeof lineFormats)[number]

const marks = ['HOST', 'PORT', 'USER', 'PASS', 'PROTOCOL'] as const
/** The placeholders of a custom template, for refusals. */
export const templateMarks: string = marks.map((mark) => `{${mark}}`).join(' ')
/** Whether a template has only these placeholders in braces. */
const isLineTemplate = (template: string): boolean =>
  [...template.matchAll(/\{[^}]*\}?/g)].every(([found]) => marks.some((mark) => found === `{${mark}}`))

/** A line for programs. */
type JsonLine = {
  readonly host: string
  readonly port: number
  readonly protocol: LineProtocol
  readonly username: string
  readonly password: string
  /** Null: another exit for each connection. */
  readonly sessionId: string | null
  /** Always null: a line does not expire. The time of its session begins with the first use. */
  readonly expiresAt: null
}

type LineRequest = {
  readonly count: number
  /** From 1 to 1,440; 0: another exit for each connection. */
  readonly stickyMinutes: number
  readonly protocol: LineProtocol
  readonly format: LineFormat
  /** For the format `custom`. */
  readonly template: string
  readonly targeting: Targeting
  /** The id of the stored targeting; null when the targeting is in each username. */
  readonly set: string | null
  readonly gateway: {
    readonly host: string
    readonly port: number
    /** Null: https lines use the other port, without TLS. */
    readonly tls: { readonly port: number } | null
  }
  readonly credential: { readonly username: string; readonly password: string }
}

const idLength = 8
/** 32 characters, so that five bits of a byte select one without bias. Easily confused characters are left out. */
const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789'

/** Random session ids, 40 bits each. */
const sessionIds = (count: number): readonly string[] => {
  const bytes = randomBytes(count * idLength)
  return Array.from({ length: count }, (_, n) => {
    let id = ''
    for (let at = n * idLength; at < (n + 1) * idLength; at += 1) id += alphabet[(bytes[at] ?? 0) & 31]
    return id
  })
}

/** A host before a port: IPv6 in brackets. */
const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host)

const portOf = ({ protocol, gateway }: LineRequest): number =>
  protocol === 'https' ? (gateway.tls?.port ?? gateway.port) : gateway.port

/** The URL scheme of the protocol to the proxy: `https` means TLS to the proxy. */
const schemeOf = ({ protocol, gateway }: LineRequest): string => {
  if (protocol === 'socks5') return 'socks5h'
  return protocol === 'https' && gateway.tls !== null ? 'https' : 'http'
}

const textOf = (request: LineRequest, username: string): string => {
  const { format, template, protocol, gateway, credential } = request
  const { password } = credential
  const at = `${bracketed(gateway.host)}:${portOf(request)}`
  switch (format) {
    case 'user:pass@host:port':
      return `${username}:${password}@${at}`
    case 'user:pass:host:port':
      return `${username}:${password}:${at}`
    case 'url':
      return `${schemeOf(request)}://${username}:${password}@${at}`
    case 'url-socks5':
      return `socks5://${username}:${password}@${at}`
    case 'host:port':
      return at
    case 'custom':
      return template.replaceAll(/\{(HOST|PORT|USER|PASS|PROTOCOL)\}/g, (_, mark: (typeof marks)[number]) => {
        if (mark === 'HOST') return bracketed(gateway.host)
        if (mark === 'PORT') return String(portOf(request))
        if (mark === 'USER') return username
        return mark === 'PASS' ? password : protocol
      })
    default:
      return `${at}:${username}:${password}`
  }
}

const placeholder = '\u0000'

/**
 * The lines of a plan. They depend only on the request, so every gateway process accepts them at once. Each sticky line
 * has a random session.
 */
export const generateLines = (request: LineRequest): readonly string[] | readonly JsonLine[] => {
  const { count, stickyMinutes, targeting, set, gateway, credential, protocol, format } = request
  const ids = stickyMinutes === 0 ? Array.from({ length: count }, () => null) : sessionIds(count)
  // Names differ only in the session id. One name is written, and the ids are inserted in it.
  const baseUsername = writeUsername({
    base: credential.username,
    targeting,
    session: stickyMinutes === 0 ? null : { id: placeholder, lifetimeMinutes: stickyMinutes },
    limitMegabytes: null,
    set,
  })
  if (format === 'json')
    return ids.map((sessionId) => ({
      host: gateway.host,
      port: portOf(request),
      protocol,
      username: sessionId === null ? baseUsername : baseUsername.replace(placeholder, sessionId),
      password: credential.password,
      sessionId,
      expiresAt: null,
    }))
  const parts = textOf(request, baseUsername).split(placeholder)
  return ids.map((id) => parts.join(id ?? ''))
}

/** The byte length of the longest username of these lines. */
const nameBytes = (base: string, targeting: Targeting): number =>
  writeUsername({
    base,
    targeting,
    session: { id: 'x'.repeat(idLength), lifetimeMinutes: 1_440 },
    limitMegabytes: null,
    set: null,
  }).length

/** The requested lines. Defaults are those of the API operation. */
export type LineInput = TargetingInput & {
  readonly count?: number | undefined
  readonly stickyMinutes?: number | undefined
  readonly protocol?: LineProtocol | undefined
  readonly format?: LineFormat | undefined
  readonly template?: string | undefined
  /** The name of a set for the lines. */
  readonly set?: string | undefined
}

export type GeneratedLines = {
  readonly planId: string
  readonly count: number
  readonly protocol: LineProtocol
  readonly format: LineFormat
  readonly stickyMinutes: number
  /** The id of the set in the usernames; null: no set. */
  readonly lineSet: string | null
  readonly lines: readonly (string | JsonLine)[]
}

/** One line each, to paste or save. */
export const linesText = ({ lines }: Pick<GeneratedLines, 'lines'>): string =>
  lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')

/**
 * Generates lines of a plan. Nothing is charged. Only named targeting and targeting that is too long for a username is stored.
 * @throws ApiError invalid_count, invalid_sticky, invalid_targeting, invalid_exclude, invalid_udp, invalid_body
 */
export type LineService = (plan: VerifiedPlan, lineInput: LineInput) => Promise<GeneratedLines>

export const createLineService = (
  dependencies: Parameters<typeof createExitAvailability>[0] & {
    readonly credentials: Credentials
    readonly gateway: Gateway
    readonly sets: LineSets
  },
): LineService => {
  const { credentials, gateway, sets } = dependencies
  const { offeredTargetingOf: sellableTargetingOf, refuseUnavailable } = createExitAvailability(dependencies)

  return async (plan, lineInput) => {
    const {
      count = 1,
      stickyMinutes = 0,
      format = 'host:port:user:pass',
      template,
      set: name,
      protocol = lineInput.udp === true || format === 'url-socks5' ? 'socks5' : 'http',
      ...input
    } = lineInput
    const { generate, family } = sellableTargetingOf(plan)
    if (count > generate.maxCount)
      throw refuse(
        'invalid_count',
        `count must be a whole number from 1 to ${generate.maxCount}, as generate.maxCount of the plan says`,
      )
    const targeting = targetingOf(input, generate.targeting)
    if (targeting.udp && protocol !== 'socks5')
      throw refuse('invalid_udp', 'udp is for lines of SOCKS5: send protocol socks5')
    if (format === 'url-socks5' && protocol !== 'socks5')
      throw refuse('invalid_body', 'format url-socks5 is for lines of SOCKS5: send protocol socks5')
    if ((format === 'custom') !== (template !== undefined))
      throw refuse('invalid_body', 'template and the format custom go together')
    if (template !== undefined && (!isLineTemplate(template) || /\p{Cc}/u.test(template)))
      throw refuse('invalid_body', `template may hold ${templateMarks} and no other braces or line breaks`)
    await refuseUnavailable(targeting, family)
    const planId = plan.planId
    const credential = credentials.of(planId, plan.generation)
    const isLong = nameBytes(credential.username, targeting) > maxWrittenBytes
    const isStored = isLong || name !== undefined
    const set = isStored ? await sets.store(planId, targeting, name) : null
    if (isStored && set === null)
      throw refuse(
        'invalid_exclude',
        `this plan has ${maxSets} sets and long lists already: use one of those again, or shorter lists without a set`,
      )
    const lines = generateLines({
      count,
      stickyMinutes,
      protocol,
      format,
      template: template ?? '',
      targeting,
      set,
      gateway,
      credential,
    })
    return { planId, count, protocol, format, stickyMinutes, lineSet: set, lines }
  }
}
