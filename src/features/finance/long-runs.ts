import type { Cause } from '../../kernel/event.ts'
import type { Period } from '../../kernel/months.ts'
import { createLongRuns, type LongRun } from '../../platform/ui/long-runs.ts'
import type { Moment } from './input-forms.ts'
import type { ClosedPeriod, Periods } from './period-service.ts'
import type { ReplayCheck } from './replay.ts'

/** The progress of a fold of the log: `done` of `total` positions. */
export type FoldProgress = { readonly done: number; readonly total: number; readonly events: number }
export type ReplayRequest = { readonly until: Moment | null; readonly typed: string }
export type PeriodClosingRequest = { readonly period: Period }
export type ReplayRun = LongRun<ReplayRequest, FoldProgress, ReplayCheck>
export type ClosingRun = LongRun<PeriodClosingRequest, FoldProgress, readonly ClosedPeriod[]>

type Begun<Run extends { readonly state: unknown }> = Omit<Run, 'state'>

/** Replays of this process, one at a time: lists the last ones, newest first, and starts another. */
export type ReplayRuns = {
  list(): readonly ReplayRun[]
  /**
   * @param head the last position that the finance tables have passed
   * @returns a promise of the end; null while another one runs
   */
  start(request: Begun<ReplayRun>, head: number): Promise<void> | null
}

/** Closings of this process, one at a time: lists the last ones, newest first, and starts another. */
export type ClosingRuns = {
  list(): readonly ClosingRun[]
  /** @returns a promise of the end; null while another one runs */
  start(request: Begun<ClosingRun>, cause: Cause): Promise<void> | null
}

type OnFold = (position: number, events: number) => void

/** Stops an aborted fold at its next progress report. */
const reportFold =
  (
    total: number,
    control: { readonly signal: AbortSignal; readonly onProgress: (progress: FoldProgress) => void },
  ): OnFold =>
  (done, events) => {
    control.signal.throwIfAborted()
    control.onProgress({ done, total, events })
  }

/**
 * Runs folds of the whole log for the finance pages: one of each kind at a time.
 * @param services.replay `head`: the last position that the finance tables have passed
 * @param services.head returns the log's current head
 */
export const createFoldRuns = (services: {
  readonly replay: (until: Moment | null, head: number, onPage: OnFold) => Promise<ReplayCheck>
  readonly close: Periods['close']
  readonly head: () => Promise<number>
}): { readonly replays: ReplayRuns; readonly closings: ClosingRuns; stop(): Promise<void> } => {
  const replays = createLongRuns<ReplayRequest, FoldProgress, ReplayCheck>()
  const closings = createLongRuns<PeriodClosingRequest, FoldProgress, readonly ClosedPeriod[]>()
  return {
    replays: {
      list: replays.list,
      start: (request, head) =>
        replays.start(request, (control) => {
          const { until } = request
          const total = until?.kind === 'position' ? Math.min(until.position, head) : head
          return services.replay(until, head, reportFold(total, control))
        }),
    },
    closings: {
      list: closings.list,
      // An interrupted closing continues when it is requested again.
      start: (request, cause) =>
        closings.start(request, async (control) =>
          services.close(request.period, cause, reportFold(await services.head(), control)),
        ),
    },
    stop: async () => {
      await Promise.all([replays.stop(), closings.stop()])
    },
  }
}
