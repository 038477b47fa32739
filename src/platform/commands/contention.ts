import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { type AnnouncementOptions, createAnnouncements } from '../eventstore/postgres/announcements.ts'
import type { CommandRunnerDependencies, RunnerLimits, StreamLease, StreamLocks } from './command.ts'
import { isBlocked, isBusy, type PendingCommand } from './command-queue.ts'

/** Contended streams whose commands are decided together, under the locks of the streams if these are free in time. */
export type ContendedGroup = {
  readonly streams: ReadonlySet<StreamName>
  state: 'acquiring' | 'held' | 'running'
  lease: StreamLease | null
}

type Contention = {
  /** Reports a conflict: another process wrote to the stream. */
  note(stream: StreamName): void
  /** Another process announced a conflict on the stream. */
  noteAnnounced(stream: StreamName): void
  /** Whether the command must run in a contended group. */
  concerns(pending: PendingCommand): boolean
  /** Starts groups for commands that need one and have none. */
  open(queue: readonly PendingCommand[]): void
  /** Groups that have their locks and may run. */
  held(): readonly ContendedGroup[]
  /** Whether the command must run in this group. */
  serves(contendedGroup: ContendedGroup, pending: PendingCommand): boolean
  /** Releases the locks. The longest waiter of any process gets them next. */
  end(contendedGroup: ContendedGroup): void
  groups(): number
}

type ContentionDependencies = Pick<CommandRunnerDependencies, 'streamLocks' | 'logger'> & {
  readonly limits: RunnerLimits
  readonly monotonicMs: MonotonicClock
  readonly onHeld: () => void
}

/**
 * Streams with a recent conflict. Their commands leave the ordinary batches and use locks to take turns with other
 * processes, so that no process starves. Correctness does not depend on it: the expected revision decides.
 */
export const createContention = (dependencies: ContentionDependencies): Contention => {
  const { limits, logger, streamLocks } = dependencies
  const contendedUntil = new Map<StreamName, number>()
  const contendedGroups = new Set<ContendedGroup>()

  const isContended = (stream: StreamName): boolean => {
    const until = contendedUntil.get(stream)
    if (until === undefined) return false
    if (dependencies.monotonicMs() < until) return true
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
        'could not get the stream locks; continuing without them',
      )
    }
    contendedGroup.state = 'held'
    dependencies.onHeld()
  }

  const markContended = (stream: StreamName): void => {
    // Only streams with a conflict within the last `contendedMs` stay in the map.
    for (const contendedStream of contendedUntil.keys()) isContended(contendedStream)
    contendedUntil.set(stream, dependencies.monotonicMs() + limits.contendedMs)
  }

  return {
    note(stream) {
      markContended(stream)
      streamLocks?.announce(stream)
    },
    noteAnnounced: markContended,
    concerns: (pending) =>
      contendedUntil.size > 0 && pending.uses.some(({ slot }) => isContended(slot.stream)),
    open(queue) {
      if (contendedUntil.size === 0) return
      for (const pending of queue) {
        if (contendedGroups.size >= limits.contendedGroups) return
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
    groups: () => contendedGroups.size,
  }
}

/** Commands of the group that can run now, and whether other commands of the group wait for a batch in flight. */
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

const lockNotAvailable = '55P03'

// Sorted keys prevent a deadlock of two sessions that need the same locks. A hash collision only makes two streams take
// turns. The seed separates these locks from other advisory locks of the database.
const lockSql = `
  select pg_advisory_lock(sorted.key)
  from (
    select distinct hashtextextended(stream, 7230110) as key from unnest($1::text[]) as stream order by 1
    offset 0
  ) as sorted`

const isTimeout = (error: unknown): boolean => (error as { code?: string }).code === lockNotAvailable

/** A connection, or null if none is free in time. A connection that arrives later is returned to the pool. */
const checkOut = async (pool: pg.Pool, waitMs: number): Promise<pg.PoolClient | null> => {
  let isTimedOut = false
  const connecting = pool.connect()
  let timer: NodeJS.Timeout | undefined
  const timedOut = new Promise<null>((resolve) => {
    timer = setTimeout(() => {
      isTimedOut = true
      resolve(null)
    }, waitMs)
  })
  connecting.then((client) => isTimedOut && client.release()).catch(() => undefined)
  try {
    return await Promise.race([connecting, timedOut])
  } finally {
    clearTimeout(timer)
  }
}

/** A session with locks. An unhandled error event would end the process: `release` reports a lost session. */
const leaseOf = (client: pg.PoolClient): StreamLease => {
  const ignoreError = (): void => undefined
  client.on('error', ignoreError)
  const returnToPool = (broken: boolean): void => {
    client.off('error', ignoreError)
    client.release(broken)
  }
  return {
    async release() {
      try {
        await client.query('select pg_advisory_unlock_all()')
        returnToPool(false)
      } catch (error) {
        // The end of the session ends its locks.
        returnToPool(true)
        throw error
      }
    },
  }
}

/** Stream locks as session advisory locks: Postgres serves waiters in order, and the end of a process releases them. */
export const createPostgresStreamLocks = (
  /** `pool`: a separate one, with a connection for each contended group. The caller ends it. */
  options: AnnouncementOptions,
): StreamLocks & { close(): Promise<void> } => {
  const { announce, onAnnounced, close } = createAnnouncements('farebox_contended', options)
  return {
    announce: (stream) => void announce(stream),
    onAnnounced: (listener) => onAnnounced((stream) => listener(stream as StreamName)),
    close,
    async acquire(streams: readonly StreamName[], waitMs) {
      const client = await checkOut(options.pool, waitMs)
      if (client === null) return null
      const lease = leaseOf(client)
      try {
        const waitText = String(Math.max(1, Math.ceil(waitMs)))
        await client.query(`select set_config('lock_timeout', $1::text, false)`, [waitText])
        await client.query(lockSql, [streams])
        return lease
      } catch (error) {
        await lease.release().catch(() => undefined)
        if (isTimeout(error)) return null
        throw error
      }
    },
  }
}
