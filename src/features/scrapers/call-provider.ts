import { packed, unpacked } from '../../domain/scrapers/check-input.ts'
import { mainListOf, valueAt } from '../../domain/scrapers/sample.ts'
import type { InputValue, ScraperRow } from '../../domain/scrapers/scraper.ts'
import type { Clock } from '../../kernel/clock.ts'
import { isNestedWithin } from '../../kernel/json-text.ts'
import { retryAfterMs } from '../../platform/outgoing/retry-after.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import { faultKind } from '../../platform/outgoing/target.ts'
import type { ScrapeFailure, ScrapeInput, ScrapeOutcome } from './provider-port.ts'

/** Platforms report it as true, as 1, or not at all. In the last case a missing cursor marks the end. */
const hasNextPage = (
  data: unknown,
  { more, moreIsInverted }: { more?: string; moreIsInverted?: true },
): boolean => {
  const flag = more === undefined ? undefined : valueAt(data, more)
  if (flag === undefined || flag === null) return true
  const isOn = flag === true || (typeof flag === 'number' && flag !== 0)
  return isOn !== (moreIsInverted ?? false)
}

const positionText = (value: unknown): string | null => {
  if (typeof value === 'number') return Number.isFinite(value) && value !== 0 ? String(value) : null
  return typeof value === 'string' && value !== '' ? value : null
}

const nextPage = (row: ScraperRow, input: ScrapeInput, data: unknown): string | null => {
  const main = mainListOf(row.answer)
  const list = main === null ? undefined : valueAt(data, main.name)
  if (!Array.isArray(list) || list.length === 0) return null
  const max = row.inputs.find(({ kind }) => kind === 'page')?.max ?? Number.POSITIVE_INFINITY
  const page = (typeof input.page === 'number' ? input.page : 1) + 1
  return page <= max ? String(page) : null
}

/**
 * The cursor of the next page; null after the last page. Null too if the answer has the requested page's own cursor.
 */
export const nextCursorOf = (row: ScraperRow, input: ScrapeInput, data: unknown): string | null => {
  const { paging } = row
  if (paging === null || !hasNextPage(data, paging)) return null
  if (paging.read === null) return nextPage(row, input, data)
  const first = positionText(valueAt(data, paging.read))
  if (first === null) return null
  if (paging.second === undefined) return first === input.cursor ? null : first
  const second = positionText(valueAt(data, paging.second))
  return second === null ? null : packed({ first, second })
}

/** An answer as received. */
export type ProviderResponse = { readonly status: number; readonly text: string }

/**
 * The outcome of an answer, and the problem behind it. `refused`: the platform or provider charged nothing and may
 * answer later. `spoilt`: it may have charged. `key` and `credits`: a problem of our account at the provider. `drift`:
 * the scraper table does not match the provider.
 */
export type ResponseVerdict = {
  readonly outcome: ScrapeOutcome
  readonly trouble: 'refused' | 'spoilt' | 'key' | 'credits' | 'drift' | null
  readonly creditsCharged: number | null
  readonly creditsLeft: number | null
}

type Body = Readonly<Record<string, unknown>>

export const failure = (
  code: ScrapeFailure['code'],
  retryAfterSeconds: number | null = null,
): ScrapeFailure => ({ kind: 'failed', code, retryAfterSeconds })

/** The pause after a failure that may pass, if the provider names none. Seconds. */
const retryAfterS = 5

/** The provider's own fields around the data. */
const envelope = new Set(['success', 'credits_remaining', 'credits_charged', 'cached', 'cached_at'])

const withoutEnvelope = (body: Body): Body =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !envelope.has(name)))

/** No platform's data is nested this deep. Clients fail at a few hundred levels, `JSON.stringify` at some thousand. */
const maxLevels = 200

