import { setTimeout as pause } from 'node:timers/promises'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { withTimeout } from '../../kernel/every.ts'
import { asError } from '../../kernel/failures.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { AppendRejected, DecidedInFuture } from '../eventstore/errors.ts'
import type { Appended, ItemOutcome } from '../eventstore/port.ts'
import type {
  CommandRunnerDependencies,
  CrashHooks,
  RunnerLimits,
  RunnerLogger,
  RunnerMetrics,
} from './command.ts'
import type { Answers, PendingCommand, Queue } from './command-queue.ts'
import { type BatchItem, type DecidedCommand, decideBatch } from './decide-batch.ts'
import type { Slot, Slots } from './fold-cache.ts'

export type Send = (items: readonly BatchItem[]) => Promise<readonly ItemOutcome[]>

/** Sends items to the log. An error or a timeout of the call means an unknown outcome of every item. */
export const createSend =
  ({ log }: Pick<CommandRunnerDependencies, 'log'>, limits: RunnerLimits): Send =>
  async (items) => {
    const timeoutError = () => new Error(`an append took longer than ${limits.appendTimeoutMs} ms`)
    try {
      const appends = items.map(({ appends }) => ({ appends }))
      const outcomes = await withTimeout(log.appendAll(appends), limits.appendTimeoutMs, timeoutError)
      if (outcomes.length === items.length) return outcomes
      throw new Error(`the log returned ${outcomes.length} outcomes for ${items.length} items`)
    } catch (thrown) {
      const cause = asError(thrown)
      return items.map(() => ({ status: 'unknown', cause, landed: [] }))
    }
  }

/** Settles an item. An error rejects the commands of this item and leaves the runner running. */
export const createSafeSettle =
  (
    settle: Settle,
    { logger }: Pick<CommandRunnerDependencies, 'logger'>,
    answers: Answers,
    nextTick: () => number,
  ): Settle =>
  (item, outcome, sentTick) => {
    try {
      settle(item, outcome, sentTick)
    } catch (thrown) {
      logger.error({ err: thrown }, 'could not settle a batch item')
      for (const slot of item.points.keys()) slot.readAfter = nextTick()
      for (const { pending } of item.members) answers.reject(pending, asError(thrown))
    }
  }

type BatchProcessorDependencies = Pick<
  CommandRunnerDependencies,
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
 * Decides, writes and answers one batch. Everything up to the append is synchronous, so no state changes between the
 * decisions. The streams that the batch writes are busy until its outcome is settled.
 */
export const createBatchProcessor =
  (dependencies: BatchProcessorDependencies) =>
  async (pendings: readonly PendingCommand[]): Promise<void> => {
    const { answers, hooks, metrics, backgroundScheduler } = dependencies
    const batch = decideBatch(dependencies, pendings)
    for (const { pending, error } of batch.failed) answers.reject(pending, error)
    for (const { pending, answer } of batch.answered) answers.resolve(pending, answer, null)
    for (const pending of batch.unverified) pending.verify = true
    dependencies.queue.requeue([...batch.unverified, ...batch.left])
    if (batch.items.length === 0) return

    for (const item of batch.items) for (const slot of item.points.keys()) slot.busy = true
    const sentTick = dependencies.nextTick()
    const sentMs = dependencies.monotonicMs()
    hooks?.at('before-append')
    backgroundScheduler?.begin()
    const outcomes = await dependencies.send(batch.items)
    backgroundScheduler?.end()
    hooks?.at('after-append')
    const { commands, events } = batch
    metrics?.onBatch?.({
      commands,
      items: batch.items.length,
      events,
      ms: dependencies.monotonicMs() - sentMs,
    })
    for (const [at, item] of batch.items.entries()) dependencies.settle(item, outcomes[at]!, sentTick)
  }

type Outcome<Status extends ItemOutcome['status']> = Extract<ItemOutcome, { status: Status }>

type SettleDependencies = {
  readonly limits: RunnerLimits
  readonly logger: RunnerLogger
  readonly metrics: RunnerMetrics | undefined
  readonly hooks: CrashHooks | undefined
  readonly answers: Answers
  readonly nextTick: () => number
  readonly noteConflict: (stream: StreamName) => void
  readonly requeue: (pendings: readonly PendingCommand[]) => void
  readonly onUnknown: (item: BatchItem, cause: Error, sentTick: number) => void
  readonly onPublished: (slot: Slot) => void
}

