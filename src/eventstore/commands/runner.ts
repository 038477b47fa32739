import type { ItemOutcome } from '../port.ts'
import { createAnswers, overloadOf } from './answers.ts'
import { type BatchItem, decideBatch } from './batch.ts'
import type { CommandOutcome, CommandRunner } from './command.ts'
import { createContention, type Lane, turnOf } from './contention.ts'
import { createFreezer } from './freezer.ts'
import { defaultLimits } from './limits.ts'
import { createLoader, type LoadFailure } from './loader.ts'
import { type AnyCommand, isBusy, isFrozen, needsRead, type Pending, type Use } from './pending.ts'
import type { CommandRunnerDeps } from './ports.ts'
import { createQueue, createSolitude } from './queue.ts'
import { createSettle } from './settle.ts'
import { createSlots, type Slot } from './slots.ts'
import { createSnapshotter } from './snapshotter.ts'
import { within } from './within.ts'

/** What `/readyz` and the metrics ask of a runner. */
export type RunnerHealth = {
  /** Items whose append was sent and whose outcome is not known. */
  frozen(): number
  /** Commands that wait to be decided. */
  queueLength(): number
  /** Streams whose folds are kept. */
  cachedStreams(): number
}

const sweepMs = 100

/**
 * Runs commands over an event log by the rules of design section 3, "Command runner". The commands that wait while a
 * batch is in flight are the next batch. `docs/decisions/0003-command-runner.md` says why it is built as it is.
 */
