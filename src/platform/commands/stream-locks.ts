import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type pg from 'pg'
import type { StreamName } from '../../kernel/streams.ts'
import { connect, withAnswerTimeout } from '../eventstore/postgres/connection.ts'
import type { StreamLease, StreamLocks } from './runner-ports.ts'

export type Announcements = Pick<StreamLocks, 'announce' | 'onAnnounced'> & { close(): Promise<void> }

type AnnouncementOptions = {
  readonly pool: pg.Pool
  readonly connection: pg.ClientConfig
  readonly onTrouble?: (what: string, error: Error) => void
}

const channel = 'farebox_contended'
const firstRetryMs = 100
const lastRetryMs = 5_000
const answerTimeoutMs = 5_000

/** Contended streams told from process to process by NOTIFY. What is lost while a connection is down is not missed. */
export const createAnnouncements = ({ pool, connection, onTrouble }: AnnouncementOptions): Announcements => {
  // A process need not hear itself.
  const sender = randomUUID()
  const closing = new AbortController()
  const listeners = new Set<(stream: StreamName) => void>()
  let listening: Promise<void> | null = null

  const hear = (payload = ''): void => {
    const [from, stream] = [payload.slice(0, sender.length), payload.slice(sender.length + 1)]
    if (from !== sender) for (const listener of listeners) listener(stream as StreamName)
  }

  const listenUntilLost = async (onListening: () => void): Promise<void> => {
    const closed = Promise.withResolvers<void>()
    const lost = Promise.withResolvers<void>()
    const listener = await connect({ ...connection, application_name: 'farebox-contended' }, () =>
      lost.resolve(),
    )
    const close = (): void => closed.resolve()
    closing.signal.addEventListener('abort', close, { once: true })
    try {
      listener.client.on('notification', ({ payload }) => hear(payload))
      await withAnswerTimeout(listener.client.query(`listen ${channel}`), answerTimeoutMs)
      onListening()
      if (!closing.signal.aborted) await Promise.race([closed.promise, lost.promise])
    } finally {
      closing.signal.removeEventListener('abort', close)
      listener.destroy()
    }
  }

  const listen = async (): Promise<void> => {
    let retryMs = firstRetryMs
    while (!closing.signal.aborted) {
      try {
        await listenUntilLost(() => {
          retryMs = firstRetryMs
        })
      } catch (error) {
        onTrouble?.('listening to contended streams failed', error as Error)
      }
      await pause(retryMs, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      retryMs = Math.min(2 * retryMs, lastRetryMs)
    }
  }

  return {
    announce(stream) {
      pool
        .query(`select pg_notify($1::text, $2::text)`, [channel, `${sender} ${stream}`])
        .catch((error: Error) => onTrouble?.('a contended stream could not be announced', error))
    },
    onAnnounced(listener) {
      listeners.add(listener)
      listening ??= listen()
    },
    async close() {
      closing.abort()
      await listening
    },
  }
}

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