export type Settle = (item: BatchItem, outcome: ItemOutcome, sentTick: number) => void

/** Applies the outcome of an item to its streams and its commands. */
export const createSettle = (dependencies: SettleDependencies): Settle => {
  const { answers, limits } = dependencies

  const publish = (item: BatchItem, sentTick: number): void => {
    for (const [slot, point] of item.points) {
      if (slot.point === null || point.revision > slot.point.revision) slot.point = point
      // The expected revision matched after the send, so the stream ended there at that time.
      slot.verifiedAt = Math.max(slot.verifiedAt, sentTick)
      dependencies.onPublished(slot)
    }
  }

  const landed = (item: BatchItem, { appended }: Outcome<'landed'>, sentTick: number): void => {
    if (appended.length !== item.appends.length)
      throw new Error(
        `the log reported ${appended.length} appends of an item that has ${item.appends.length}`,
      )
    publish(item, sentTick)
    dependencies.hooks?.at('before-answer')
    const requeued: PendingCommand[] = []
    for (const { pending, answer, lastAppend, unverified } of item.members) {
      if (lastAppend >= 0) answers.resolve(pending, answer, appended[lastAppend]!.position)
      else if (unverified.every((slot) => item.points.has(slot))) answers.resolve(pending, answer, null)
      else if (!pending.answered) {
        pending.verify = true
        requeued.push(pending)
      }
    }
    dependencies.requeue(requeued)
  }

  /** Answers the commands whose appends are all in the appended prefix. Returns the others. */
  const answerPrefix = (item: BatchItem, prefix: readonly Appended[]): readonly DecidedCommand[] => {
    const others: DecidedCommand[] = []
    for (const member of item.members) {
      const position = prefix[member.lastAppend]?.position
      if (position === undefined) others.push(member)
      else answers.resolve(member.pending, member.answer, position)
    }
    const written = new Set(item.appends.slice(0, prefix.length).map(({ stream }) => stream))
    for (const slot of item.points.keys())
      if (written.has(slot.stream)) slot.readAfter = dependencies.nextTick()
    return others
  }

  const decideAgain = (members: readonly DecidedCommand[]): void => {
    const requeued: PendingCommand[] = []
    for (const { pending } of members) {
      if (pending.answered) continue
      if (++pending.attempts > limits.redecisions)
        answers.overload(pending, 'redecisions', `${pending.command.name} had too many conflicts`)
      else requeued.push(pending)
    }
    dependencies.requeue(requeued)
  }

  const conflict = (item: BatchItem, outcome: Outcome<'conflict'>): void => {
    dependencies.metrics?.onConflict?.(outcome.stream)
    const others = answerPrefix(item, outcome.landed)
    const slot = [...item.points.keys()].find(({ stream }) => stream === outcome.stream)
    if (slot === undefined) throw new Error(`conflict on ${outcome.stream}, which the item does not write`)
    const wasAssumedAbsent = slot.point === null
    // A stream that was only assumed absent is not contended: this is a repeated command.
    if (!wasAssumedAbsent) dependencies.noteConflict(outcome.stream)
    const actual = outcome.actual === 'noStream' ? -1 : outcome.actual
    if (slot.point !== null && actual < slot.point.revision && outcome.landed.length === 0) {
      // The log lost events that this process has read: an older log was restored.
      dependencies.logger.error(
        { stream: slot.stream, actual, known: slot.point.revision },
        'the log lost events of a stream',
      )
      slot.point = null
      slot.ignoreSnapshots = true
    }
    slot.readAfter = dependencies.nextTick()
    // After a restart clients repeat their commands, so other streams of this item probably exist, too.
    for (const { pending } of others)
      for (const use of pending.uses)
        if (use.slot.point !== null || wasAssumedAbsent) use.slot.readAfter = dependencies.nextTick()
    decideAgain(others)
  }

  const rejected = (item: BatchItem, { cause, landed: prefix }: Outcome<'rejected'>): void => {
    const others = answerPrefix(item, prefix)
    const writers = others.filter(({ lastAppend }) => lastAppend >= 0)
    if (writers.length === 1) {
      const error = cause instanceof AppendRejected ? cause : new AppendRejected(cause.message, { cause })
      answers.reject(writers[0]!.pending, error)
      decideAgain(others.filter((member) => member !== writers[0]))
      return
    }
    // The log rejects the data of one of them. Each is decided again in a separate item, so that only that one fails.
    for (const { pending } of others) pending.exclusive = true
    decideAgain(others)
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
        return dependencies.onUnknown(item, outcome.cause, sentTick)
      default: {
        const impossible: never = outcome
        throw new Error(`unknown outcome ${JSON.stringify(impossible)}`)
      }
    }
  }
}

