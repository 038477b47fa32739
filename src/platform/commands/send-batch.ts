import type { MonotonicClock } from '../../kernel/clock.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { AppendRejected, withTimeout } from '../eventstore/errors.ts'
import type { Appended, ItemOutcome } from '../eventstore/port.ts'
import { type BatchItem, type DecidedCommand, decideBatch } from './decide-batch.ts'
import type { Slot } from './fold-cache.ts'
import { type Answers, asError, type PendingCommand } from './pending-command.ts'
import type { Queue } from './queueing.ts'
import type {
  CommandRunnerDeps,
  CrashHooks,
  RunnerLimits,
  RunnerLogger,
  RunnerMetrics,
} from './runner-ports.ts'

export type Send = (items: readonly BatchItem[]) => Promise<readonly ItemOutcome[]>

/** Sends items to the log; whatever goes wrong on the way leaves their outcome unknown. */
export const createSend =
  ({ log }: Pick<CommandRunnerDeps, 'log'>, limits: RunnerLimits): Send =>
  async (items) => {
    const late = () => new Error(`an append took longer than ${limits.appendTimeoutMs} ms`)
    try {
      const bare = items.map(({ appends }) => ({ appends }))
      const outcomes = await withTimeout(log.appendAll(bare), limits.appendTimeoutMs, late)
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
  'clock' | 'codec' | 'newEventId' | 'metrics' | 'hooks' | 'backgroundScheduler'
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
export const createBatchProcessor =
  (deps: FlightDeps) =>
  async (pendings: readonly PendingCommand[]): Promise<void> => {
    const { answers, hooks, metrics, backgroundScheduler } = deps
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
    backgroundScheduler?.begin()
    const outcomes = await deps.send(batch.items)
    backgroundScheduler?.end()
    hooks?.at('after-append')
    const { commands, events } = batch
    metrics?.onBatch?.({ commands, items: batch.items.length, events, ms: deps.monotonicMs() - sentMs })
    for (const [at, item] of batch.items.entries()) deps.settle(item, outcomes[at]!, sentTick)
  }

type Outcome<Status extends ItemOutcome['status']> = Extract<ItemOutcome, { status: Status }>

type SettleDeps = {
  readonly limits: RunnerLimits
  readonly logger: RunnerLogger
  readonly metrics: RunnerMetrics | undefined
  readonly hooks: CrashHooks | undefined
  readonly answers: Answers
  readonly nextTick: () => number
  readonly noteConflict: (stream: StreamName) => void
  readonly requeue: (pendings: readonly PendingCommand[]) => void
  readonly freeze: (item: BatchItem, cause: Error, sentTick: number) => void
  readonly onPublished: (slot: Slot) => void
}

export type Settle = (item: BatchItem, outcome: ItemOutcome, sentTick: number) => void

/** Says what an item's outcome means for its streams and its commands. */
export const createSettle = (deps: SettleDeps): Settle => {
  const { answers, limits } = deps

  const publish = (item: BatchItem, sentTick: number): void => {
    for (const [slot, point] of item.points) {
      if (slot.point === null || point.revision > slot.point.revision) slot.point = point
      // The expected revision matched after the send: the log was seen to end where the decision began.
      slot.verifiedAt = Math.max(slot.verifiedAt, sentTick)
      deps.onPublished(slot)
    }
  }

  const landed = (item: BatchItem, { appended }: Outcome<'landed'>, sentTick: number): void => {
    if (appended.length !== item.appends.length)
      throw new Error(`an item of ${item.appends.length} appends landed as ${appended.length}`)
    publish(item, sentTick)
    deps.hooks?.at('before-answer')
    const requeued: PendingCommand[] = []
    for (const { pending, answer, lastAppend, unverified } of item.members) {
      if (lastAppend >= 0) answers.resolve(pending, answer, appended[lastAppend]!.position)
      else if (unverified.every((slot) => item.points.has(slot))) answers.resolve(pending, answer, null)
      else if (!pending.answered) {
        pending.verify = true
        requeued.push(pending)
      }
    }
    deps.requeue(requeued)
  }

  /** Answers the commands whose appends are all in the landed prefix; returns the others. */
  const answerPrefix = (item: BatchItem, prefix: readonly Appended[]): readonly DecidedCommand[] => {
    const others: DecidedCommand[] = []
    for (const member of item.members) {
      const position = prefix[member.lastAppend]?.position
      if (position === undefined) others.push(member)
      else answers.resolve(member.pending, member.answer, position)
    }
    const written = new Set(item.appends.slice(0, prefix.length).map(({ stream }) => stream))
    for (const slot of item.points.keys()) if (written.has(slot.stream)) slot.readAfter = deps.nextTick()
    return others
  }

  const again = (members: readonly DecidedCommand[]): void => {
    const requeued: PendingCommand[] = []
    for (const { pending } of members) {
      if (pending.answered) continue
      if (++pending.attempts > limits.redecisions)
        answers.overload(pending, 'redecisions', `${pending.command.name} met too many conflicts`)
      else requeued.push(pending)
    }
    deps.requeue(requeued)
  }

  const conflict = (item: BatchItem, outcome: Outcome<'conflict'>): void => {
    deps.metrics?.onConflict?.(outcome.stream)
    const others = answerPrefix(item, outcome.landed)
    const slot = [...item.points.keys()].find(({ stream }) => stream === outcome.stream)
    if (slot === undefined) throw new Error(`conflict on ${outcome.stream}, which the item does not write`)
    const wasAssumedAbsent = slot.point === null
    // A stream that was only taken as absent is no hot stream: its command came before.
    if (!wasAssumedAbsent) deps.noteConflict(outcome.stream)
    const actual = outcome.actual === 'noStream' ? -1 : outcome.actual
    if (slot.point !== null && actual < slot.point.revision && outcome.landed.length === 0) {
      // The log does not have what this process knows: it was set back under it.
      deps.logger.error(
        { stream: slot.stream, actual, known: slot.point.revision },
        'a stream is shorter than known',
      )
      slot.point = null
      slot.ignoreSnapshots = true
    }
    slot.readAfter = deps.nextTick()
    // Where one stream was wrongly taken as absent (clients repeat themselves after a restart), others are likely to be.
    for (const { pending } of others)
      for (const use of pending.uses)
        if (use.slot.point !== null || wasAssumedAbsent) use.slot.readAfter = deps.nextTick()
    again(others)
  }

  const rejected = (item: BatchItem, { cause, landed: prefix }: Outcome<'rejected'>): void => {
    const others = answerPrefix(item, prefix)
    const writers = others.filter(({ lastAppend }) => lastAppend >= 0)
    if (writers.length === 1) {
      const error = cause instanceof AppendRejected ? cause : new AppendRejected(cause.message, { cause })
      answers.reject(writers[0]!.pending, error)
      again(others.filter((member) => member !== writers[0]))
      return
    }
    // One of them carries what the log does not take. Each is decided again with an item of its own, so that it fails alone.
    for (const { pending } of others) pending.exclusive = true
    again(others)
  }

  const unavailable = (item: BatchItem, { cause, landed: prefix }: Outcome<'unavailable'>): void => {
    for (const { pending } of answerPrefix(item, prefix))
      answers.overload(pending, 'unavailable', 'the log cannot be reached', cause)
  }

  return (item, outcome, sentTick) => {
    for (const slot of item.points.keys()) slot.busy = false
    switch (outcome.status) {
      case 'landed':
        return landed(item, outcome, sentTick)
      case 'conflict':
        return conflict(item, outcome)
      case 'rejected':
        return rejected(item, outcome)
      case 'unavailable':
        return unavailable(item, outcome)
      case 'unknown':
        return deps.freeze(item, outcome.cause, sentTick)
      default: {
        const never: never = outcome
        throw new Error(`unknown outcome ${JSON.stringify(never)}`)
      }
    }
  }
}
