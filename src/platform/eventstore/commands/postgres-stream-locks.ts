import type pg from 'pg'
import type { StreamName } from '../../../terms/streams.ts'
import type { StreamLease, StreamLocks } from './ports.ts'
import { createAnnouncements } from './postgres-announcements.ts'

const lockNotAvailable = '55P03'

// Keys are sorted, so that two sessions that need the same locks take them in one order. A collision of hashes only
// makes two streams take turns. The seed keeps them apart from other advisory locks of the database.
const lockSql = `
  select pg_advisory_lock(sorted.key)
  from (
    select distinct hashtextextended(stream, 7230110) as key from unnest($1::text[]) as stream order by 1
    offset 0
  ) as sorted`

const isTimeout = (error: unknown): boolean => (error as { code?: string }).code === lockNotAvailable

/** A connection, or null when none is free in time; one that comes too late goes straight back. */
const checkOut = async (pool: pg.Pool, waitMs: number): Promise<pg.PoolClient | null> => {
  let late = false
  const coming = pool.connect()
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<null>((resolve) => {
    timer = setTimeout(() => {
      late = true
      resolve(null)
    }, waitMs)
  })
  coming.then((client) => late && client.release()).catch(() => undefined)
  try {
    return await Promise.race([coming, tooLate])
  } finally {
    clearTimeout(timer)
  }
}

/** A session that holds locks. Its loss is told when the lease is released; unheard, it would end the process. */
const leaseOf = (client: pg.PoolClient): StreamLease => {
  const noteLoss = (): void => undefined
  client.on('error', noteLoss)
  const handBack = (broken: boolean): void => {
    client.off('error', noteLoss)
    client.release(broken)
  }
  return {
    async release() {
      try {
        await client.query('select pg_advisory_unlock_all()')
        handBack(false)
      } catch (error) {
        // The end of the session ends its locks.
        handBack(true)
        throw error
      }
    },
  }
}

export type PostgresStreamLocksOptions = {
  /** A pool of its own, with a connection for each lane of the command runner: a lease holds one. The caller ends it. */
  readonly pool: pg.Pool
  /** How to reach the same database for one connection that listens to announcements. */
  readonly connection: pg.ClientConfig
  /** Told of what failed; all of it is tried again or can be done without. */
  readonly onTrouble?: (what: string, error: Error) => void
}

/** Stream locks as session advisory locks: waiters are served in order, and a process that dies lets go. */
export const createPostgresStreamLocks = (
  options: PostgresStreamLocksOptions,
): StreamLocks & { close(): Promise<void> } => {
  const announcements = createAnnouncements(options)
  return {
    ...announcements,
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
