import type { EventStoreDBClient } from '@eventstore/db-client'

/** What is used of a gRPC client. */
type Calls = { getChannel(): { getConnectivityState(connect: boolean): number } }
type Execute = (kind: unknown, name: string, action: (calls: Calls) => Promise<unknown>) => Promise<unknown>

/** What the client does behind its public methods, looked up on the instance at each call. */
type Inside = {
  handleError: (calls: Calls, error: Error) => Promise<void>
  execute: Execute
}

/** `connectivityState.SHUTDOWN` of gRPC. */
const shutDown = 4

/**
 * Keeps two failures of the client from ending the process, for it lets go of two promises (6.2.1, `dist/Client/index.js`
 * and `dist/streams/appendToStream/append.js`):
 *
 * - after a failed call it waits in `handleError` for the channel that others are opening by then, and nobody waits for
 *   `handleError`. While no leader is found that channel fails, and so does what nobody waits for. Whoever asked for the
 *   channel is told of the same failure.
 * - an append calls gRPC inside an async executor. On a channel that was closed between the two, gRPC throws there: the
 *   append itself is never answered. Such a call is refused before, by the words that gRPC has for it elsewhere.
 *
 * Nothing else is caught: a rejection of anybody else still ends the process.
 */
export const guarded = (client: EventStoreDBClient): EventStoreDBClient => {
  const inside = client as unknown as Inside
  const { handleError, execute } = inside
  inside.handleError = (calls, error) => handleError(calls, error).catch(() => undefined)
  inside.execute = (kind, name, action) =>
    execute(kind, name, (calls) => {
      if (calls.getChannel().getConnectivityState(false) === shutDown)
        throw new Error('Channel closed before call started')
      return action(calls)
    })
  return client
}