export const createCommandRunner = (deps: CommandRunnerDeps): CommandRunner & RunnerHealth => {
  const { log, logger, metrics, hooks } = deps
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
  const snapshotter = createSnapshotter({
    ...deps,
    store: deps.snapshots,
    limits,
    monotonicMs,
    onIdle: () => noteIdle(),
  })
  const contention = createContention({ ...deps, limits, monotonicMs, onHeld: () => pump() })
  deps.streamLocks?.onAnnounced(contention.heard)
  const loader = createLoader({
    ...deps,
    limits,
    nextTick,
    onLoaded: snapshotter.consider,
    onRead: (failures) => {
      if (failures.length > 0) refuseUnread(failures, queue.take(queue.length(), failedBy(failures)))
      pump()
    },
  })

  const send = async (items: readonly BatchItem[]): Promise<readonly ItemOutcome[]> => {
    try {
      const bare = items.map(({ appends }) => ({ appends }))
      const outcomes = await within(log.appendAll(bare), limits.appendTimeoutMs, 'an append')
      if (outcomes.length === items.length) return outcomes
      throw new Error(`${items.length} items were answered by ${outcomes.length} outcomes`)
    } catch (thrown) {
      const cause = thrown instanceof Error ? thrown : new Error(String(thrown))
      return items.map(() => ({ status: 'unknown', cause, landed: [] }))
    }
  }
  const freezer = createFreezer({
    limits,
    logger,
    slots,
    answers,
    send,
    onKnown: (item, outcome, sentTick) => {
      settleSafely(item, outcome, sentTick)
      pump()
      noteIdle()
    },
  })
  const settle = createSettle({
    limits,
    logger,
    metrics,
    hooks,
    answers,
    nextTick,
    noteConflict: contention.note,
    requeue: queue.requeue,
    freeze: freezer.freeze,
    onPublished: snapshotter.consider,
  })

  const isIdle = (): boolean =>
    answers.open() + batchesInFlight + contention.lanes() + freezer.frozen() + snapshotter.underWay() === 0
  const noteIdle = (): void => {
    if (whenIdle && isIdle()) whenIdle()
  }

  const failedBy =
    (failures: readonly LoadFailure[]) =>
    (pending: Pending): boolean =>
      pending.uses.some((use) => needsRead(pending, use) && failures.some(({ slot }) => slot === use.slot))

  /** A log that cannot be read is an outage; a stream that cannot be folded is a bug, and its commands' own error. */
  const refuseUnread = (failures: readonly LoadFailure[], pendings: readonly Pending[]): void => {
    for (const pending of pendings) {
      const failure = failures.find(({ slot }) => pending.uses.some((use) => use.slot === slot))!
      if (failure.kind === 'fold') answers.reject(pending, failure.error)
      else answers.overload(pending, 'unavailable', 'the log cannot be read', failure.error)
    }
  }

  /** A bug in one item (an adapter that answers nonsense) ends its own commands, not the runner. */
  const settleSafely = (item: BatchItem, outcome: ItemOutcome, sentTick: number): void => {
    try {
      settle(item, outcome, sentTick)
    } catch (thrown) {
      logger.error({ err: thrown }, 'an outcome could not be taken in')
      for (const slot of item.points.keys()) slot.readAfter = nextTick()
      for (const { pending } of item.members)
        answers.reject(pending, thrown instanceof Error ? thrown : new Error(String(thrown)))
    }
  }

  /** Decides, writes and answers one batch. Up to the append it runs in one go, so nothing moves under the decisions. */
  const runBatch = async (pendings: readonly Pending[]): Promise<void> => {
    const batch = decideBatch({ ...deps, limits }, pendings)
    for (const { pending, error } of batch.failed) answers.reject(pending, error)
    for (const { pending, answer } of batch.answered) answers.resolve(pending, answer, null)
    for (const pending of batch.unverified) pending.verify = true
    queue.requeue([...batch.unverified, ...batch.left])
    if (batch.items.length === 0) return
    for (const item of batch.items) for (const slot of item.points.keys()) slot.busy = true
    const sentTick = nextTick()
    const sentMs = monotonicMs()
    hooks?.at('before-append')
    const outcomes = await send(batch.items)
    hooks?.at('after-append')
    const { commands, events } = batch
    metrics?.onBatch?.({ commands, items: batch.items.length, events, ms: monotonicMs() - sentMs })
    for (const [at, item] of batch.items.entries()) settleSafely(item, outcomes[at]!, sentTick)
  }

  const fly = async (pendings: readonly Pending[]): Promise<void> => {
    batchesInFlight++
    await runBatch(pendings)
    batchesInFlight--
    pump()
    noteIdle()
  }

  const flyLane = async (lane: Lane, pendings: readonly Pending[]): Promise<void> => {
    lane.state = 'running'
    const uses = pendings.flatMap((pending) => pending.uses.map((use) => ({ pending, use })))
    const held = new Set(uses.map(({ use }) => use.slot))
    const toRead = new Set(
      uses
        .filter(({ pending, use }) => !use.assumeAbsent || needsRead(pending, use))
        .map(({ use }) => use.slot),
    )
    // Nobody else decides on these streams between the read and the append.
    for (const slot of held) slot.busy = true
    const failures = await loader.read([...toRead])
    for (const slot of held) slot.busy = false
    const unread = new Set(pendings.filter(failedBy(failures)))
    refuseUnread(failures, [...unread])
    await runBatch(pendings.filter((pending) => !unread.has(pending)))
    contention.end(lane)
    pump()
    noteIdle()
  }

  const runLanes = (): void => {
    for (const lane of contention.held()) {
      const { ready, waiting } = turnOf(contention, lane, queue.waiting(), limits.batchCommands)
      const solitary = createSolitude()
      const turn = queue.take(limits.batchCommands, (pending) => ready.has(pending) && solitary(pending))
      if (turn.length > 0) void flyLane(lane, turn)
      else if (!waiting) contention.end(lane)
    }
    contention.open(queue.waiting())
  }

  const isUnread = (pending: Pending, use: Use): boolean => {
    if (!needsRead(pending, use)) return false
    loader.want(use.slot)
    return true
  }

  const pickBatch = (): readonly Pending[] => {
    const solitary = createSolitude()
    return queue.take(limits.batchCommands, (pending) => {
      if (isBusy(pending) || contention.concerns(pending)) return false
      const unread = pending.uses.filter((use) => isUnread(pending, use))
      return unread.length === 0 && solitary(pending)
    })
  }

  let scheduled = false
  /** Starts what can be started, once what arrives in this turn of the event loop is there. */
  const pump = (): void => {
    if (scheduled) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      runLanes()
      while (batchesInFlight < limits.batchesInFlight) {
        const pendings = pickBatch()
        if (pendings.length === 0) break
        void fly(pendings)
      }
      sweepLater()
      noteIdle()
    })
  }

  let sweeping: NodeJS.Timeout | undefined
  /** Turns away what waited too long, oldest first. */
  const sweepLater = (): void => {
    if (sweeping !== undefined || queue.length() === 0) return
    sweeping = setTimeout(() => {
      sweeping = undefined
      const now = monotonicMs()
      const late = queue.take(queue.length(), (pending) => {
        const boundMs = isFrozen(pending) ? limits.frozenWaitMs : limits.queueWaitMs
        return now - pending.arrivedMs > Math.min(boundMs, limits.queueWaitMs)
      })
      for (const pending of late)
        if (isFrozen(pending))
          answers.overload(pending, 'frozen', 'an earlier append of this stream has no outcome yet')
        else answers.overload(pending, 'wait', `${pending.command.name} waited too long`)
      sweepLater()
    }, sweepMs)
  }

  const usesOf = (command: AnyCommand): readonly Use[] => {
    const uses: Use[] = []
    const seen = new Set<Slot>()
    try {
      for (const [key, ref] of Object.entries(command.streams)) {
        const slot = slots.hold(ref)
        uses.push({ key, slot, assumeAbsent: ref.assume === 'absent' })
        if (seen.has(slot)) throw new Error(`command ${command.name} names stream ${slot.stream} twice`)
        seen.add(slot)
      }
      return uses
    } catch (error) {
      for (const { slot } of uses) slots.drop(slot)
      throw error
    }
  }

  const enqueue = (command: AnyCommand): Promise<CommandOutcome<unknown>> =>
    new Promise((resolve, reject) => {
      if (closed) throw overloadOf(metrics, 'closed', 'the service is stopping')
      if (queue.length() >= limits.queueLength)
        throw overloadOf(metrics, 'queue-full', 'too many commands wait')
      const uses = usesOf(command)
      answers.opened()
      queue.push({
        command,
        uses,
        arrival: nextTick(),
        arrivedMs: monotonicMs(),
        attempts: 0,
        verify: false,
        solo: false,
        answered: false,
        resolve,
        reject,
      })
      pump()
    })

  return {
    run: (command) => enqueue(command as unknown as AnyCommand) as never,
    async close() {
      closed = true
      const idle = new Promise<void>((resolve) => {
        whenIdle = resolve
      })
      if (!isIdle())
        await within(idle, limits.closeMs, 'closing the command runner').catch((err: unknown) => {
          logger.warn(
            { err, open: answers.open(), frozen: freezer.frozen() },
            'closing with commands unanswered',
          )
        })
      freezer.stop()
      clearTimeout(sweeping)
      for (const pending of queue.take(queue.length(), () => true))
        answers.overload(pending, 'closed', 'the service is stopping')
    },
    frozen: freezer.frozen,
    queueLength: queue.length,
    cachedStreams: slots.size,
  }
}
