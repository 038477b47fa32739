import { isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { interleaveFamilies, raceTo } from '../../platform/outgoing/race.ts'
import { withoutRootDot } from '../../platform/outgoing/target.ts'
import { type BufferedSocket, dialBufferedSocket } from '../accept/buffered-socket.ts'
import type { Exit } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { Resolve } from '../targets/resolve.ts'
import { raceToSocket } from './race.ts'

/** An exit that is somebody's proxy. */
export type Endpoint = Extract<Exit['via'], { kind: 'http' | 'https' | 'socks5' }>

export type EndpointParts = {
  readonly resolve: Resolve
  /** Authorities (PEM) that are trusted for `https` exits beside the system's. */
  readonly ca: string | null
  readonly onFault: OnFault
}

type Limits = { readonly timeoutMs: number; readonly signal: AbortSignal }

/** The certificate is checked for the name of the exit, whichever of its addresses answers. */
const overTls = (
  { host, port }: Endpoint,
  addresses: readonly string[],
  { ca, onFault }: EndpointParts,
  limits: Limits,
): Promise<BufferedSocket> =>
  raceTo({
    ...limits,
    addresses,
    event: 'secureConnect',
    dial: (address) =>
      dialBufferedSocket(
        (onread) =>
          connectTls({
            host: address,
            port,
            allowHalfOpen: true,
            noDelay: true,
            ...(isIP(host) === 0 ? { servername: withoutRootDot(host) } : {}),
            onread,
            ...(ca === null ? {} : { ca }),
            // The types lack `allowHalfOpen`.
          } as ConnectionOptions),
        onFault,
      ),
  })

/** Connects to the exit itself. @throws what the socket, DNS or the time limit says */
export const openEndpoint = async (
  parts: EndpointParts,
  endpoint: Endpoint,
  limits: Limits,
): Promise<BufferedSocket> => {
  const { host, port, kind } = endpoint
  const addresses = interleaveFamilies(isIP(host) === 0 ? await parts.resolve(host) : [host])
  if (kind === 'https') return overTls(endpoint, addresses, parts, limits)
  return raceToSocket({
    addresses,
    port,
    localAddress: null,
    onFault: parts.onFault,
    ...limits,
  })
}
