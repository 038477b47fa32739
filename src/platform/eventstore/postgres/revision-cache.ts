import type pg from 'pg'
import type { StreamName } from '../../../kernel/streams.ts'
import { revisionBefore } from '../append-guards.ts'
import type { Activity, AppendItem, ItemOutcome, StoredEvent } from '../port.ts'
import { listen, logChannel, workAnnouncement } from './announcements.ts'

type Seen = Pick<StoredEvent, 'position' | 'id'>

/**
 * The newest event that this process has read or written. A log with this event has all other events that the process
 * knows: positions are assigned in commit order, and events are never removed.
 */
export type NewestKnownEvent = {
  read(events: readonly Seen[]): void
  sent(items: readonly AppendItem[], outcomes: readonly ItemOutcome[]): void
  /** Null before the first. */
  newest(): Seen | null
}

export const createNewestKnownEvent = (): NewestKnownEvent => {
  let newest: Seen | null = null
  const noteEvent = (position: number, id: string): void => {
    if (newest === null || position > newest.position) newest = { position, id }
  }
  return {
    read: (events) => {
      for (const { position, id } of events) noteEvent(position, id)
    },
    sent: (items, outcomes) => {
      for (const [index, { appends }] of items.entries()) {
        const outcome = outcomes[index]!
        if (outcome.status === 'landed')
          noteEvent(outcome.appended.at(-1)!.position, appends.at(-1)!.events.at(-1)!.id)
      }
    },
    newest: () => newest,
  }
}

/**
 * The minimum revisions of streams, from the appends over one connection. Events are never removed from the log, so a
 * minimum is valid as long as the connection is open: a restore to an earlier point ends all connections.
 */
export type StreamRevisionCache = {
  /** Whether the stream is known to have this revision. */
  hasRevision(stream: StreamName, revision: number): boolean
  /** Stores the revisions of appended items. New streams are not stored, because most of them get few later appends. */
  recordAppended(items: readonly AppendItem[]): void
  /**
   * Reports that another process appends to the stream, too. From now on its revision is read before each append: an
   * append that only the index refuses leaves its rows in the table until a vacuum, and two processes would leave many.
   */
  contested(stream: StreamName): void
}

/** Limit of each collection. A full collection is cleared. */
const maxStreams = 20_000

export const createStreamRevisionCache = (): StreamRevisionCache => {
  const tails = new Map<StreamName, number>()
  const shared = new Set<StreamName>()
  return {
    hasRevision: (stream, revision) => (tails.get(stream) ?? -1) >= revision,
    recordAppended: (items) => {
      if (tails.size > maxStreams) tails.clear()
      for (const { appends } of items)
        for (const { stream, expected, events } of appends)
          if (expected !== 'noStream' && !shared.has(stream))
            tails.set(stream, revisionBefore(expected) + events.length)
    },
    contested: (stream) => {
      if (shared.size > maxStreams) shared.clear()
      tails.delete(stream)
      shared.add(stream)
    },
  }
}

export type RecentAppends = {
  /**
   * Stores the events of a batch that was completely appended. They follow position `base`, in the order of writing.
   */
  recordAppended(base: number, items: readonly AppendItem[]): void
  /** The events that directly follow a position, at most `limit`; null if they must be read from the log. */
  after(position: number, limit: number): readonly StoredEvent[] | null
  /** Reports a batch in flight. Its promise settles after `recordAppended` was called, if the batch was appended. */
  sending(batch: Promise<unknown>): void
  /**
   * Waits until the batch in flight settles, 20 milliseconds at most, if its events may follow the position. The poll
   * of the head often reveals a batch of this process before the answer to the batch arrives. A subscription that the
   * poll woke then finds the events here and needs no read.
   */
  settled(position: number): Promise<void>
}

/** Longer than an append takes. A batch that hangs delays the delivery of other appends by this time at most. */
const maxSettleMs = 20

/**
 * Number of events stored in addition to the last batch, for subscriptions that are slightly late. Events that survive
 * two collections of the young generation are copied twice, and stay until a collection of the old generation: with
 * 1,024 instead of 256 events, an order took a fifth more CPU time (bench/notes/orders-a-second.md).
 */
const maxEvents = 256

/**
 * The last appends of this process, so that its own subscriptions need not read them from the log. At thousands of
 * orders a second these reads took a tenth of the time of the append connection on Postgres, and as much again in this
 * process. Positions are gapless on Postgres, so events with consecutive positions are complete. Appends of another
 * process show as a gap: then only the events after the gap are stored, and subscriptions read the log.
 */
