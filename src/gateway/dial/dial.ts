import type { MonotonicClock } from '../../kernel/clock.ts'
import { RaceTimeout } from '../../platform/outgoing/race.ts'
import type { Exit } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { Resolve } from '../targets/resolve.ts'
import type { Target, TargetRules } from '../targets/targets.ts'
import { type Dialled, exitFailure, targetFailure, targetTimeout } from './dial-result.ts'
import { dialDirect } from './direct.ts'
import { type Endpoint, openEndpoint } from './exit-connection.ts'
import { addressOfPrefix, tunnelByHttp, tunnelBySocks } from './via-exit.ts'

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
  /** The session name that fixes the address within a prefix; null: a random address each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export type Dial = (request: DialRequest) => Promise<Dialled>

/** The time limit of a connection to an exit, milliseconds. */
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
  if (refused) return targetFailure(refused)
  const startedMs = parts.clock()
  try {
    const wire = await openEndpoint(parts, endpoint, { timeoutMs: Math.min(timeoutMs, endpointMs), signal })
    const limits = { timeoutMs: Math.max(timeoutMs - (parts.clock() - startedMs), 1), signal }
    try {
      const tunnel = endpoint.kind === 'socks5' ? tunnelBySocks : tunnelByHttp
      return await tunnel(wire, endpoint, target, limits)
    } catch (error) {
      // The exit accepted the connection and waits for the target. So the target is slow.
      if (error instanceof RaceTimeout) return targetFailure(targetTimeout())
      return exitFailure('The exit broke the connection off.')
    }
  } catch {
    return exitFailure('The exit does not answer.')
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
        return direct(addressOfPrefix(via.prefix, request.session))
      case 'http':
      case 'https':
      case 'socks5':
        return throughEndpoint(parts, via, request)
      default:
        return via satisfies never
    }
  }
