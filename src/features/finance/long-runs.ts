import { createLongRuns } from '../../platform/ui/long-runs.ts'
import type { Moment } from './input-forms.ts'
import type {
  ClosingRuns,
  FoldProgress,
  PeriodClosingRequest,
  ReplayRequest,
  ReplayRuns,
} from './pages/question.ts'
import type { ClosedPeriod, Periods } from './period-service.ts'
import type { ReplayCheck } from './replay.ts'

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
