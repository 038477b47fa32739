import { EventStoreDBClient } from '@eventstore/db-client'

export type Credentials = { readonly username: string; readonly password: string }

/** The client and what each append must pass: see `openClient`. */
export type Connection = { readonly client: EventStoreDBClient; readonly credentials: Credentials }

const pattern =
  /^esdb(?:\+discover)?:\/\/(?:(?<username>[^:@/]+):(?<password>[^@/]*)@)?[^/?]+\/?(?:\?(?<query>.*))?$/

const has = (query: string, key: string, value: string): boolean =>
  query.split('&').some((pair) => pair.toLowerCase() === `${key}=${value}`.toLowerCase())

/**
 * Opens a client on an `esdb://` address. Nothing is sent yet.
 *
 * Appends pass their credentials themselves, even where none are checked, because that is the public way past the
 * client's batch append, whose state is shared by the whole process: a connection that breaks while its writes are
 * held back ends the process with unhandled rejections (936 of 1,000 appends, seen), disposing one client rejects the
 * appends of all others, and one failed look-up of the server's features is remembered for ever. With credentials each
 * append is a call of its own with a deadline and an error of its own (docs/decisions/0005-eventstoredb-log.md).
 *
 * @throws Error when the address is not one, or asks for what would make the log unsafe
 */
export const openClient = (url: string): Connection => {
  const { username, password, query = '' } = pattern.exec(url)?.groups ?? {}
  if (!pattern.test(url))
    throw new Error('the address of EventStoreDB must be esdb://[user:password@]host[:port][?…]')
  // Without an exception a conflict would come as a result with a wrong revision.
  if (has(query, 'throwOnAppendFailure', 'false'))
    throw new Error('the address of EventStoreDB must not set throwOnAppendFailure=false')
  const insecure = has(query, 'tls', 'false')
  if (!insecure && username === undefined)
    throw new Error('the address of EventStoreDB must name user:password, or say tls=false')
  return {
    client: EventStoreDBClient.connectionString(url),
    credentials: {
      username: decodeURIComponent(username ?? 'none'),
      password: decodeURIComponent(password ?? 'none'),
    },
  }
}