export const createRecentAppends = (): RecentAppends => {
  let events: StoredEvent[] = []
  /** The position before the first of `events`. */
  let before = 0
  let underWay: Promise<unknown> | null = null

  return {
    recordAppended: (base, items) => {
      if (base !== before + events.length) {
        events = []
        before = base
      } else if (events.length > maxEvents) {
        before += events.length - maxEvents
        events = events.slice(-maxEvents)
      }
      for (const { appends } of items)
        for (const { stream, expected, events: written } of appends) {
          let revision = revisionBefore(expected)
          for (const { id, type, data, metadata } of written) {
            revision++
            const position = before + events.length + 1
            events.push({ id, type, data, metadata, stream, revision, position })
          }
        }
    },
    after: (position, limit) => {
      const first = position - before
      return first >= 0 && first < events.length ? events.slice(first, first + limit) : null
    },
    sending: (batch) => {
      const finished = (): void => {
        if (underWay === settling) underWay = null
      }
      const settling = batch.then(finished, finished)
      underWay = settling
    },
    settled: async (position) => {
      if (underWay === null || position < before + events.length) return
      const finished = Promise.withResolvers<void>()
      const timer = setTimeout(finished.resolve, maxSettleMs)
      void underWay.then(() => finished.resolve())
      await finished.promise
      clearTimeout(timer)
    },
  }
}

type Announcer = {
  /** Sends the position of the last event to all processes of this database. Returns at once. */
  announce(position: number): void
  /** Resolves when all announcements are sent, or failed. */
  idle(): Promise<void>
}

/**
 * Sends NOTIFY in a separate transaction after the commit of the batch. A commit with NOTIFY takes a lock of the whole
 * server, for all its databases. As part of the batch it would lock the server during the flush of the batch
 * (docs/decisions/0046). The separate transaction does not wait for a flush.
 *
 * An announcement may be lost, so subscriptions also poll the head. While one is in flight, only the newest of the
 * later positions is sent next.
 */
export const createAnnouncer = (
  pool: pg.Pool,
  onTrouble: (description: string, error: Error) => void,
): Announcer => {
  let newest = 0
  let sending: Promise<void> | null = null

  const send = async (): Promise<void> => {
    try {
      for (let notifiedPosition = 0; notifiedPosition < newest; ) {
        notifiedPosition = newest
        await pool.query({
          name: 'farebox-announce',
          text: `select set_config('synchronous_commit', 'off', true), pg_notify('${logChannel}', $1::text)`,
          values: [String(notifiedPosition)],
        })
      }
    } catch (error) {
      onTrouble('the log could not be announced', error as Error)
    } finally {
      sending = null
    }
  }

  return {
    announce: (position) => {
      if (position <= newest) return
      newest = position
      sending ??= send()
    },
    idle: async () => {
      await sending
    },
  }
}

export type Waker = {
  /** Reports a position of an event in the log. */
  notify(position: number): void
  /** Resolves when an event after `position` is known, or the signal aborts. */
  waitPast(position: number, signal: AbortSignal): Promise<void>
  /** Calls the listener with each append, and when another process announces work. */
  onActivity: Activity
  close(): Promise<void>
}

type WakerOptions = {
  readonly connection: pg.ClientConfig
  readonly pollMs: number
  readonly onTrouble: (description: string, error: Error) => void
}

/**
 * Tracks the last position of the log for all subscriptions of a process. Its sources are the appends of this process,
 * NOTIFY, and a poll over the same connection. The poll also detects a connection that broke silently. The connection
 * is opened with the first wait.
 */
export const createWaker = ({ connection, pollMs, onTrouble }: WakerOptions): Waker => {
  const closing = new AbortController()
  const waiting = new Set<{ readonly after: number; readonly wake: () => void }>()
  let known = 0
  const listeners = new Set<() => void>()
  let watching: Promise<void> | null = null

  const notify = (position: number): void => {
    if (position <= known) return
    known = position
    for (const listener of listeners) listener()
    for (const each of waiting) if (each.after < known) each.wake()
  }

  const watch = (): Promise<void> =>
    listen({
      channels: [logChannel],
      connection: { ...connection, application_name: 'farebox-listen' },
      signal: closing.signal,
      onNotification: (payload) => {
        if (payload === workAnnouncement) for (const listener of listeners) listener()
        else notify(Number(payload))
      },
      poll: {
        everyMs: pollMs,
        query: { name: 'farebox-head', text: 'select last_position from log.head' },
        onRow: ({ last_position }) => notify(Number(last_position)),
      },
      onTrouble,
    })

  return {
    notify,
    waitPast: (position, signal) =>
      new Promise((resolve) => {
        if (known > position || signal.aborted) return resolve()
        watching ??= watch()
        const entry = {
          after: position,
          wake: () => {
            waiting.delete(entry)
            signal.removeEventListener('abort', entry.wake)
            resolve()
          },
        }
        waiting.add(entry)
        signal.addEventListener('abort', entry.wake)
      }),
    onActivity: (listener) => {
      watching ??= watch()
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: async () => {
      closing.abort()
      await watching
    },
  }
}