const parsed = (text: string): unknown => {
  if (!isNestedWithin(maxLevels, text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null

/** The data of a search without hits: empty lists. */
const emptyOf = (row: ScraperRow): unknown =>
  Object.fromEntries(
    row.answer.fields
      .filter(({ type }) => type.startsWith('object[') || type === 'array')
      .map(({ name }) => [name, []]),
  )

const emptyOutcome = (data: unknown): ScrapeOutcome => ({ kind: 'nothing', data, nextCursor: null })

/** True if the answer has at least one list of objects and all of them are empty. */
const hasNoHit = (row: ScraperRow, data: Body): boolean => {
  const lists = row.answer.fields.filter(({ name, type }) => type === 'object[]' && Array.isArray(data[name]))
  return lists.length > 0 && lists.every(({ name }) => (data[name] as readonly unknown[]).length === 0)
}

const isNull = (value: unknown): boolean => value === null || (Array.isArray(value) && value.length === 0)

/** Whether a message is about the target, and not about our key or plan at the provider. */
const isAboutTarget = (message: unknown): boolean =>
  typeof message === 'string' &&
  /\b(?:age|restricted|private|gated|sign(?:ed)? in|log(?:ged)? ?in|region|country|unavailable|not available|blocked by)\b/i.test(
    message,
  ) &&
  !/\b(?:api|keys?|credits?|plan|subscription|token)\b/i.test(message)

const accountIsGone = ({ data }: Body): boolean => isObject(data) && data.accountDoesNotExist === true

type Read = { readonly outcome: ScrapeOutcome; readonly trouble: ResponseVerdict['trouble'] }

const withoutTrouble = (outcome: ScrapeOutcome): Read => ({ outcome, trouble: null })

const absent = (row: ScraperRow): Read =>
  withoutTrouble(row.isSearch ? emptyOutcome(emptyOf(row)) : { kind: 'target_not_found' })

const givenNames = (input: ScrapeInput): string => Object.keys(input).join(', ')

/** The meaning of an error status, of the answer or of its body. */
const refusal = (row: ScraperRow, input: ScrapeInput, status: number, body: Body): Read => {
  const { error, message } = body
  switch (status) {
    case 404:
      if (error === 'not_found' || accountIsGone(body) || body.account_status === 'private')
        return absent(row)
      return { outcome: failure('provider_failed'), trouble: 'drift' }
    case 403:
      if (error === 'forbidden' && isAboutTarget(message))
        return withoutTrouble({ kind: 'target_restricted' })
      return { outcome: failure('upstream_auth_rejected'), trouble: 'key' }
    case 401:
      return { outcome: failure('upstream_auth_rejected'), trouble: 'key' }
    case 402:
      return { outcome: failure('upstream_credits_exhausted'), trouble: 'credits' }
    case 400:
    case 422:
      return {
        outcome: {
          kind: 'bad_input',
          details: `the platform does not take what was given: ${givenNames(input) || 'no field'}`,
        },
        trouble: 'drift',
      }
    default:
      return { outcome: failure('provider_failed', retryAfterS), trouble: 'refused' }
  }
}

const success = (row: ScraperRow, input: ScrapeInput, body: unknown): Read => {
  const unusableResponse = (retryAfterSeconds: number | null): Read => ({
    outcome: failure('provider_failed', retryAfterSeconds),
    trouble: 'spoilt',
  })
  if (Array.isArray(body))
    return row.answer.isBareList
      ? withoutTrouble({ kind: 'found', data: body, nextCursor: null })
      : unusableResponse(null)
  if (!isObject(body)) return unusableResponse(retryAfterS)
  if (body.success === false) {
    const status = countOf(body.errorStatus)
    return status !== null && status >= 400
      ? refusal(row, input, status, body)
      : refusal(row, input, 500, body)
  }
  if (body.account_status === 'private') return absent(row)
  if (body.account_status === 'age-restricted' && input.include_gated_profile !== true)
    return withoutTrouble({ kind: 'target_restricted' })
  const data = withoutEnvelope(body)
  if (!row.answer.fields.some(({ name }) => Object.hasOwn(data, name))) return unusableResponse(null)
  const { nothingWhenNull } = row
  if (nothingWhenNull !== null && Object.hasOwn(data, nothingWhenNull) && isNull(data[nothingWhenNull]))
    return withoutTrouble(emptyOutcome(data))
  if (row.isSearch && hasNoHit(row, data)) return withoutTrouble(emptyOutcome(data))
  return withoutTrouble({ kind: 'found', data, nextCursor: nextCursorOf(row, input, data) })
}

/**
 * Classifies an answer of the protocol (docs/guides/scrapers.md, "What is billed"). Only the data gets into the
 * outcome, no other text of the provider.
 */
export const classify = (
  row: ScraperRow,
  input: ScrapeInput,
  { status, text }: ProviderResponse,
): ResponseVerdict => {
  const body = parsed(text)
  const fields = isObject(body) ? body : {}
  const { outcome, trouble } =
    status >= 200 && status < 300 ? success(row, input, body) : refusal(row, input, status, fields)
  const creditsCharged = countOf(fields.credits_charged)
  return {
    outcome,
    trouble: trouble === 'refused' && creditsCharged !== null && creditsCharged > 0 ? 'spoilt' : trouble,
    creditsCharged,
    creditsLeft: countOf(fields.credits_remaining),
  }
}

/** One request and its result. `unsent`: no connection was made, so nothing was requested and nothing charged. */
export type Attempt = Omit<ResponseVerdict, 'trouble'> & {
  readonly trouble: ResponseVerdict['trouble'] | 'unsent'
  /** The status of the answer; null without an answer. */
  readonly status: number | null
  /** The provider's Retry-After in milliseconds; null if it sent none. */
  readonly retryAfterMs: number | null
  /** The kind of fault if there was no answer, for logs. */
  readonly fault: string | null
}

/** Faults while connecting, before the first byte of the request. */
const unsentFaults = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'TargetRefused',
])

/** Adds the provider's Retry-After to a failure, if it sent one. */
const withRetryAfter = (outcome: ScrapeOutcome, waitMs: number | null): ScrapeOutcome =>
  outcome.kind === 'failed' && waitMs !== null
    ? { ...outcome, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)) }
    : outcome

