import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { connect } from '../../postgres/client.ts'
import { withAnswerTimeout } from '../../postgres/pipeline.ts'

/** Back-off while Postgres cannot be reached, doubling. */
const firstRetryMs = 50
const lastRetryMs = 2_000

/** Without an answer in this time, a connection counts as broken: TCP may need minutes to detect it. */
const answerTimeoutMs = 5_000

/**
 * Listens to a NOTIFY channel on a connection of its own until `signal` is aborted. A lost connection is opened again.
 * @param options.poll the query and its interval that also detect a connection that broke silently
 */
export const listen = async (options: {
  readonly channel: string
  readonly connection: pg.ClientConfig
  readonly signal: AbortSignal
  readonly onNotification: (payload: string) => void
  readonly poll?: {
    readonly everyMs: number
    readonly query: pg.QueryConfig
    readonly onRow: (row: pg.QueryResultRow) => void
  }
  readonly onTrouble: (description: string, error: Error) => void
}): Promise<void> => {
  const { channel, connection, signal, onNotification, poll, onTrouble } = options
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
        client.on('notification', ({ payload = '' }) => onNotification(payload))
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
      if (!signal.aborted) onTrouble(`listening to ${channel} failed`, error as Error)
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
  let listening: Promise<void> | null = null

  const receive = (payload: string): void => {
    const [from, text] = [payload.slice(0, sender.length), payload.slice(sender.length + 1)]
    if (from !== sender) for (const listener of listeners) listener(text)
  }

  const startListening = (): Promise<void> =>
    listen({
      channel,
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
    async close() {
      closing.abort()
      await listening
    },
  }
}