type UnknownOutcomes = {
  /** Blocks the streams of the item and sends the same bytes again until the outcome is known. */
  block(item: BatchItem, cause: Error, sentTick: number): void
  /** Items whose outcome is unknown. */
  count(): number
  /** Sends nothing more. */
  stop(): void
}

type UnknownOutcomesDependencies = {
  readonly limits: RunnerLimits
  readonly logger: RunnerLogger
  readonly slots: Slots
  readonly answers: Answers
  readonly send: (items: readonly BatchItem[]) => Promise<readonly ItemOutcome[]>
  readonly onResolved: (item: BatchItem, outcome: ItemOutcome, sentTick: number) => void
}

type Unknown = Extract<ItemOutcome, { status: 'unknown' | 'unavailable' }>

/** Whether the outcome of the first send is still unknown. An unreachable log gives no information about it. */
const isUnknown = (outcome: ItemOutcome): outcome is Unknown =>
  outcome.status === 'unknown' || outcome.status === 'unavailable'

export const createUnknownOutcomes = (dependencies: UnknownOutcomesDependencies): UnknownOutcomes => {
  const { limits, logger, slots, answers } = dependencies
  const stopped = new AbortController()
  let count = 0

  const setBlocked = (item: BatchItem, on: boolean): void => {
    for (const slot of item.points.keys()) {
      slot.blocked = on
      slot.busy = on
      // The slot must remain when clients stop waiting, because it blocks the stream.
      if (on) slots.acquire(slot)
    }
  }

  const resend = async (item: BatchItem, streams: readonly string[]): Promise<ItemOutcome> => {
    // No limit but the end of the process: only the log knows the outcome, and a guess could lose money.
    for (let waitMs = limits.resendFirstMs; ; waitMs = Math.min(2 * waitMs, limits.resendMaxMs)) {
      await pause(waitMs, undefined, { signal: stopped.signal })
      const [outcome] = await dependencies.send([item])
      if (!isUnknown(outcome!)) return outcome!
      const { status, cause: err } = outcome
      // The log does not have these events and refuses them: decide again at the present time.
      const { stream, expected } = item.appends[0]!
      if (status === 'unavailable' && err instanceof DecidedInFuture)
        return { status: 'conflict', stream, actual: expected, landed: [] }
      logger.warn({ err, status, streams, waitMs }, 'the outcome of an append is still unknown')
    }
  }

  const unblock = async (item: BatchItem, sentTick: number): Promise<void> => {
    const streams = [...item.points.keys()].map(({ stream }) => stream)
    const bound = setTimeout(() => {
      for (const { pending } of item.members)
        answers.overload(pending, 'frozen', 'the outcome is not known yet; send it again under the same key')
    }, limits.unknownOutcomeWaitMs)
    try {
      const outcome = await resend(item, streams)
      logger.warn({ status: outcome.status, streams }, 'the outcome of an append is known')
      count--
      setBlocked(item, false)
      dependencies.onResolved(item, outcome, sentTick)
      for (const slot of item.points.keys()) slots.release(slot)
    } catch (error) {
      if (!stopped.signal.aborted) throw error
      for (const { pending } of item.members)
        answers.overload(pending, 'closed', 'the service is stopping; the outcome is not known', error)
    } finally {
      clearTimeout(bound)
    }
  }

  return {
    block(item, cause, sentTick) {
      count++
      setBlocked(item, true)
      logger.error(
        { err: cause, streams: [...item.points.keys()].map(({ stream }) => stream) },
        'the answer of an append was lost: its streams are blocked while the same bytes are sent again',
      )
      void unblock(item, sentTick)
    },
    count: () => count,
    stop: () => stopped.abort(),
  }
}
