import type pg from 'pg'
import type { Progress } from './progress.ts'

/** Lets batches through, or holds them before they start: tests see what a request does while nothing is folded. */
export type Gate = {
  /** Runs one batch, once the gate is open. Rejects with the signal's reason when it is aborted before. */
  pass<Value>(signal: AbortSignal, batch: () => Promise<Value>): Promise<Value>
  /** Resolves when no batch is under way; none starts until `open`. */
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

/** The one channel on which owners of groups tell all processes what they committed. */
const channel = 'farebox_read'

/**
 * Tells other processes that rows of these tables changed. It is sent after the commit, in a statement of its own: NOTIFY
 * within a batch would make its commit wait for those of the log. A hint may be lost; every process also looks at the
 * checkpoint twice a second.
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

/** Listens to the hints of a group's owner for as long as the connection lives. */
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

/** An owner need not hear itself. */
export const stopListening = async (client: pg.ClientBase): Promise<void> => {
  client.removeAllListeners('notification')
  await client.query(`unlisten ${channel}`)
}
