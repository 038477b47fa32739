import type { VerificationRunRef, VerificationRuns } from '../audit/verification-pages.ts'
import type { Verification } from '../audit/verification-runs.ts'
import type { VerifyOptions, VerifyProgress } from '../audit/verify.ts'
import type { Moment } from '../features/finance/moment.ts'
import type {
  ClosingRuns,
  FoldProgress,
  PeriodClosingRequest,
  ReplayRequest,
  ReplayRuns,
} from '../features/finance/pages/question.ts'
import type { ClosedPeriod } from '../features/finance/period-service.ts'
import type { ReplayCheck } from '../features/finance/replay.ts'
import type { Actor, Cause } from '../kernel/event.ts'
import type { Period } from '../kernel/months.ts'
import { createLongRuns } from '../platform/ui/long-runs.ts'

type OnFold = (position: number, events: number) => void

/** The services behind it, those of the command line. */
export type FinanceServices = {
  readonly verify: (
    asked: Pick<VerifyOptions, 'runId' | 'onProgress' | 'signal'> & { readonly actor: Actor },
  ) => Promise<Verification>
  /** `head`: the last position that the tables of finance have passed. */
  readonly replay: (until: Moment | null, head: number, onPage: OnFold) => Promise<ReplayCheck>
  readonly close: (period: Period, cause: Cause, onProgress: OnFold) => Promise<readonly ClosedPeriod[]>
  /** Where the log ends now. */
  readonly head: () => Promise<number>
}

/** What finance has done over the whole log from its pages: of each kind one at a time. */
export const createFinanceWork = (
  services: FinanceServices,
): {
  readonly verifications: VerificationRuns
  readonly replays: ReplayRuns
  readonly closings: ClosingRuns
  stop(): Promise<void>
} => {
  const verifications = createLongRuns<VerificationRunRef, VerifyProgress, Verification>()
  const replays = createLongRuns<ReplayRequest, FoldProgress, ReplayCheck>()
  const closings = createLongRuns<PeriodClosingRequest, FoldProgress, readonly ClosedPeriod[]>()
  /** A fold is broken off where it tells how far it is. */
  const onFold =
    (
      total: number,
      on: { readonly signal: AbortSignal; readonly onProgress: (progress: FoldProgress) => void },
    ): OnFold =>
    (done, events) => {
      on.signal.throwIfAborted()
      on.onProgress({ done, total, events })
    }

  return {
    verifications: {
      list: verifications.list,
      start: (asked, actor) =>
        verifications.start(asked, (on) => services.verify({ runId: asked.runId, actor, ...on })),
    },
    replays: {
      list: replays.list,
      start: (asked, head) =>
        replays.start(asked, (on) => {
          const { until } = asked
          return services.replay(
            until,
            head,
            onFold(until?.kind === 'position' ? Math.min(until.position, head) : head, on),
          )
        }),
    },
    closings: {
      list: closings.list,
      /** Broken off, a closing goes on when it is asked for again. */
      start: (asked, cause) =>
        closings.start(asked, async (on) =>
          services.close(asked.period, cause, onFold(await services.head(), on)),
        ),
    },
    stop: async () => {
      await Promise.all([verifications.stop(), replays.stop(), closings.stop()])
    },
  }
}
