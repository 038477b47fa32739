import type { ScraperRow } from '../catalog/row.ts'
import { nextCursorOf } from './next-cursor.ts'
import type { ScrapeFailure, ScrapeInput, ScrapeOutcome } from './port.ts'

/** An answer as it arrived. */
export type Heard = { readonly status: number; readonly text: string }

/**
 * What an answer means, and what is to be done about it besides.
 * `refused` is a platform or provider that took no money and may answer another time; `spoilt` one that may have taken it;
 * `key` and `credits` are about our account there; `drift` is about the table.
 */
export type Verdict = {
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

/** The provider's own words around the data. */
const envelope = new Set(['success', 'credits_remaining', 'credits_charged', 'cached', 'cached_at'])

const withoutEnvelope = (body: Body): Body =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !envelope.has(name)))

const parsed = (text: string): unknown => {
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

/** What a search answers when nothing fits: its lists, empty. */
const emptyOf = (row: ScraperRow): unknown =>
  Object.fromEntries(
    row.answer.fields
      .filter(({ type }) => type.startsWith('object[') || type === 'array')
      .map(({ name }) => [name, []]),
  )

const nothing = (data: unknown, cached: boolean): ScrapeOutcome => ({
  kind: 'nothing',
  data,
  nextCursor: null,
  cached,
})

/** Every list of objects that a search answers with is empty, and there is one. */
const hasNoHit = (row: ScraperRow, data: Body): boolean => {
  const lists = row.answer.fields.filter(({ name, type }) => type === 'object[]' && Array.isArray(data[name]))
  return lists.length > 0 && lists.every(({ name }) => (data[name] as readonly unknown[]).length === 0)
}

const isNull = (value: unknown): boolean => value === null || (Array.isArray(value) && value.length === 0)

/** A message about what was asked for, and none about our key or plan at the provider. */
const isAboutTarget = (message: unknown): boolean =>
  typeof message === 'string' &&
  /\b(?:age|restricted|private|gated|sign(?:ed)? in|log(?:ged)? ?in|region|country|unavailable|not available|blocked by)\b/i.test(
    message,
  ) &&
  !/\b(?:api|keys?|credits?|plan|subscription|token)\b/i.test(message)

const accountIsGone = ({ data }: Body): boolean => isObject(data) && data.accountDoesNotExist === true

type Read = { readonly outcome: ScrapeOutcome; readonly trouble: Verdict['trouble'] }

const quiet = (outcome: ScrapeOutcome): Read => ({ outcome, trouble: null })

const absent = (row: ScraperRow): Read =>
  quiet(row.isSearch ? nothing(emptyOf(row), false) : { kind: 'target_not_found' })

const givenNames = (input: ScrapeInput): string => Object.keys(input).join(', ')

/** A status that is no success, of the answer or of its body. */
const refusal = (row: ScraperRow, input: ScrapeInput, status: number, body: Body): Read => {
  const { error, message } = body
  switch (status) {
    case 404:
      if (error === 'not_found' || accountIsGone(body) || body.account_status === 'private')
        return absent(row)
      return { outcome: failure('provider_failed'), trouble: 'drift' }
    case 403:
      if (error === 'forbidden' && isAboutTarget(message)) return quiet({ kind: 'target_restricted' })
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
      return { outcome: failure('provider_failed'), trouble: 'refused' }
  }
}

const success = (row: ScraperRow, input: ScrapeInput, body: unknown): Read => {
  const spoilt: Read = { outcome: failure('provider_failed'), trouble: 'spoilt' }
  if (Array.isArray(body))
    return row.answer.isBareList
      ? quiet({ kind: 'found', data: body, nextCursor: null, cached: false })
      : spoilt
  if (!isObject(body)) return spoilt
  const cached = body.cached === true
  if (body.success === false) {
    const status = countOf(body.errorStatus)
    return status !== null && status >= 400
      ? refusal(row, input, status, body)
      : refusal(row, input, 500, body)
  }
  if (body.account_status === 'private') return absent(row)
  if (body.account_status === 'age-restricted' && input.include_gated_profile !== true)
    return quiet({ kind: 'target_restricted' })
  const data = withoutEnvelope(body)
  if (!row.answer.fields.some(({ name }) => Object.hasOwn(data, name))) return spoilt
  const { nothingWhenNull } = row
  if (nothingWhenNull !== null && Object.hasOwn(data, nothingWhenNull) && isNull(data[nothingWhenNull]))
    return quiet(nothing(data, cached))
  if (row.isSearch && hasNoHit(row, data)) return quiet(nothing(data, cached))
  return quiet({ kind: 'found', data, nextCursor: nextCursorOf(row, input, data), cached })
}

/**
 * What an answer of the protocol means (docs/scrapers.md, "What is billed"). Not one word of it gets into the outcome but
 * the data.
 */
export const classify = (row: ScraperRow, input: ScrapeInput, { status, text }: Heard): Verdict => {
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
