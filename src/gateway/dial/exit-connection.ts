import { once } from 'node:events'
import { isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { type BufferedSocket, dialBufferedSocket } from '../accept/buffered-socket.ts'
import type { Exit } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { Resolve } from '../targets/resolve.ts'
import { interleaveFamilies, raceTo } from './race.ts'

/** An exit that is somebody's proxy. */
export type Endpoint = Extract<Exit['via'], { kind: 'http' | 'https' | 'socks5' }>

export type EndpointParts = {
  readonly resolve: Resolve
  /** Authorities (PEM) that are trusted for `https` exits beside the system's. */
  readonly ca: string | null
  readonly onFault: OnFault
}

type Limits = { readonly timeoutMs: number; readonly signal: AbortSignal }

const overTls = async (
  { host, port }: Endpoint,
  address: string,
  { ca, onFault }: EndpointParts,
  { timeoutMs, signal }: Limits,
): Promise<BufferedSocket> => {
  const wire = dialBufferedSocket(
    (onread) =>
      connectTls({
        host: address,
        port,
        allowHalfOpen: true,
        noDelay: true,
        ...(isIP(host) === 0 ? { servername: host } : {}),
        onread,
        ...(ca === null ? {} : { ca }),
        // The types lack `allowHalfOpen`.
      } as ConnectionOptions),
    onFault,
  )
  try {
    await once(wire.socket, 'secureConnect', {
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    return wire
  } catch (error) {
    wire.socket.destroy()
    throw error
  }
}

/** Connects to the exit itself. @throws what the socket, DNS or the time limit says */
export const openEndpoint = async (
  parts: EndpointParts,
  endpoint: Endpoint,
  limits: Limits,
): Promise<BufferedSocket> => {
  const { host, port, kind } = endpoint
  const addresses = isIP(host) === 0 ? await parts.resolve(host) : [host]
  if (kind === 'https') return overTls(endpoint, addresses[0] ?? host, parts, limits)
  return raceTo({
    addresses: interleaveFamilies(addresses),
    port,
    localAddress: null,
    onFault: parts.onFault,
    ...limits,
  })
}
