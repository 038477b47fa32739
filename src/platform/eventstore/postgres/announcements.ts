import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { connect } from '../../postgres/client.ts'
import { withAnswerTimeout } from '../../postgres/pipeline.ts'
import type { Activity } from '../port.ts'

/** Back-off while Postgres cannot be reached, doubling. */
const firstRetryMs = 50
const lastRetryMs = 2_000

/** Without an answer in this time, a connection counts as broken: TCP may need minutes to detect it. */
const answerTimeoutMs = 5_000

/** The NOTIFY channel of appends. A payload is the position of the last event, or `workAnnouncement`. */
export const logChannel = 'farebox_log'
/** Announces work that no event announces, such as a plan that reached an alarm. */
export const workAnnouncement = 'work'

/**
 * Listens to NOTIFY channels on a connection of its own until `signal` is aborted. A lost connection is opened again.
 * @param options.poll the query and its interval that also detect a connection that broke silently
 */
export const listen = async (options: {
  readonly channels: readonly string[]
  readonly connection: pg.ClientConfig
  readonly signal: AbortSignal
  readonly onNotification: (payload: string, channel: string) => void
  readonly poll?: {
    readonly everyMs: number
    readonly query: pg.QueryConfig
    readonly onRow: (row: pg.QueryResultRow) => void
  }
  readonly onTrouble: (description: string, error: Error) => void
}): Promise<void> => {
  const { channels, connection, signal, onNotification, poll, onTrouble } = options
  const pause = (ms: number, until: AbortSignal): Promise<void> =>
    sleep(ms, undefined, { signal: until, ref: false }).catch(() => undefined)
  let retryMs = firstRetryMs
  while (!signal.aborted) {
    const ending = new AbortController()
    const until = AbortSignal.any([signal, ending.signal])
    try {
      const { client, destroy } = await connect(connection, (error) => {
        ending.abort()
        if (error !== null && !signal.aborted) onTrouble('the listening connection broke', error)
      })
      try {
        client.on('notification', ({ payload = '', channel }) => onNotification(payload, channel))
        for (const channel of channels)
          await withAnswerTimeout(client.query(`listen ${channel}`), answerTimeoutMs)
        retryMs = firstRetryMs
        while (!until.aborted) {
          if (poll) {
            const { rows } = await withAnswerTimeout(client.query(poll.query), answerTimeoutMs)
            poll.onRow(rows[0])
          }
          await pause(poll?.everyMs ?? 2 ** 31 - 1, until)
        }
      } finally {
        destroy()
      }
    } catch (error) {
      if (!signal.aborted) onTrouble(`listening to ${channels.join(', ')} failed`, error as Error)
    }
    await pause(retryMs, signal)
    retryMs = Math.min(2 * retryMs, lastRetryMs)
  }
}

export type AnnouncementSender = {
  /** Sends the text, of at most 7,900 bytes, to the other processes. Resolves when it is sent, or failed. */
  announce(text: string): Promise<void>
}

/** Texts that processes of one database send to each other. One may be lost while a connection is down. */
export type Announcements = AnnouncementSender & {
  /** Calls the listener with each text of another process. */
  onAnnounced(listener: (text: string) => void): void
  /** Over the same connection. To be called before `onAnnounced`, because the first listener opens the connection. */
  onActivity: Activity
  close(): Promise<void>
}

type SenderOptions = {
  readonly pool: pg.Pool
  /** Called with each failure. No failure stops the service. */
  readonly onTrouble?: (description: string, error: Error) => void
}

export type AnnouncementOptions = SenderOptions & {
  /** The same database, for one connection that listens. */
  readonly connection: pg.ClientConfig
}

/** Sends announcements to one NOTIFY channel. */
export const createAnnouncementSender = (
  channel: string,
  { pool, onTrouble }: SenderOptions,
  sender: string = randomUUID(),
): AnnouncementSender => ({
  announce: (text) =>
    pool
      // Without `synchronous_commit = off`, this commit would wait for the disk.
      .query(`select set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)`, [
        channel,
        `${sender} ${text}`,
      ])
      .then(
        () => undefined,
        (error: Error) => onTrouble?.(`an announcement to ${channel} failed`, error),
      ),
})

/** Sends and receives announcements of one NOTIFY channel. It opens its connection with the first listener. */
export const createAnnouncements = (channel: string, options: AnnouncementOptions): Announcements => {
  const { connection, onTrouble } = options
  // Its own announcements are ignored.
  const sender = randomUUID()
  const closing = new AbortController()
  const listeners = new Set<(text: string) => void>()
  const activityListeners = new Set<() => void>()
  let listening: Promise<void> | null = null

  const receive = (payload: string, source: string): void => {
    if (source === logChannel) {
      for (const listener of activityListeners) listener()
      return
    }
    const [from, text] = [payload.slice(0, sender.length), payload.slice(sender.length + 1)]
    if (from !== sender) for (const listener of listeners) listener(text)
  }

  const startListening = (): Promise<void> =>
    listen({
      channels: activityListeners.size > 0 ? [channel, logChannel] : [channel],
      connection: { ...connection, application_name: channel.replace('_', '-') },
      signal: closing.signal,
      onNotification: receive,
      onTrouble: onTrouble ?? (() => undefined),
    })

  return {
    ...createAnnouncementSender(channel, options, sender),
    onAnnounced(listener) {
      listeners.add(listener)
      listening ??= startListening()
    },
    onActivity(listener) {
      activityListeners.add(listener)
      return () => activityListeners.delete(listener)
    },
    async close() {
      closing.abort()
      await listening
    },
  }
}
