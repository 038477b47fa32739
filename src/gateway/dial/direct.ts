import { isIP } from 'node:net'
import { interleaveFamilies, RaceTimeout } from '../../platform/outgoing/race.ts'
import type { Denied, Exit } from '../gateway-ports.ts'
import type { OnFault } from '../refusals.ts'
import type { Resolve } from '../targets/resolve.ts'
import type { Target, TargetRules } from '../targets/targets.ts'
import {
  type Dialled,
  dnsTimeout,
  exitFailure,
  hostNotFound,
  isLocalFault,
  targetFailure,
  targetFault,
  targetTimeout,
  targetUnreachable,
} from './dial-result.ts'
import { raceToSocket } from './race.ts'

export type DirectParts = { readonly resolve: Resolve; readonly rules: TargetRules }

export type DirectRequest = {
  readonly target: Target
  readonly localAddress: string | null
  readonly loopback: boolean
  /** See `Exit`. */
  readonly places?: Exit['places']
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

const dnsFault = (error: unknown): Denied => {
  const { code } = error as { code?: unknown }
  return code === 'ETIMEOUT' || code === 'ECANCELLED' || code === 'ESERVFAIL' ? dnsTimeout() : hostNotFound()
}

/** The addresses of a target, or the reason for a refusal. One forbidden address refuses the whole name. */
export const targetAddresses = async (
  { resolve, rules }: DirectParts,
  { target, localAddress, loopback }: Pick<DirectRequest, 'target' | 'localAddress' | 'loopback'>,
): Promise<readonly string[] | Denied> => {
  let candidates: readonly string[] = [target.host]
  if (target.family === 0) {
    const refused = rules.refusedName(target.host, loopback)
    if (refused) return refused
    try {
      candidates = await resolve(target.host)
    } catch (error) {
      return dnsFault(error)
    }
    if (candidates.length === 0) return hostNotFound()
  }
  for (const address of candidates) {
    const refused = rules.refusedAddress(address, target.port, loopback)
    if (refused) return refused
  }
  const family = localAddress === null ? 0 : isIP(localAddress)
  const reachable = family === 0 ? candidates : candidates.filter((address) => isIP(address) === family)
  return reachable.length === 0 ? targetUnreachable() : reachable
}

/** Connects from this machine. The checked addresses are exactly those that are dialled. */
export const dialDirect = async (
  parts: DirectParts & { readonly onFault: OnFault },
  request: DirectRequest,
): Promise<Dialled> => {
  const { target, localAddress, places, timeoutMs, signal } = request
  const sandboxAddress = places?.[`${target.host}:${target.port}`]
  const found = sandboxAddress ? [sandboxAddress.host] : await targetAddresses(parts, request)
  if ('denied' in found) return targetFailure(found)
  try {
    const wire = await raceToSocket({
      onFault: parts.onFault,
      addresses: interleaveFamilies(found),
      port: sandboxAddress?.port ?? target.port,
      localAddress,
      timeoutMs,
      signal,
    })
    return { denied: false, wire }
  } catch (error) {
    if (error instanceof RaceTimeout) return targetFailure(targetTimeout())
    if (isLocalFault(error as NodeJS.ErrnoException))
      return exitFailure('The exit has no address to connect from.')
    return targetFailure(targetFault(error as NodeJS.ErrnoException))
  }
}
