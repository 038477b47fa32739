import type { MonotonicClock } from '../../kernel/clock.ts'
import type { StreamRefs } from '../../kernel/decider.ts'
import type { OverloadReason, RunnerLimits, RunnerMetrics } from './command.ts'
import { type Command, type CommandOutcome, CommandOverload } from './command.ts'
import { emptyPoint, type FoldPoint, type Slot, type Slots } from './fold-cache.ts'

/** Answers commands, each once, and releases their slots. */
export type Answers = {
  /** Counts a command that will be answered. */
  opened(): void
  resolve(pending: PendingCommand, answer: unknown, position: number | null): void
  reject(pending: PendingCommand, error: Error): void
  overload(pending: PendingCommand, reason: OverloadReason, message: string, cause?: unknown): void
  /** Commands without an answer. */
  open(): number
}

const overloadOf = (
  metrics: RunnerMetrics | undefined,
  reason: OverloadReason,
  message: string,
  cause?: unknown,
): CommandOverload => {
  metrics?.onOverload?.(reason)
  return new CommandOverload(
    message,
    reason === 'frozen' ? 2 : 1,
    cause === undefined ? undefined : { cause },
  )
}

export const createAnswers = (
  slots: Slots,
  metrics: RunnerMetrics | undefined,
  onAnswered: () => void,
): Answers => {
  let open = 0
  /** False for a command that already has an answer, such as one that waited too long for an unknown outcome. */
  const close = (pending: PendingCommand): boolean => {
    if (pending.answered) return false
    pending.answered = true
    for (const { slot } of pending.uses) slots.release(slot)
    open--
    onAnswered()
    return true
  }
  const reject = (pending: PendingCommand, error: Error): void => {
    if (close(pending)) pending.reject(error)
  }
  return {
    opened: () => {
      open++
    },
    resolve(pending, answer, position) {
      if (close(pending)) pending.resolve({ answer, position })
    },
    reject,
    overload(pending, reason, message, cause) {
      if (!pending.answered) reject(pending, overloadOf(metrics, reason, message, cause))
    },
    open: () => open,
  }
}

/** A stream of a command. */
export type StreamUse = { readonly key: string; readonly slot: Slot; readonly assumeAbsent: boolean }

// biome-ignore lint/suspicious/noExplicitAny: states are recovered by the command's own types
export type AnyCommand = Command<StreamRefs, any>

/** A command and its progress. */
export type PendingCommand = {
  readonly command: AnyCommand
  readonly uses: readonly StreamUse[]
  /** The tick of its arrival. States that were read later are fresh enough to refuse it. */
  readonly arrival: number
  /** Monotonic milliseconds. */
  readonly arrivedMs: number
  /** Decisions that were not appended. */
  attempts: number
  /** Its streams must be read first, because no append checks all of the states that it uses. */
  verify: boolean
  /** The log rejected a batch with this command. In its next batch no other command uses its streams. */
  exclusive: boolean
  answered: boolean
  readonly resolve: (outcome: CommandOutcome<unknown>) => void
  readonly reject: (error: Error) => void
}

/** Whether the stream must be read before this command can be decided. */
export const needsRead = (pending: PendingCommand, { slot, assumeAbsent }: StreamUse): boolean => {
  if (slot.verifiedAt <= slot.readAfter && slot.readAfter > 0) return true
  if (pending.verify) return slot.verifiedAt <= pending.arrival
  return slot.point === null && !assumeAbsent
}

/** The state to decide on if no earlier decision of the batch changed the stream. */
export const pointOf = (slot: Slot): FoldPoint => slot.point ?? emptyPoint(slot.fold)

export const isBusy = (pending: PendingCommand): boolean => pending.uses.some(({ slot }) => slot.busy)
export const isBlocked = (pending: PendingCommand): boolean => pending.uses.some(({ slot }) => slot.blocked)

type AdmissionDependencies = {
  readonly limits: RunnerLimits
  readonly metrics: RunnerMetrics | undefined
  readonly slots: Slots
  readonly answers: Answers
  readonly queue: Queue
  readonly nextTick: () => number
  readonly monotonicMs: MonotonicClock
  readonly isClosed: () => boolean
  readonly onAdmitted: () => void
}

const acquireAll = (slots: Slots, command: AnyCommand): readonly StreamUse[] => {
  const uses: StreamUse[] = []
  const seenSlots = new Set<Slot>()
  try {
    for (const [key, ref] of Object.entries(command.streams)) {
      const slot = slots.acquire(ref)
      uses.push({ key, slot, assumeAbsent: ref.assume === 'absent' })
      if (seenSlots.has(slot)) throw new Error(`command ${command.name} names stream ${slot.stream} twice`)
      seenSlots.add(slot)
    }
    return uses
  } catch (error) {
    for (const { slot } of uses) slots.release(slot)
    throw error
  }
}

/** Adds commands to the queue. A full queue and a closed runner reject with CommandOverload at once. */
export const createAdmission =
  (dependencies: AdmissionDependencies) =>
  (command: AnyCommand): Promise<CommandOutcome<unknown>> =>
    new Promise((resolve, reject) => {
      const { limits, metrics, queue } = dependencies
      if (dependencies.isClosed()) throw overloadOf(metrics, 'closed', 'the service is stopping')
      if (queue.length() >= limits.queueLength)
        throw overloadOf(metrics, 'queue-full', 'too many commands are waiting')
      const uses = acquireAll(dependencies.slots, command)
      dependencies.answers.opened()
      queue.push({
        command,
        uses,
        arrival: dependencies.nextTick(),
        arrivedMs: dependencies.monotonicMs(),
        attempts: 0,
        verify: false,
        exclusive: false,
        answered: false,
        resolve,
        reject,
      })
      dependencies.onAdmitted()
    })

