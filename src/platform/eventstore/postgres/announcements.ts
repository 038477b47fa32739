import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type pg from 'pg'
import { connect, withAnswerTimeout } from '../../postgres/client.ts'

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

const firstRetryMs = 100
const lastRetryMs = 5_000
const answerTimeoutMs = 5_000

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

  const receive = (payload = ''): void => {
    const [from, text] = [payload.slice(0, sender.length), payload.slice(sender.length + 1)]
    if (from !== sender) for (const listener of listeners) listener(text)
  }

  const listenUntilLost = async (onListening: () => void): Promise<void> => {
    const closed = Promise.withResolvers<void>()
    const connectionLost = Promise.withResolvers<void>()
    const listener = await connect({ ...connection, application_name: channel.replace('_', '-') }, () =>
      connectionLost.resolve(),
    )
    const close = (): void => closed.resolve()
    closing.signal.addEventListener('abort', close, { once: true })
    try {
      listener.client.on('notification', ({ payload }) => receive(payload))
      await withAnswerTimeout(listener.client.query(`listen ${channel}`), answerTimeoutMs)
      onListening()
      if (!closing.signal.aborted) await Promise.race([closed.promise, connectionLost.promise])
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
        onTrouble?.(`listening to ${channel} failed`, error as Error)
      }
      await pause(retryMs, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      retryMs = Math.min(2 * retryMs, lastRetryMs)
    }
  }

  return {
    ...createAnnouncementSender(channel, options, sender),
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
