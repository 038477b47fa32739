import { isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { interleaveFamilies, raceTo } from '../../platform/outgoing/race.ts'
import { withoutRootDot } from '../../platform/outgoing/target.ts'
import { type BufferedSocket, dialBufferedSocket } from '../accept/buffered-socket.ts'
import type { Exit } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { Resolve } from '../targets/resolve.ts'
import { raceToSocket } from './race.ts'

/** An exit that is an external proxy. */
export type Endpoint = Extract<Exit['via'], { kind: 'http' | 'https' | 'socks5' }>

export type EndpointParts = {
  readonly resolve: Resolve
  /** Certificate authorities (PEM) for `https` exits; null: those of the system. */
  readonly ca: string | null
  readonly onFault: OnFault
}

type Limits = { readonly timeoutMs: number; readonly signal: AbortSignal }

/** Connects over TLS. The certificate is checked for the exit's name, whichever of its addresses answers. */
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

/** Connects to the exit itself. @throws errors of the socket and of DNS, and RaceTimeout */
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
