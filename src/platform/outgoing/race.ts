import { isIPv6, type Socket } from 'node:net'

/** The delay between two addresses of one name (RFC 8305 section 5), milliseconds. */
const attemptDelayMs = 250
const maxAddresses = 6

/** Alternates the families, IPv6 first (RFC 8305 section 4). */
export const interleaveFamilies = (addresses: readonly string[]): readonly string[] => {
  const ipv6 = addresses.filter((address) => isIPv6(address))
  const ipv4 = addresses.filter((address) => !isIPv6(address))
  const pairs = Array.from({ length: Math.max(ipv6.length, ipv4.length) }, (_, at) => [ipv6[at], ipv4[at]])
  return pairs
    .flat()
    .filter((address) => address !== undefined)
    .slice(0, maxAddresses)
}

/** No address answered in time. */
export class RaceTimeout extends Error {
  override readonly name = 'RaceTimeout'
}
export class RaceCanceled extends Error {
  override readonly name = 'RaceCanceled'
}

export type Race<Connection extends { readonly socket: Socket }> = {
  readonly addresses: readonly string[]
  readonly timeoutMs: number
  readonly signal?: AbortSignal
  /** Starts a connection to one of the addresses. */
  readonly dial: (address: string) => Connection
  /** The event that means that the socket has answered; default: `connect`. */
  readonly event?: 'connect' | 'secureConnect'
}

/**
 * Connects to the first address that answers. It starts the attempts one after another, the next as soon as one fails
 * or after 250 ms. That delay does not end an attempt: a slow address may still answer first (RFC 8305 section 5).
 * @throws the last socket's error, RaceTimeout, RaceCanceled
 */
export const raceTo = <Connection extends { readonly socket: Socket }>(
  race: Race<Connection>,
): Promise<Connection> => {
  const { promise, resolve, reject } = Promise.withResolvers<Connection>()
  const running = new Set<Socket>()
  let next = 0
  let isEnded = false
  let delay: NodeJS.Timeout | undefined
  const finish = (): void => {
    isEnded = true
    clearTimeout(delay)
    clearTimeout(limit)
    race.signal?.removeEventListener('abort', canceled)
    for (const socket of running) socket.destroy()
  }
  const fail = (error: Error): void => {
    finish()
    reject(error)
  }
  const canceled = (): void => fail(new RaceCanceled('the client is gone'))
  const limit = setTimeout(() => fail(new RaceTimeout('no address answered in time')), race.timeoutMs)
  const attempt = (): void => {
    const address = race.addresses[next]
    if (isEnded || address === undefined) return
    next += 1
    const connection = race.dial(address)
    const { socket } = connection
    running.add(socket)
    const failed = (error: Error): void => {
      running.delete(socket)
      if (isEnded) return
      if (next < race.addresses.length) {
        clearTimeout(delay)
        attempt()
      } else if (running.size === 0) fail(error)
    }
    socket.once('error', failed)
    socket.once(race.event ?? 'connect', () => {
      if (isEnded) return
      running.delete(socket)
      socket.off('error', failed)
      finish()
      resolve(connection)
    })
    if (next < race.addresses.length) delay = setTimeout(attempt, attemptDelayMs)
  }
  if (race.signal?.aborted) canceled()
  else {
    race.signal?.addEventListener('abort', canceled, { once: true })
    attempt()
  }
  return promise
}
