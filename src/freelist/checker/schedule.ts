import type { EndpointState } from '../record/endpoint.ts'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** Those that answered are asked again within these bounds. */
const liveMs = { least: 2 * minuteMs, most: 5 * minuteMs }
/** After the first check without an answer; twice as long after each further one, up to a day. */
const firstRetryMs = { answeredBefore: 2 * minuteMs, neverAnswered: 10 * minuteMs }
const longestMs = dayMs
/** A part of the pause, so that what was added together is not checked together for ever. */
const jitter = 0.1

/**
 * When an endpoint is checked next, milliseconds from now. Nothing is ever given up: the longest pause is a day, less up
 * to a fifth.
 * @param failures checks in a row that it did not answer
 * @param random from 0 up to, but not including, 1
 */
export const pauseMs = (
  { state, failures }: { readonly state: EndpointState; readonly failures: number },
  random: number,
): number => {
  if (state === 'live') return Math.round(liveMs.least + (liveMs.most - liveMs.least) * random)
  const first = state === 'never_answered' ? firstRetryMs.neverAnswered : firstRetryMs.answeredBefore
  const doubled = first * 2 ** Math.min(20, Math.max(0, failures - 1))
  return Math.round(Math.min(doubled, longestMs / (1 + jitter)) * (1 - jitter + 2 * jitter * random))
}
