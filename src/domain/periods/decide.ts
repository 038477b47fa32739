import type { CommandDecision } from '../../kernel/decider.ts'
import { closingDelayMs, type Period } from '../../kernel/months.ts'
import { periodStream } from '../../kernel/streams.ts'
import type { PeriodClosed, PeriodCutOff, PeriodState } from './events.ts'

export type CutOffAnswer =
  | { readonly outcome: 'cut off' }
  | { readonly outcome: 'closed'; readonly closed: PeriodClosed['data']; readonly closedAtMs: number }
  /** It can be closed from `fromMs` on, milliseconds since the epoch. */
  | { readonly outcome: 'not over'; readonly fromMs: number }

/**
 * The first step of a closing. `endMs` is the end of the month in the accounting time zone, `nowMs` is the service's
 * clock. A month that is already cut off or closed does not change: its recorded end remains, whatever the zone is now.
 */
export const decideCutOff = (
  state: PeriodState,
  period: Period,
  endMs: number,
  nowMs: number,
): CommandDecision<CutOffAnswer> => {
  if (state.status === 'closed') {
    const { closed, closedAtMs } = state
    return { appends: [], answer: { outcome: 'closed', closed, closedAtMs } }
  }
  if (state.status === 'cut off') return { appends: [], answer: { outcome: 'cut off' } }
  const fromMs = endMs + closingDelayMs
  if (nowMs < fromMs) return { appends: [], answer: { outcome: 'not over', fromMs } }
  const event: PeriodCutOff = {
    type: 'PeriodCutOff',
    data: { period, endedAt: new Date(endMs).toISOString() },
  }
  return {
    appends: [{ stream: periodStream(period), events: [event] }],
    answer: { outcome: 'cut off' },
  }
}

export type CloseAnswer = { readonly closed: PeriodClosed['data']; readonly closedAtMs: number }

/**
 * The second step: records what was booked up to the cut-off. A concurrent closing has the same result.
 * @throws if the month was not cut off
 */
export const decideClose = (
  state: PeriodState,
  closed: PeriodClosed['data'],
  nowMs: number,
): CommandDecision<CloseAnswer> => {
  if (state.status === 'closed')
    return { appends: [], answer: { closed: state.closed, closedAtMs: state.closedAtMs } }
  if (state.status === 'open') throw new Error(`period ${closed.period} is closed before it was cut off`)
  const event: PeriodClosed = { type: 'PeriodClosed', data: closed }
  return {
    appends: [{ stream: periodStream(closed.period as Period), events: [event] }],
    answer: { closed, closedAtMs: nowMs },
  }
}
