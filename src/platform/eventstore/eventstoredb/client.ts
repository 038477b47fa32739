import { EventStoreDBClient } from '@eventstore/db-client'
import { StartRefused } from '../../postgres/start-refused.ts'
import { connectionString, parseAddress } from './address.ts'
import { guarded } from './guard.ts'

export type Credentials = { readonly username: string; readonly password: string }

/** The client and what each append must pass: see `openClient`. */
export type Connection = { readonly client: EventStoreDBClient; readonly credentials: Credentials }

/**
 * How a node that says nothing any more is noticed: it is asked after three seconds, and given up three later. The
 * client's own ten and ten made a frozen leader cost 15 s, these 9 (seen on a cluster of three, docs/operations.md).
 * A server that is merely slow answers from outside its queues.
 */
const keepAlive = { keepAliveInterval: '3000', keepAliveTimeout: '3000' }

/** The client advises on the console against an interval below ten seconds; a start's output is for its own lines. */
const withoutAdvice = <Made>(make: () => Made): Made => {
  const { warn } = console
  console.warn = (...said: unknown[]) => {
    if (!String(said[0]).startsWith('Specified KeepAliveInterval')) warn(...said)
  }
  try {
    return make()
  } finally {
    console.warn = warn
  }
}

const open = (text: string): EventStoreDBClient => {
  try {
    return withoutAdvice(() => EventStoreDBClient.connectionString(text))
  } catch (error) {
    throw new StartRefused(`EVENTSTORE_URL names a file of certificates: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/**
 * Opens a client on an `esdb://` address. Nothing is sent yet.
 *
 * Appends pass their credentials themselves, even where none are checked, because that is the public way past the
 * client's batch append, whose state is shared by the whole process: a connection that breaks while its writes are
 * held back ends the process with unhandled rejections (936 of 1,000 appends, seen), disposing one client rejects the
 * appends of all others, and one failed look-up of the server's features is remembered for ever. With credentials each
 * append is a call of its own with a deadline and an error of its own (docs/decisions/0005-eventstoredb-log.md).
 *
 * @throws AddressRefused; StartRefused for a file of certificates that cannot be read
 */
export const openClient = (url: string): Connection => {
  const address = parseAddress(url)
  return {
    client: guarded(open(connectionString(address, keepAlive))),
    credentials: address.credentials ?? { username: 'none', password: 'none' },
  }
}
