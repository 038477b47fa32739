import type pg from 'pg'
import type { Progress } from './progress.ts'

/** Lets batches pass, or stops them before they start. Tests use it to check requests while nothing is folded. */
export type Gate = {
  /** Runs one batch when the gate is open. Rejects with the signal's reason if it is aborted before that. */
  pass<Value>(signal: AbortSignal, batch: () => Promise<Value>): Promise<Value>
  /** Resolves when no batch is in progress. No batch starts until `open`. */
  close(): Promise<void>
  open(): void
}

export const createGate = (): Gate => {
  let opened: PromiseWithResolvers<void> | null = null
  const underWay = new Set<Promise<unknown>>()
  return {
    pass: async (signal, batch) => {
      while (opened) {
        const aborted = Promise.withResolvers<never>()
        const abort = (): void => aborted.reject(signal.reason)
        signal.throwIfAborted()
        signal.addEventListener('abort', abort, { once: true })
        try {
          await Promise.race([opened.promise, aborted.promise])
        } finally {
          signal.removeEventListener('abort', abort)
        }
      }
      const running = batch()
      underWay.add(running)
      try {
        return await running
      } finally {
        underWay.delete(running)
      }
    },
    close: async () => {
      opened ??= Promise.withResolvers()
      await Promise.allSettled(underWay)
    },
    open: () => {
      opened?.resolve()
      opened = null
    },
  }
}

/** The one channel on which the owners of groups announce their commits to all processes. */
const channel = 'farebox_read'

/**
 * Notifies other processes that rows of these tables changed. It is sent after the commit, in a statement of its own:
 * with NOTIFY in the batch, its commit would wait for the commits of the log. A hint may be lost, so every process
 * also reads the checkpoint twice a second.
 */
export const sendHint = async (
  client: pg.ClientBase,
  group: string,
  tables: readonly string[],
): Promise<void> => {
  await client.query({
    name: 'farebox_hint',
    text: 'select pg_notify($1::text, $2::text)',
    values: [channel, `${group} ${tables.join(' ')}`],
  })
}

/** Listens to the hints of a group's owner until the connection ends. */
export const listenForHints = async (
  client: pg.ClientBase,
  name: string,
  progress: Pick<Progress, 'changed'>,
): Promise<void> => {
  client.on('notification', ({ payload = '' }) => {
    const [group, ...tables] = payload.split(' ')
    if (group === name) progress.changed(name, tables)
  })
  await client.query(`listen ${channel}`)
}

/** An owner does not need its own hints. */
export const stopListening = async (client: pg.ClientBase): Promise<void> => {
  client.removeAllListeners('notification')
  await client.query(`unlisten ${channel}`)
}
