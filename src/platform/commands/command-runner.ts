import type { StreamRef } from '../../kernel/decider.ts'
import { withTimeout } from '../../kernel/every.ts'
import type { AccountId } from '../../kernel/ids.ts'
import {
  CommandOverload,
  type CommandRunner,
  type CommandRunnerDependencies,
  defaultLimits,
} from './command.ts'
import {
  type AnyCommand,
  createAdmission,
  createAnswers,
  createBatchWindow,
  createExclusivity,
  createQueue,
  createSweeper,
  isBusy,
  needsRead,
  type PendingCommand,
  type StreamUse,
} from './command-queue.ts'
import { type ContendedGroup, createContention, readyCommandsOf } from './contention.ts'
import { createLoader, createSlots, type LoadFailure } from './fold-cache.ts'
import {
  createBatchProcessor,
  createSafeSettle,
  createSend,
  createSettle,
  createUnknownOutcomes,
} from './send-batch.ts'
import { createSnapshotter } from './snapshots.ts'

/*
 * The command runner decides commands in memory, in batches, and appends what they decide.
 * docs/decisions/0003 gives the reasons.
 *
 * A command is in one of these states:
 *
 * - QUEUED: it waits in arrival order (command-queue.ts).
 * - LOADING: it waits in the queue for a read of its streams (fold-cache.ts).
 * - DECIDED: `decide` ran on the states that the earlier commands of the batch leave (decide-batch.ts).
 * - SENT: its batch is in one `appendAll` call. The streams that it writes are busy (send-batch.ts).
 * - BLOCKED: the answer of the append was lost. The same bytes are sent again until the outcome is known (send-batch.ts).
 * - SETTLED: its caller has an answer or an error.
 *
 * Transitions:
 *
 * - QUEUED -> LOADING: the state of a stream is unknown, or may be outdated.
 * - LOADING -> QUEUED: the read ended. LOADING -> SETTLED: the read failed.
 * - QUEUED -> DECIDED: no batch is in flight and no stream of the command is busy.
 * - QUEUED -> SETTLED: it waited longer than `queueWaitMs`.
 * - DECIDED -> SENT: it appends events, or it depends on an append of the same batch.
 * - DECIDED -> QUEUED: a stream that it reads and does not write must be read first, or the batch is full.
 * - DECIDED -> SETTLED: it appends nothing and its states are fresh, or `decide` threw an error.
 * - SENT -> SETTLED: the log accepted the append, rejected it, or cannot be reached.
 * - SENT -> QUEUED: the log reported a conflict. The command is decided again, at most `redecisions` times.
 * - SENT -> BLOCKED -> SETTLED or QUEUED: the outcome was unknown first.
 *
 * Commands on a stream with a recent conflict run in a batch of their own, under the stream's lock (contention.ts).
 * Snapshots are written outside of these states (snapshots.ts).
 */

/** Figures for `/readyz` and the metrics. */
export type RunnerHealth = {
  /** Items whose append was sent and whose outcome is not known. */
  unknownOutcomes(): number
  /** Commands that wait to be decided. */
  queueLength(): number
  /** Streams whose state is cached. */
  cachedStreams(): number
}

/** Fills the cache at startup. */
export type RunnerWarmup = {
  /** Reads these streams one after another. Starts no read after `withinMs`. Returns the number of streams with a known state. */
  warm(refs: readonly StreamRef<unknown>[], withinMs: number): Promise<number>
}

/** Reports what was appended for an account, so that later reads of the account wait for it. */
export type RunnerPositions = {
  onAppended(listener: (account: AccountId, position: number) => void): void
}

