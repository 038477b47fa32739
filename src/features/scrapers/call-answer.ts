import type { ScrapeOutcome } from '../../domain/scrapers/calls.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { ApiError, refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'

/** A finished call, for all requests with its id. */
export type FinishedCall = {
  readonly outcome: ScrapeOutcome
  readonly billed: boolean
  /** An earlier answer was used again. */
  readonly cached: boolean
  readonly priceMicros: number
  /** The answer as it was first sent; null for an outcome without a body, and once it expired. */
  readonly bytes: Buffer | null
  /** Details of `bad_input`, in our own words; null when unknown. */
  readonly details: string | null
  /** Seconds to wait after a failure; null: a repeat would fail, too. */
  readonly retryAfterS: number | null
  /** Its position in the log; null when unknown. */
  readonly position: number | null
  /** What the wallet can spend after the call; null if an earlier request made it. */
  readonly availableMicros: number | null
  /** The call was made by an earlier request. */
  readonly replayed: boolean
}

/** The answer to a call with a body. */
export type ScrapeReply = {
  readonly bytes: Buffer
  readonly headers: Readonly<Record<string, string>>
  readonly position: number | null
}

/** Headers about the bill of this request, for answers and refusals. A repeated answer is charged to its first request. */
export const billingHeaders = ({
  priceMicros,
  billed,
  availableMicros = null,
  replayed,
}: Pick<FinishedCall, 'priceMicros' | 'billed' | 'replayed'> &
  Partial<Pick<FinishedCall, 'availableMicros'>>): Readonly<Record<string, string>> => ({
  'x-price-usd': dollarsOfMicros(priceMicros),
  'x-billed': String(billed && !replayed),
  // Rounded down to four decimals.
  ...(availableMicros !== null && {
    'x-balance-usd': dollarsOfMicros(Math.floor(availableMicros / 100) * 100),
  }),
  ...(replayed && { 'idempotency-replayed': 'true' }),
})

/** The refusal with additional headers. */
export const withHeaders = (error: ApiError, headers: Readonly<Record<string, string>>): ApiError =>
  new ApiError(error.code, error.message, error.extra, { ...headers, ...error.headers })

/** A scraper without a provider stays so until the operator changes it. Seconds. */
const unavailableS = 3_600

/** The refusal with a Retry-After. Each 503 has one. */
const withWait = (error: ApiError, retryAfterS: number | null): ApiError => {
  const waitS = retryAfterS ?? (error.status === 503 ? 1 : null)
  return waitS === null ? error : withHeaders(error, { 'retry-after': String(Math.max(1, Math.ceil(waitS))) })
}

/** The answers that are results without data: they are stored, and a repeat gets them again. */
const emptyAnswers = {
  target_not_found: 'the platform has no such profile, post or id',
  target_restricted: 'the platform shows the target only to users who are logged in',
} as const

/** The refusal for a failure. */
export const refusalOf = (
  outcome: Exclude<ScrapeOutcome, 'found' | 'empty' | keyof typeof emptyAnswers>,
  { details, retryAfterS }: Pick<FinishedCall, 'details' | 'retryAfterS'>,
): ApiError => {
  switch (outcome) {
    case 'bad_input':
      return refuse('bad_input', 'the scraper rejected the parameters', {
        details: details ?? 'the platform does not accept these values together',
      })
    case 'provider_failed':
    case 'interrupted':
      return withWait(
        refuse(
          'provider_failed',
          retryAfterS === null
            ? 'the platform removed this page or answers in an unknown form; do not repeat the call'
            : 'the platform could not be fetched; repeat the call after the seconds of Retry-After',
          { retryable: retryAfterS !== null },
        ),
        retryAfterS,
      )
    case 'upstream_credits_exhausted':
      return withWait(refuse(outcome, 'this scraper has no capacity at the moment; try again'), retryAfterS)
    case 'upstream_auth_rejected':
      return withWait(refuse(outcome, 'this scraper is out of service at the moment; try again'), retryAfterS)
    case 'scraper_unavailable':
      return withWait(refuse(outcome, 'no provider serves this scraper'), retryAfterS ?? unavailableS)
    case 'overloaded':
      return refuseWithRetryAfter(
        'overloaded',
        'too many calls of this platform are under way',
        retryAfterS ?? 1,
      )
    default: {
      const unknown: never = outcome
      throw new Error(`unknown outcome ${JSON.stringify(unknown)}`)
    }
  }
}

/** Whether the answer of a call can be given again. */
export const isStored = ({ outcome, bytes }: FinishedCall): boolean =>
  bytes !== null || (outcome !== 'found' && outcome !== 'empty')

/**
 * The answer for a finished call.
 * @throws ApiError with the headers of its bill: as `refusalOf` returns, or `result_expired`
 */
export const answerOf = (finishedCall: FinishedCall): ScrapeReply => {
  const { outcome, bytes, position, priceMicros, billed, cached } = finishedCall
  const headers = billingHeaders(finishedCall)
  if (outcome === 'target_not_found' || outcome === 'target_restricted') {
    const billing = { priceUsd: dollarsOfMicros(priceMicros), billed }
    throw withHeaders(refuse(outcome, emptyAnswers[outcome], { billing, cached }), headers)
  }
  if (outcome !== 'found' && outcome !== 'empty') throw withHeaders(refusalOf(outcome, finishedCall), headers)
  if (bytes === null)
    throw withHeaders(
      refuse(
        'result_expired',
        'this X-Request-Id or Idempotency-Key was answered before and its result has expired; send a new one for a new call',
      ),
      headers,
    )
  return { bytes, headers, position }
}
