import type { MonotonicClock } from '../../kernel/clock.ts'
import type { CommandOutcome } from './command.ts'
import type { Slot, Slots } from './fold-cache.ts'
import {
  type Answers,
  type AnyCommand,
  overloadOf,
  type PendingCommand,
  type StreamUse,
} from './pending-command.ts'
import type { RunnerLimits, RunnerMetrics } from './runner-ports.ts'

type AdmissionDeps = {
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

const holdAll = (slots: Slots, command: AnyCommand): readonly StreamUse[] => {
  const uses: StreamUse[] = []
  const seen = new Set<Slot>()
  try {
    for (const [key, ref] of Object.entries(command.streams)) {
      const slot = slots.acquire(ref)
      uses.push({ key, slot, assumeAbsent: ref.assume === 'absent' })
      if (seen.has(slot)) throw new Error(`command ${command.name} names stream ${slot.stream} twice`)
      seen.add(slot)
    }
    return uses
  } catch (error) {
    for (const { slot } of uses) slots.release(slot)
    throw error
  }
}

/** Lets commands into the queue, or refuses them: a full queue and a closed runner give CommandOverload at once. */
export const createAdmission =
  (deps: AdmissionDeps) =>
  (command: AnyCommand): Promise<CommandOutcome<unknown>> =>
    new Promise((resolve, reject) => {
      const { limits, metrics, queue } = deps
      if (deps.isClosed()) throw overloadOf(metrics, 'closed', 'the service is stopping')
      if (queue.length() >= limits.queueLength)
        throw overloadOf(metrics, 'queue-full', 'too many commands wait')
      const uses = holdAll(deps.slots, command)
      deps.answers.opened()
      queue.push({
        command,
        uses,
        arrival: deps.nextTick(),
        arrivedMs: deps.monotonicMs(),
        attempts: 0,
        verify: false,
        exclusive: false,
        answered: false,
        resolve,
        reject,
      })
      deps.onAdmitted()
    })

/** Decides when the commands that wait are enough for a batch, so that those that are about to come share it. */
export type BatchWindow = {
  /** A batch of `commands` landed after `tookMs`, while `waiting` others waited. */
  batchAppended(batch: { readonly commands: number; readonly waiting: number; readonly tookMs: number }): void
  /** Whether these should wait for more. When that is over without another command, `onOver` is called. */
  shouldWait(waiting: number): boolean
  stop(): void
}

type Deps = {
  readonly limits: Pick<RunnerLimits, 'batchWindowMs' | 'batchCommands'>
  readonly monotonicMs: MonotonicClock
  readonly onOver: () => void
}

/** The share of the commands that were open at the landing: not all of their clients come back. */
const expectedShare = 0.9
/** How much larger than the last batch the next one may be asked to be: a burst that is over is soon forgotten. */
const growth = 1.5

/**
 * When a batch lands, its clients are about to ask again, while those that waited could go at once. Two half batches would
 * then take turns, and pay twice for what a batch costs whatever its size. So the next batch waits until about as many
 * commands are there as were open, but no longer than the last append took, and `batchWindowMs` at most: the wait for a commit
 * is never much more than doubled, and a client that comes alone never waits.
 */
export const createBatchWindow = ({ limits, monotonicMs, onOver }: Deps): BatchWindow => {
  let enough = 0
  let untilMs = 0
  let timer: NodeJS.Timeout | null = null

  const stop = (): void => {
    if (timer !== null) clearTimeout(timer)
    timer = null
  }

  return {
    batchAppended: ({ commands, waiting, tookMs }) => {
      const open = Math.min(commands + waiting, limits.batchCommands)
      enough = Math.min(Math.ceil(expectedShare * open), Math.ceil(growth * commands))
      untilMs = monotonicMs() + Math.min(tookMs, limits.batchWindowMs)
    },
    shouldWait: (waiting) => {
      const leftMs = untilMs - monotonicMs()
      if (waiting < enough && leftMs > 0) {
        timer ??= setTimeout(() => {
          timer = null
          onOver()
        }, leftMs)
        return true
      }
      stop()
      enough = 0
      return false
    },
    stop,
  }
}

/** Commands that wait to be decided, in arrival order. */
export type Queue = {
  push(pending: PendingCommand): void
  /** Puts commands back where their arrival belongs. */
  requeue(pendings: readonly PendingCommand[]): void
  /** Takes out up to `limit` commands that `mayGo` lets pass, in arrival order. */
  take(limit: number, mayGo: (pending: PendingCommand) => boolean): readonly PendingCommand[]
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
    take(limit, mayGo) {
      const taken: PendingCommand[] = []
      const kept: PendingCommand[] = []
      let at = 0
      for (; at < queue.length && taken.length < limit; at++) {
        const pending = queue[at]!
        if (mayGo(pending)) taken.push(pending)
        else kept.push(pending)
      }
      if (taken.length > 0) queue = kept.length > 0 ? kept.concat(queue.slice(at)) : queue.slice(at)
      return taken
    },
    waiting: () => queue,
    length: () => queue.length,
  }
}

/**
 * Keeps a command that is to stand alone apart from others of its streams while a batch is picked: a batch that was
 * refused for its data is tried again command by command.
 */
export const createExclusivity = (): ((pending: PendingCommand) => boolean) => {
  const used = new Set<Slot>()
  const alone = new Set<Slot>()
  return ({ exclusive, uses }) => {
    if (uses.some(({ slot }) => alone.has(slot) || (exclusive && used.has(slot)))) return false
    for (const { slot } of uses) {
      used.add(slot)
      if (exclusive) alone.add(slot)
    }
    return true
  }
}