/** `close()` leaves the log, the snapshot store and the locks open: the caller opened them. */
export const createCommandRunner = (
  dependencies: CommandRunnerDependencies,
): CommandRunner & RunnerHealth & RunnerWarmup & RunnerPositions => {
  const { logger, metrics, hooks } = dependencies
  const limits = { ...defaultLimits, ...dependencies.limits }
  // For durations. The time of day comes from `dependencies.clock`.
  const monotonicMs = (): number => performance.now()
  let tick = 0
  const nextTick = (): number => ++tick
  let batchesInFlight = 0
  let closed = false
  let whenIdle: (() => void) | undefined

  const queue = createQueue()
  const slots = createSlots(limits)
  const answers = createAnswers(slots, metrics, () => noteIdle())
  const onIdle = (): void => noteIdle()
  const snapshotter = createSnapshotter({
    ...dependencies,
    store: dependencies.snapshots,
    limits,
    monotonicMs,
    onIdle,
  })
  const contention = createContention({ ...dependencies, limits, monotonicMs, onHeld: () => pump() })
  dependencies.streamLocks?.onAnnounced(contention.noteAnnounced)
  const loader = createLoader({
    ...dependencies,
    limits,
    nextTick,
    onLoaded: snapshotter.consider,
    onRead: (failures) => {
      if (failures.length > 0) refuseUnread(failures, queue.take(queue.length(), unreadBy(failures)))
      pump()
    },
  })
  const send = createSend(dependencies, limits)
  const unknownOutcomes = createUnknownOutcomes({
    limits,
    logger,
    slots,
    answers,
    send,
    onResolved: (item, outcome, sentTick) => {
      settle(item, outcome, sentTick)
      pump()
    },
  })
  const settle = createSafeSettle(
    createSettle({
      limits,
      logger,
      metrics,
      hooks,
      answers,
      nextTick,
      noteConflict: contention.note,
      requeue: queue.requeue,
      onUnknown: unknownOutcomes.block,
      onPublished: snapshotter.consider,
    }),
    dependencies,
    answers,
    nextTick,
  )
  const processBatch = createBatchProcessor({
    ...dependencies,
    limits,
    answers,
    queue,
    send,
    settle,
    nextTick,
    monotonicMs,
  })
  const batchWindow = createBatchWindow({ limits, monotonicMs, onOver: () => pump() })
  const sweeper = createSweeper({ limits, queue, answers, monotonicMs })

  const isIdle = (): boolean =>
    answers.open() +
      batchesInFlight +
      contention.groups() +
      unknownOutcomes.count() +
      snapshotter.underWay() ===
    0
  const noteIdle = (): void => {
    if (whenIdle && isIdle()) whenIdle()
  }

  const unreadBy = (failures: readonly LoadFailure[]): ((pending: PendingCommand) => boolean) => {
    const failed = new Set(failures.map(({ slot }) => slot))
    return (pending) => pending.uses.some((use) => failed.has(use.slot) && needsRead(pending, use))
  }

  /** A failed read is an outage. A failed fold is a bug: its commands reject with its error. */
  const refuseUnread = (failures: readonly LoadFailure[], pendings: Iterable<PendingCommand>): void => {
    const bySlot = new Map(failures.map((failure) => [failure.slot, failure]))
    for (const pending of pendings) {
      const failure = pending.uses.map(({ slot }) => bySlot.get(slot)).find((found) => found !== undefined)!
      if (failure.kind === 'fold') answers.reject(pending, failure.error)
      else answers.overload(pending, 'unavailable', 'the log cannot be read', failure.error)
    }
  }

  const runBatch = async (pendings: readonly PendingCommand[]): Promise<void> => {
    batchesInFlight++
    const sentMs = monotonicMs()
    await processBatch(pendings)
    batchWindow.batchAppended({
      commands: pendings.length,
      waiting: queue.length(),
      tookMs: monotonicMs() - sentMs,
    })
    batchesInFlight--
    pump()
  }

  /** Reads, decides and writes under the locks of the group. Its streams are busy from the read on. */
  const runContendedGroup = async (
    contendedGroup: ContendedGroup,
    pendings: readonly PendingCommand[],
  ): Promise<void> => {
    contendedGroup.state = 'running'
    const slotsOfGroup = new Set(pendings.flatMap(({ uses }) => uses.map(({ slot }) => slot)))
    const mustRead = (pending: PendingCommand, use: StreamUse): boolean =>
      !use.assumeAbsent || needsRead(pending, use)
    const toRead = pendings.flatMap((pending) => pending.uses.filter((use) => mustRead(pending, use)))
    for (const slot of slotsOfGroup) slot.busy = true
    const failures = await loader.read([...new Set(toRead.map(({ slot }) => slot))])
    for (const slot of slotsOfGroup) slot.busy = false
    const unread = new Set(pendings.filter(unreadBy(failures)))
    refuseUnread(failures, unread)
    await processBatch(pendings.filter((pending) => !unread.has(pending)))
    contention.end(contendedGroup)
    pump()
  }

  const runContendedGroups = (): void => {
    for (const contendedGroup of contention.held()) {
      const { ready, waiting } = readyCommandsOf(
        contention,
        contendedGroup,
        queue.waiting(),
        limits.batchCommands,
      )
      const exclusivity = createExclusivity()
      const groupBatch = queue.take(
        limits.batchCommands,
        (pending) => ready.has(pending) && exclusivity(pending),
      )
      if (groupBatch.length > 0) void runContendedGroup(contendedGroup, groupBatch)
      else if (!waiting) contention.end(contendedGroup)
    }
    contention.open(queue.waiting())
  }

  const requestReads = (pending: PendingCommand): boolean => {
    const unread = pending.uses.filter((use) => needsRead(pending, use))
    for (const { slot } of unread) loader.want(slot)
    return unread.length > 0
  }

  const canRun = (pending: PendingCommand): boolean =>
    !isBusy(pending) && !contention.concerns(pending) && !requestReads(pending)

  const pickBatch = (): readonly PendingCommand[] => {
    if (batchesInFlight === 0 && batchWindow.shouldWait(queue.length())) {
      for (const pending of queue.waiting()) canRun(pending) // requests the reads that they need
      return []
    }
    const exclusivity = createExclusivity()
    return queue.take(limits.batchCommands, (pending) => canRun(pending) && exclusivity(pending))
  }

  let scheduled = false
  /** Starts batches at the end of this turn of the event loop, so that commands which arrive together share a batch. */
  const pump = (): void => {
    if (scheduled) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      runContendedGroups()
      while (batchesInFlight < limits.batchesInFlight) {
        const pendings = pickBatch()
        if (pendings.length === 0) break
        void runBatch(pendings)
      }
      sweeper.watch()
      noteIdle()
    })
  }

  const warm = async (refs: readonly StreamRef<unknown>[], withinMs: number): Promise<number> => {
    const endMs = monotonicMs() + withinMs
    let warmed = 0
    for (const ref of refs) {
      if (closed || monotonicMs() >= endMs) break
      const slot = slots.acquire(ref)
      const [failure] = slot.point === null ? await loader.read([slot]) : []
      slots.release(slot)
      if (failure === undefined) warmed += 1
      else
        logger.warn({ err: failure.error, stream: ref.stream }, 'could not read a busy stream into the cache')
    }
    return warmed
  }

  const isClosed = (): boolean => closed
  const admit = createAdmission({
    limits,
    metrics,
    slots,
    answers,
    queue,
    nextTick,
    monotonicMs,
    isClosed,
    onAdmitted: pump,
  })

  const appendedListeners: ((account: AccountId, position: number) => void)[] = []

  return {
    run: async (command) => {
      const problem = dependencies.problem?.() ?? null
      if (problem !== null) throw new CommandOverload(problem, 5)
      const outcome = await admit(command as unknown as AnyCommand)
      if (command.account !== undefined && outcome.position !== null)
        for (const listener of appendedListeners) listener(command.account, outcome.position)
      return outcome as never
    },
    onAppended: (listener) => {
      appendedListeners.push(listener)
    },
    async close() {
      closed = true
      const idle = Promise.withResolvers<void>()
      whenIdle = idle.resolve
      const timeoutError = () => new Error(`closing the command runner took longer than ${limits.closeMs} ms`)
      if (!isIdle())
        await withTimeout(idle.promise, limits.closeMs, timeoutError).catch((err: unknown) => {
          const left = { err, open: answers.open(), unknownOutcomes: unknownOutcomes.count() }
          logger.warn(left, 'the command runner closes with unanswered commands')
        })
      await snapshotter.finish(slots.idle())
      unknownOutcomes.stop()
      sweeper.stop()
      batchWindow.stop()
      for (const pending of queue.take(queue.length(), () => true))
        answers.overload(pending, 'closed', 'the service is stopping')
    },
    warm,
    unknownOutcomes: unknownOutcomes.count,
    queueLength: queue.length,
    cachedStreams: slots.size,
  }
}
