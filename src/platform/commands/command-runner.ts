import type { StreamRef } from '../../kernel/decider.ts'
import { withTimeout } from '../eventstore/errors.ts'
import type { CommandRunner } from './command.ts'
import { type ContendedGroup, createContention, readyCommandsOf } from './contention.ts'
import { createSlots } from './fold-cache.ts'
import { createLoader, type LoadFailure } from './loader.ts'
import {
  type AnyCommand,
  createAnswers,
  isBusy,
  needsRead,
  type PendingCommand,
  type StreamUse,
} from './pending-command.ts'
import { createAdmission, createBatchWindow, createExclusivity, createQueue } from './queueing.ts'
import { type CommandRunnerDeps, defaultLimits } from './runner-ports.ts'
import { createBatchProcessor, createSafeSettle, createSend, createSettle } from './send-batch.ts'
import { createSnapshotter, createSweeper } from './snapshots.ts'
import { createUnknownOutcomes } from './unknown-outcomes.ts'

/** What `/readyz` and the metrics ask of a runner. */
export type RunnerHealth = {
  /** Items whose append was sent and whose outcome is not known. */
  frozen(): number
  /** Commands that wait to be decided. */
  queueLength(): number
  /** Streams whose folds are kept. */
  cachedStreams(): number
}

/** What a start asks of a runner. */
export type RunnerWarmup = {
  /** Reads these streams one after another, and begins none after `withinMs`. Returns how many were read or known. */
  warm(refs: readonly StreamRef<unknown>[], withinMs: number): Promise<number>
}

/**
 * Runs commands over an event log by the rules of docs/decisions/0003-command-runner.md. The commands that wait while a
 * batch is in flight are the next batch. `docs/decisions/0003-command-runner.md` says why it is built as it is.
 *
 * `close()` leaves the log, the snapshot store and the locks open: they are the caller's.
 */
