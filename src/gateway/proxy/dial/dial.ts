import type { MonotonicClock } from '../../../kernel/clock.ts'
import type { OnFault } from '../faults.ts'
import type { Exit } from '../ports.ts'
import type { Target } from '../targets/host.ts'
import type { Resolve } from '../targets/resolve.ts'
import type { TargetRules } from '../targets/rules.ts'
import { tunnelByHttp } from './by-http.ts'
import { tunnelBySocks } from './by-socks.ts'
import { byExit, byTarget, type Dialled, targetTimeout } from './dialled.ts'
import { dialDirect } from './direct.ts'
import { type Endpoint, openEndpoint } from './endpoint.ts'
import { addressIn } from './prefix.ts'
import { RaceTimeout } from './race.ts'

export type DialParts = {
  readonly resolve: Resolve
  readonly rules: TargetRules
  readonly ca: string | null
  readonly clock: MonotonicClock
  readonly onFault: OnFault
}

export type DialRequest = {
  readonly exit: Exit
  readonly target: Target
  /** What keeps its address of a prefix; null: another one each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export type Dial = (request: DialRequest) => Promise<Dialled>

/** How long an exit may take to accept a connection to itself. */
const endpointMs = 5_000

const throughEndpoint = async (
  parts: DialParts,
  endpoint: Endpoint,
  request: DialRequest,
): Promise<Dialled> => {
  const { exit, target, timeoutMs, signal } = request
  const refused =
    target.family === 0
      ? parts.rules.refusedName(target.host, exit.sandbox)
      : parts.rules.refusedAddress(target.host, target.port, exit.sandbox)
  if (refused) return byTarget(refused)
  const startedMs = parts.clock()
  try {
    const wire = await openEndpoint(parts, endpoint, { timeoutMs: Math.min(timeoutMs, endpointMs), signal })
    const limits = { timeoutMs: Math.max(timeoutMs - (parts.clock() - startedMs), 1), signal }
    try {
      const tunnel = endpoint.kind === 'socks5' ? tunnelBySocks : tunnelByHttp
      return await tunnel(wire, endpoint, target, limits)
    } catch (error) {
      // The exit took the connection and then waits for the target: it is the target that is slow.
      if (error instanceof RaceTimeout) return byTarget(targetTimeout())
      return byExit('The exit broke the connection off.')
    }
  } catch {
    return byExit('The exit does not answer.')
  }
}

/** Connects to a target through an exit. Never rejects. */
export const createDial =
  (parts: DialParts): Dial =>
  (request) => {
    const { via, sandbox, places } = request.exit
    const direct = (localAddress: string | null): Promise<Dialled> =>
      dialDirect(parts, { ...request, localAddress, loopback: sandbox, ...(places && { places }) })
    switch (via.kind) {
      case 'direct':
        return direct(via.localAddress)
      case 'prefix':
        return direct(addressIn(via.prefix, request.session))
      case 'http':
      case 'https':
      case 'socks5':
        return throughEndpoint(parts, via, request)
      default:
        return via satisfies never
    }
  }
