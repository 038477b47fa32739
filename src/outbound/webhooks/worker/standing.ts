import { isoTime } from '../../../kernel/clock.ts'

/** What an endpoint has shown so far. */
export type Standing = {
  /** Attempts that failed in a row. */
  readonly failures: number
  /** When the first of these failed, by the service's clock, ISO 8601. */
  readonly failingSince: string | null
  /** The URL that it answered 2xx at: another one has to prove itself anew. */
  readonly provenUrlId: string | null
}

/** Of an endpoint that nothing was sent to. */
export const unknownStanding: Standing = { failures: 0, failingSince: null, provenUrlId: null }

const firstHoldMs = 1_000
const maxHoldMs = 60_000

/** Every attempt failed for so long, and there were so many (two deliveries that were given up): the endpoint is disabled. */
export const hopelessMs = 5 * 24 * 60 * 60 * 1000
const hopelessFailures = 20

/** Whether the URL has answered 2xx: only then it gets more than one attempt at a time. */
export const isProven = ({ provenUrlId }: Standing, urlId: string | null): boolean =>
  urlId !== null && provenUrlId === urlId

/** What an endpoint has shown after one more attempt. */
export const afterAttempt = (
  standing: Standing,
  { urlId, acknowledged, nowMs }: { urlId: string | null; acknowledged: boolean; nowMs: number },
): Standing =>
  acknowledged
    ? { failures: 0, failingSince: null, provenUrlId: urlId }
    : {
        ...standing,
        failures: standing.failures + 1,
        failingSince: standing.failingSince ?? isoTime(nowMs),
      }

/**
 * How long the endpoint is left alone. A URL that never answered is left alone after a failure, for 1 s, doubling to a
 * minute: nobody can have a host that is not theirs flooded, however many events there are.
 */
export const holdMs = (standing: Standing, urlId: string | null): number =>
  standing.failures === 0 || isProven(standing, urlId)
    ? 0
    : Math.min(maxHoldMs, firstHoldMs * 2 ** Math.min(standing.failures - 1, 10))

/** Since when every attempt failed, where that is reason to stop sending (see `hopelessMs`); null: it is not. */
export const hopelessSince = ({ failures, failingSince }: Standing, nowMs: number): string | null =>
  failures >= hopelessFailures && failingSince !== null && nowMs - Date.parse(failingSince) >= hopelessMs
    ? failingSince
    : null