export const createCommandRunner = (deps: CommandRunnerDeps): CommandRunner & RunnerHealth & RunnerWarmup => {
  const { logger, metrics, hooks } = deps
  const limits = { ...defaultLimits, ...deps.limits }
  // Durations only; what time it is comes from `deps.clock`.
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
  const snapshotter = createSnapshotter({ ...deps, store: deps.snapshots, limits, monotonicMs, onIdle })
  const contention = createContention({ ...deps, limits, monotonicMs, onHeld: () => pump() })
  deps.streamLocks?.onAnnounced(contention.noteAnnounced)
  const loader = createLoader({
    ...deps,
    limits,
    nextTick,
    onLoaded: snapshotter.consider,
    onRead: (failures) => {
      if (failures.length > 0) refuseUnread(failures, queue.take(queue.length(), unreadBy(failures)))
      pump()
    },
  })
  const send = createSend(deps, limits)
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
      freeze: unknownOutcomes.block,
      onPublished: snapshotter.consider,
    }),
    deps,
    answers,
    nextTick,
  )
  const flight = createBatchProcessor({
    ...deps,
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
      contention.contendedGroups() +
      unknownOutcomes.frozen() +
      snapshotter.underWay() ===
    0
  const noteIdle = (): void => {
    if (whenIdle && isIdle()) whenIdle()
  }

  const unreadBy = (failures: readonly LoadFailure[]): ((pending: PendingCommand) => boolean) => {
    const failed = new Set(failures.map(({ slot }) => slot))
    return (pending) => pending.uses.some((use) => failed.has(use.slot) && needsRead(pending, use))
  }

  /** A log that cannot be read is an outage; a stream that cannot be folded is a bug, and its commands' own error. */
  const refuseUnread = (failures: readonly LoadFailure[], pendings: Iterable<PendingCommand>): void => {
    const bySlot = new Map(failures.map((failure) => [failure.slot, failure]))
    for (const pending of pendings) {
      const failure = pending.uses.map(({ slot }) => bySlot.get(slot)).find((found) => found !== undefined)!
      if (failure.kind === 'fold') answers.reject(pending, failure.error)
      else answers.overload(pending, 'unavailable', 'the log cannot be read', failure.error)
    }
  }

  const flyBatch = async (pendings: readonly PendingCommand[]): Promise<void> => {
    batchesInFlight++
    const sentMs = monotonicMs()
    await flight(pendings)
    batchWindow.batchAppended({
      commands: pendings.length,
      waiting: queue.length(),
      tookMs: monotonicMs() - sentMs,
    })
    batchesInFlight--
    pump()
  }

  /** Reads, decides and writes under the lane's locks. Nobody else here decides on its streams from the read on. */
  const flyLane = async (
    contendedGroup: ContendedGroup,
    pendings: readonly PendingCommand[],
  ): Promise<void> => {
    contendedGroup.state = 'running'
    const held = new Set(pendings.flatMap(({ uses }) => uses.map(({ slot }) => slot)))
    const mustRead = (pending: PendingCommand, use: StreamUse): boolean =>
      !use.assumeAbsent || needsRead(pending, use)
    const toRead = pendings.flatMap((pending) => pending.uses.filter((use) => mustRead(pending, use)))
    for (const slot of held) slot.busy = true
    const failures = await loader.read([...new Set(toRead.map(({ slot }) => slot))])
    for (const slot of held) slot.busy = false
    const unread = new Set(pendings.filter(unreadBy(failures)))
    refuseUnread(failures, unread)
    await flight(pendings.filter((pending) => !unread.has(pending)))
    contention.end(contendedGroup)
    pump()
  }

  const runLanes = (): void => {
    for (const contendedGroup of contention.held()) {
      const { ready, waiting } = readyCommandsOf(
        contention,
        contendedGroup,
        queue.waiting(),
        limits.batchCommands,
      )
      const exclusivity = createExclusivity()
      const turn = queue.take(limits.batchCommands, (pending) => ready.has(pending) && exclusivity(pending))
      if (turn.length > 0) void flyLane(contendedGroup, turn)
      else if (!waiting) contention.end(contendedGroup)
    }
    contention.open(queue.waiting())
  }

  const wantUnread = (pending: PendingCommand): boolean => {
    const unread = pending.uses.filter((use) => needsRead(pending, use))
    for (const { slot } of unread) loader.want(slot)
    return unread.length > 0
  }

  const mayGo = (pending: PendingCommand): boolean =>
    !isBusy(pending) && !contention.concerns(pending) && !wantUnread(pending)

  const pickBatch = (): readonly PendingCommand[] => {
    if (batchesInFlight === 0 && batchWindow.shouldWait(queue.length())) {
      for (const pending of queue.waiting()) mayGo(pending) // what they need is read meanwhile
      return []
    }
    const exclusivity = createExclusivity()
    return queue.take(limits.batchCommands, (pending) => mayGo(pending) && exclusivity(pending))
  }

  let scheduled = false
  /** Starts what can be started, once all is there that arrives in this turn of the event loop. */
  const pump = (): void => {
    if (scheduled) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      runLanes()
      while (batchesInFlight < limits.batchesInFlight) {
        const pendings = pickBatch()
        if (pendings.length === 0) break
        void flyBatch(pendings)
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
      else logger.warn({ err: failure.error, stream: ref.stream }, 'a busy stream could not be read ahead')
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

  return {
    run: (command) => admit(command as unknown as AnyCommand) as never,
    async close() {
      closed = true
      const idle = Promise.withResolvers<void>()
      whenIdle = idle.resolve
      const late = () => new Error(`closing the command runner took longer than ${limits.closeMs} ms`)
      if (!isIdle())
        await withTimeout(idle.promise, limits.closeMs, late).catch((err: unknown) => {
          const left = { err, open: answers.open(), frozen: unknownOutcomes.frozen() }
          logger.warn(left, 'closing with commands unanswered')
        })
      await snapshotter.finish(slots.idle())
      unknownOutcomes.stop()
      sweeper.stop()
      batchWindow.stop()
      for (const pending of queue.take(queue.length(), () => true))
        answers.overload(pending, 'closed', 'the service is stopping')
    },
    warm,
    frozen: unknownOutcomes.frozen,
    queueLength: queue.length,
    cachedStreams: slots.size,
  }
}
