import type { MonotonicClock } from '../../../kernel/clock.ts'
import type { ItemOutcome } from '../port.ts'
import { within } from '../within.ts'
import type { Answers } from './answers.ts'
import { asError } from './as-error.ts'
import { type BatchItem, decideBatch } from './batch.ts'
import type { RunnerLimits } from './limits.ts'
import type { Pending } from './pending.ts'
import type { CommandRunnerDeps } from './ports.ts'
import type { Queue } from './queue.ts'
import type { Settle } from './settle.ts'

export type Send = (items: readonly BatchItem[]) => Promise<readonly ItemOutcome[]>

/** Sends items to the log; whatever goes wrong on the way leaves their outcome unknown. */
export const createSend =
  ({ log }: Pick<CommandRunnerDeps, 'log'>, limits: RunnerLimits): Send =>
  async (items) => {
    const late = () => new Error(`an append took longer than ${limits.appendTimeoutMs} ms`)
    try {
      const bare = items.map(({ appends }) => ({ appends }))
      const outcomes = await within(log.appendAll(bare), limits.appendTimeoutMs, late)
      if (outcomes.length === items.length) return outcomes
      throw new Error(`${items.length} items were answered by ${outcomes.length} outcomes`)
    } catch (thrown) {
      const cause = asError(thrown)
      return items.map(() => ({ status: 'unknown', cause, landed: [] }))
    }
  }

/** Settles items; a bug in one (an adapter that answers nonsense) ends its own commands, not the runner. */
export const createSafeSettle =
  (
    settle: Settle,
    { logger }: Pick<CommandRunnerDeps, 'logger'>,
    answers: Answers,
    nextTick: () => number,
  ): Settle =>
  (item, outcome, sentTick) => {
    try {
      settle(item, outcome, sentTick)
    } catch (thrown) {
      logger.error({ err: thrown }, 'an outcome could not be taken in')
      for (const slot of item.points.keys()) slot.readAfter = nextTick()
      for (const { pending } of item.members) answers.reject(pending, asError(thrown))
    }
  }

type FlightDeps = Pick<
  CommandRunnerDeps,
  'clock' | 'codec' | 'newEventId' | 'metrics' | 'hooks' | 'lulls'
> & {
  readonly limits: RunnerLimits
  readonly answers: Answers
  readonly queue: Queue
  readonly send: Send
  readonly settle: Settle
  readonly nextTick: () => number
  readonly monotonicMs: MonotonicClock
}

/**
 * Decides, writes and answers one batch. Up to the append it runs in one go, so that nothing moves under the decisions;
 * until the outcome is settled the streams that it writes are busy.
 */
export const createFlight =
  (deps: FlightDeps) =>
  async (pendings: readonly Pending[]): Promise<void> => {
    const { answers, hooks, metrics, lulls } = deps
    const batch = decideBatch(deps, pendings)
    for (const { pending, error } of batch.failed) answers.reject(pending, error)
    for (const { pending, answer } of batch.answered) answers.resolve(pending, answer, null)
    for (const pending of batch.unverified) pending.verify = true
    deps.queue.requeue([...batch.unverified, ...batch.left])
    if (batch.items.length === 0) return

    for (const item of batch.items) for (const slot of item.points.keys()) slot.busy = true
    const sentTick = deps.nextTick()
    const sentMs = deps.monotonicMs()
    hooks?.at('before-append')
    lulls?.begin()
    const outcomes = await deps.send(batch.items)
    lulls?.end()
    hooks?.at('after-append')
    const { commands, events } = batch
    metrics?.onBatch?.({ commands, items: batch.items.length, events, ms: deps.monotonicMs() - sentMs })
    for (const [at, item] of batch.items.entries()) deps.settle(item, outcomes[at]!, sentTick)
  }