const broken = (fault: string): Attempt => ({
  outcome: failure('provider_failed', retryAfterS),
  trouble: unsentFaults.has(fault) ? 'unsent' : 'spoilt',
  creditsCharged: null,
  creditsLeft: null,
  status: null,
  retryAfterMs: null,
  fault,
})

/** Sends one request of a row. Never rejects. */
export const attempt = async (
  {
    row,
    input,
    request: providerRequest,
  }: { readonly row: ScraperRow; readonly input: ScrapeInput; readonly request: ProviderRequest },
  providerAccess: {
    readonly send: Send
    readonly baseUrl: string
    readonly apiKey: string
    readonly signal: AbortSignal
    readonly clock: Clock
  },
): Promise<Attempt> => {
  try {
    const { status, headers, text } = await providerAccess.send(
      `${providerAccess.baseUrl}${providerRequest.target}`,
      {
        method: providerRequest.method,
        headers: {
          'x-api-key': providerAccess.apiKey,
          accept: 'application/json',
          ...(providerRequest.body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(providerRequest.body !== undefined && { body: providerRequest.body }),
        signal: providerAccess.signal,
      },
    )
    const verdict = classify(row, input, { status, text: await text() })
    const waitMs = retryAfterMs(headers.get('retry-after'), providerAccess.clock())
    return {
      ...verdict,
      outcome: withRetryAfter(verdict.outcome, waitMs),
      status,
      retryAfterMs: waitMs,
      fault: null,
    }
  } catch (error) {
    return broken(faultKind(error))
  }
}

const longestWaitMs = 2_000

/**
 * The delay before the second and last attempt, milliseconds; null: no second attempt. Only requests that cannot have
 * been charged are repeated: no connection was made, or the answer reports that nothing was done. A time-out behind the
 * provider may hide a charge, so after it only rows that cost at most one credit are repeated.
 * @param random from 0 to 1
 */
export const secondAttemptDelayMs = (
  row: ScraperRow,
  first: Attempt,
  random: () => number,
): number | null => {
  const jitter = 250 + random() * 500
  if (first.trouble === 'unsent') return jitter
  if (first.trouble !== 'refused') return null
  switch (first.status) {
    case 429: {
      if (first.retryAfterMs === null || first.retryAfterMs > longestWaitMs) return null
      return Math.max(jitter, first.retryAfterMs)
    }
    case 502:
    case 503:
      return jitter
    case 504:
      return row.source.maxCredits === 1 ? jitter : null
    default:
      return null
  }
}

/** Whether another provider may be tried: nothing was charged, and the fault is not in the input. */
export const mayTryAnotherProvider = ({ trouble, outcome }: Attempt): boolean =>
  trouble === 'unsent' ||
  trouble === 'refused' ||
  trouble === 'key' ||
  trouble === 'credits' ||
  (trouble === 'drift' && outcome.kind === 'failed')

/** Many servers refuse longer queries. Then the parameters are sent as JSON if the row allows it. */
const maxQueryLength = 6_000

/** A request of the protocol, without the provider's address and key. */
export type ProviderRequest = {
  readonly method: 'GET' | 'POST'
  /** The path with its query. */
  readonly target: string
  readonly body?: string
}

/** The parameters under their names in the protocol. A packed cursor is split into its two parts. */
export const parametersOf = (row: ScraperRow, input: ScrapeInput): Readonly<Record<string, InputValue>> => {
  const sent: Record<string, InputValue> = {}
  for (const { name, sentAs } of row.inputs) {
    const value = input[name]
    if (value !== undefined) sent[sentAs ?? name] = value
  }
  const second = row.paging?.second
  const pair = second !== undefined && typeof input.cursor === 'string' ? unpacked(input.cursor) : null
  if (row.paging && second !== undefined && pair !== null) {
    sent[row.paging.send] = pair.first
    sent[second] = pair.second
  }
  return sent
}

/** The request that fetches the row. */
export const buildProviderRequest = (row: ScraperRow, input: ScrapeInput): ProviderRequest => {
  const parameters = parametersOf(row, input)
  const query = new URLSearchParams(
    Object.entries(parameters).map(([name, value]): [string, string] => [name, String(value)]),
  ).toString()
  const { path, takesPost } = row.source
  if (takesPost && query.length > maxQueryLength)
    return { method: 'POST', target: path, body: JSON.stringify(parameters) }
  return { method: 'GET', target: query === '' ? path : `${path}?${query}` }
}