/** Delays a batch for a short time, so that commands which are about to arrive share it. */
type BatchWindow = {
  /** A batch of `commands` was appended after `tookMs`. `waiting` others were in the queue. */
  batchAppended(batch: { readonly commands: number; readonly waiting: number; readonly tookMs: number }): void
  /** Whether the batch should wait for more commands. `onOver` is called at the end of the wait. */
  shouldWait(waiting: number): boolean
  stop(): void
}

type BatchWindowDependencies = {
  readonly limits: Pick<RunnerLimits, 'batchWindowMs' | 'batchCommands'>
  readonly monotonicMs: MonotonicClock
  readonly onOver: () => void
}

/** The expected share of returning clients. */
const expectedShare = 0.9
/** The next batch is expected to be at most this much larger than the last one, so the effect of a burst ends soon. */
const maxGrowth = 1.5

/**
 * When a batch is appended, its clients are about to send their next commands, while other commands are already waiting. Two
 * half batches would alternate, and each would cost as much as a full one. So the next batch waits until about as many
 * commands are there as were open. It waits no longer than the last append took, and at most `batchWindowMs`. A single client
 * never waits.
 */
export const createBatchWindow = ({ limits, monotonicMs, onOver }: BatchWindowDependencies): BatchWindow => {
  let targetCommands = 0
  let untilMs = 0
  let timer: NodeJS.Timeout | null = null

  const stop = (): void => {
    if (timer !== null) clearTimeout(timer)
    timer = null
  }

  return {
    batchAppended: ({ commands, waiting, tookMs }) => {
      const open = Math.min(commands + waiting, limits.batchCommands)
      targetCommands = Math.min(Math.ceil(expectedShare * open), Math.ceil(maxGrowth * commands))
      untilMs = monotonicMs() + Math.min(tookMs, limits.batchWindowMs)
    },
    shouldWait: (waiting) => {
      const leftMs = untilMs - monotonicMs()
      if (waiting < targetCommands && leftMs > 0) {
        timer ??= setTimeout(() => {
          timer = null
          onOver()
        }, leftMs)
        return true
      }
      stop()
      targetCommands = 0
      return false
    },
    stop,
  }
}

/** Waiting commands in arrival order. */
export type Queue = {
  push(pending: PendingCommand): void
  /** Puts commands back in arrival order. */
  requeue(pendings: readonly PendingCommand[]): void
  /** Removes and returns up to `limit` commands that satisfy `canRun`, in arrival order. */
  take(limit: number, canRun: (pending: PendingCommand) => boolean): readonly PendingCommand[]
  waiting(): readonly PendingCommand[]
  length(): number
}

const byArrival = (one: PendingCommand, other: PendingCommand): number => one.arrival - other.arrival

export const createQueue = (): Queue => {
  let queue: PendingCommand[] = []
  return {
    push(pending) {
      queue.push(pending)
    },
    requeue(pendings) {
      if (pendings.length > 0) queue = [...pendings, ...queue].sort(byArrival)
    },
    take(limit, canRun) {
      const taken: PendingCommand[] = []
      const left: PendingCommand[] = []
      let at = 0
      for (; at < queue.length && taken.length < limit; at++) {
        const pending = queue[at]!
        if (canRun(pending)) taken.push(pending)
        else left.push(pending)
      }
      if (taken.length > 0) queue = left.length > 0 ? left.concat(queue.slice(at)) : queue.slice(at)
      return taken
    },
    waiting: () => queue,
    length: () => queue.length,
  }
}

/**
 * A filter for one batch: no other command uses the streams of an exclusive command. A batch with rejected data is
 * tried again command by command.
 */
export const createExclusivity = (): ((pending: PendingCommand) => boolean) => {
  const usedSlots = new Set<Slot>()
  const exclusiveSlots = new Set<Slot>()
  return ({ exclusive, uses }) => {
    if (uses.some(({ slot }) => exclusiveSlots.has(slot) || (exclusive && usedSlots.has(slot)))) return false
    for (const { slot } of uses) {
      usedSlots.add(slot)
      if (exclusive) exclusiveSlots.add(slot)
    }
    return true
  }
}

const sweepMs = 100

type Sweeper = {
  /** Checks the queue for late commands until it is empty. */
  watch(): void
  stop(): void
}

/** Rejects commands that wait too long. */
export const createSweeper = (dependencies: {
  readonly limits: RunnerLimits
  readonly queue: Queue
  readonly answers: Answers
  readonly monotonicMs: MonotonicClock
}): Sweeper => {
  const { limits, queue, answers } = dependencies
  let timer: NodeJS.Timeout | undefined

  const sweep = (): void => {
    timer = undefined
    const now = dependencies.monotonicMs()
    const lateCommands = queue.take(queue.length(), (pending) => {
      const waitedMs = now - pending.arrivedMs
      return waitedMs > limits.queueWaitMs || (waitedMs > limits.unknownOutcomeWaitMs && isBlocked(pending))
    })
    for (const pending of lateCommands)
      if (isBlocked(pending))
        answers.overload(pending, 'frozen', 'an earlier append of this stream has no outcome yet')
      else
        answers.overload(
          pending,
          'wait',
          `${pending.command.name} got no answer within ${limits.queueWaitMs / 1000} s: the log does not answer or is overloaded`,
        )
    watch()
  }
  const watch = (): void => {
    if (timer === undefined && queue.length() > 0) timer = setTimeout(sweep, sweepMs)
  }
  return { watch, stop: () => clearTimeout(timer) }
}
