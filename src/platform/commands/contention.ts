import type { MonotonicClock } from '../../kernel/clock.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { isBlocked, isBusy, type PendingCommand } from './pending-command.ts'
import type { CommandRunnerDeps, RunnerLimits, StreamLease } from './runner-ports.ts'

/** Contended streams whose commands are decided together, under the streams' locks when those are free in time. */
export type ContendedGroup = {
  readonly streams: ReadonlySet<StreamName>
  state: 'acquiring' | 'held' | 'running'
  lease: StreamLease | null
}

export type Contention = {
  /** Another process wrote to the stream in between. */
  note(stream: StreamName): void
  /** Another process says that it meets others on the stream. */
  noteAnnounced(stream: StreamName): void
  /** Whether the command has to wait for its turn in a lane. */
  concerns(pending: PendingCommand): boolean
  /** Starts lanes for commands that need one and have none. */
  open(queue: readonly PendingCommand[]): void
  /** Lanes whose turn it is. */
  held(): readonly ContendedGroup[]
  /** Whether the lane is the one that the command needs. */
  serves(contendedGroup: ContendedGroup, pending: PendingCommand): boolean
  /** Gives the locks back; the one that has waited longest, here or in another process, is next. */
  end(contendedGroup: ContendedGroup): void
  contendedGroups(): number
}

type ContentionDeps = Pick<CommandRunnerDeps, 'streamLocks' | 'logger'> & {
  readonly limits: RunnerLimits
  readonly monotonicMs: MonotonicClock
  readonly onHeld: () => void
}

/**
 * Streams on which processes collided lately. Their commands leave the ordinary batches and take turns with other
 * processes by locks, so that nobody starves. Nothing that is right depends on it: the expected revision decides.
 */
export const createContention = (deps: ContentionDeps): Contention => {
  const { limits, logger, streamLocks } = deps
  const contendedUntil = new Map<StreamName, number>()
  const contendedGroups = new Set<ContendedGroup>()

  const isContended = (stream: StreamName): boolean => {
    const until = contendedUntil.get(stream)
    if (until === undefined) return false
    if (deps.monotonicMs() < until) return true
    contendedUntil.delete(stream)
    return false
  }
  const contendedOf = (pending: PendingCommand): StreamName[] =>
    pending.uses.map(({ slot }) => slot.stream).filter(isContended)

  const acquire = async (contendedGroup: ContendedGroup): Promise<void> => {
    try {
      // Sorted, so that two processes that need the same two locks do not wait for each other.
      const streams = [...contendedGroup.streams].sort()
      contendedGroup.lease = (await streamLocks?.acquire(streams, limits.lockWaitMs)) ?? null
    } catch (err) {
      logger.warn(
        { err, streams: [...contendedGroup.streams] },
        'stream locks are not to be had; going on without them',
      )
    }
    contendedGroup.state = 'held'
    deps.onHeld()
  }

  const mark = (stream: StreamName): void => {
    // Bounded by the streams that collided within the last `contendedMs`.
    for (const former of contendedUntil.keys()) isContended(former)
    contendedUntil.set(stream, deps.monotonicMs() + limits.contendedMs)
  }

  return {
    note(stream) {
      mark(stream)
      streamLocks?.announce(stream)
    },
    noteAnnounced: mark,
    concerns: (pending) =>
      contendedUntil.size > 0 && pending.uses.some(({ slot }) => isContended(slot.stream)),
    open(queue) {
      if (contendedUntil.size === 0) return
      for (const pending of queue) {
        if (contendedGroups.size >= limits.contendedLanes) return
        const streams = contendedOf(pending)
        if (streams.length === 0 || isBlocked(pending)) continue
        if (
          streams.some((stream) =>
            contendedGroups.values().some((contendedGroup) => contendedGroup.streams.has(stream)),
          )
        )
          continue
        const contendedGroup: ContendedGroup = { streams: new Set(streams), state: 'acquiring', lease: null }
        contendedGroups.add(contendedGroup)
        void acquire(contendedGroup)
      }
    },
    held: () => [...contendedGroups].filter(({ state }) => state === 'held'),
    serves(contendedGroup, pending) {
      const streams = contendedOf(pending)
      return (
        streams.length > 0 &&
        !isBlocked(pending) &&
        streams.every((stream) => contendedGroup.streams.has(stream))
      )
    },
    end(contendedGroup) {
      contendedGroups.delete(contendedGroup)
      contendedGroup.lease?.release().catch((err: unknown) => {
        logger.warn(
          { err, streams: [...contendedGroup.streams] },
          'a stream lock was lost before its release',
        )
      })
    },
    contendedGroups: () => contendedGroups.size,
  }
}

/** Commands of a lane that may be decided now, and whether others of it only wait for a batch in flight. */
export const readyCommandsOf = (
  contention: Contention,
  contendedGroup: ContendedGroup,
  queue: readonly PendingCommand[],
  limit: number,
): { readonly ready: ReadonlySet<PendingCommand>; readonly waiting: boolean } => {
  const ready = new Set<PendingCommand>()
  let waiting = false
  for (const pending of queue) {
    if (ready.size >= limit) break
    if (!contention.serves(contendedGroup, pending)) continue
    if (isBusy(pending)) waiting = true
    else ready.add(pending)
  }
  return { ready, waiting }
}
