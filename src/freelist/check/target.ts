import { isIP } from 'node:net'
import { refuse } from '../../platform/http/errors.ts'
import { parseTarget, type Resolve, TargetRefused } from '../../platform/outgoing/target.ts'
import { type CandidateRefusal, type CandidateRules, candidateRefusal } from '../record/candidate.ts'
import type { Place } from '../record/endpoint.ts'
import type { WrittenProxy } from './proxy-text.ts'

/** Where a proxy is dialled: an address that was looked at, never a name. Null: its name has no address. */
export type PinnedPlace = Place | null

const reasons: Readonly<Record<CandidateRefusal, string>> = {
  private_address: 'it has a private or reserved address',
  own_address: 'its address is one of this service',
  blocked_port: 'its port is one of mail',
}

const refused = (shown: string, why: string) =>
  refuse('invalid_parameter', `${shown} is not checked: ${why}; nothing was sent to any proxy`)

const addressesOf = async (host: string, resolve: Resolve): Promise<readonly string[]> => {
  if (isIP(host) !== 0) return [host]
  try {
    return await resolve(host)
  } catch {
    // Whatever its name server said or did not say: there is no address to dial.
    return []
  }
}

const checkName = (host: string, shown: string): void => {
  if (isIP(host) !== 0) return
  try {
    parseTarget(`https://${host}/`, { allowLoopback: false })
  } catch (error) {
    if (error instanceof TargetRefused) throw refused(shown, 'its host is private or internal')
    throw error
  }
}

/**
 * Resolves a proxy's host once and looks at all of its addresses; the check dials the first of them and asks no name server
 * again. One address that may not be dialled refuses the host.
 * @param shown what the refusal calls it, without a password
 * @throws invalid_parameter
 */
export const pin = async (
  { host, port }: WrittenProxy,
  shown: string,
  deps: { readonly resolve: Resolve; readonly rules: CandidateRules },
): Promise<PinnedPlace> => {
  checkName(host, shown)
  const addresses = await addressesOf(host, deps.resolve)
  for (const ip of addresses) {
    const refusal = candidateRefusal({ ip, port }, deps.rules)
    if (refusal !== null) throw refused(shown, reasons[refusal])
  }
  const [ip] = addresses
  return ip === undefined ? null : { ip, port }
}
