import { isoTime } from '../../../kernel/clock.ts'
import type { Standing } from './claim.ts'

const firstHoldMs = 1_000
const maxHoldMs = 60_000

/** Every attempt failed for so long, and there were so many (two deliveries that were given up): the endpoint is disabled. */
export const hopelessMs = 5 * 24 * 60 * 60 * 1000
const hopelessFailures = 20

/** Whether the URL has answered 2xx: only then it gets more than one attempt at a time. */
export const isProven = ({ provenUrlId }: Standing, urlId: string | null): boolean =>
  urlId !== null && provenUrlId === urlId

/**
 * What an endpoint has shown after one more attempt. A URL that never answered is left alone after a failure, for 1 s,
 * doubling to a minute: nobody can have a host that is not theirs flooded, however many events there are.
 */
export const afterAttempt = (
  standing: Standing,
  { urlId, acknowledged, nowMs }: { urlId: string | null; acknowledged: boolean; nowMs: number },
): Standing => {
  if (acknowledged) return { failures: 0, failingSince: null, provenUrlId: urlId, holdUntil: null }
  const failures = standing.failures + 1
  const holdMs = Math.min(maxHoldMs, firstHoldMs * 2 ** Math.min(failures - 1, 10))
  return {
    ...standing,
    failures,
    failingSince: standing.failingSince ?? isoTime(nowMs),
    holdUntil: isProven(standing, urlId) ? null : isoTime(nowMs + holdMs),
  }
}

/** Since when every attempt failed, where that is reason to stop sending (see `hopelessMs`); null: it is not. */
export const hopelessSince = ({ failures, failingSince }: Standing, nowMs: number): string | null =>
  failures >= hopelessFailures && failingSince !== null && nowMs - Date.parse(failingSince) >= hopelessMs
    ? failingSince
    : null
