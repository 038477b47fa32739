import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import type pg from 'pg'
import type { SocketAddress } from '../../domain/free-list/endpoint.ts'
import { isoTime } from '../../kernel/clock.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'

/** Rows of one statement. */
const batch = 5_000

/**
 * Puts candidates on record, due at once. What is known already stays as it is. Whether they may be dialled is to be
 * asked before.
 * @returns how many are new
 */
export const addCandidates = async (
  pool: pg.Pool,
  places: readonly SocketAddress[],
  nowMs: number,
): Promise<number> => {
  let added = 0
  for (let at = 0; at < places.length; at += batch) {
    const some = places.slice(at, at + batch)
    const { rowCount } = await pool.query({
      name: 'free-proxies-add',
      // In the order of the key, so that two that add at once do not wait for each other in a circle.
      text: `insert into work.free_proxies (ip, port, first_seen, next_due)
             select ip, port, $3::timestamptz, $3::timestamptz
               from (select distinct ip, port from unnest($1::inet[], $2::int[]) as given (ip, port) order by ip, port) given
             on conflict do nothing`,
      values: [some.map(({ ip }) => ip), some.map(({ port }) => port), isoTime(nowMs)],
    })
    added += rowCount ?? 0
  }
  return added
}

/** Why an address is never dialled as a proxy. */
export type CandidateRefusal = 'private_address' | 'own_address' | 'blocked_port'

/** Mail: a request that looks like a check would be taken for an attempt to send. */
const blockedPorts: ReadonlySet<number> = new Set([25, 465, 587])

/** The proxies of the sandbox listen in this network, and nothing else of the service does. */
const sandboxNetwork = ipaddr.IPv4.parseCIDR('127.80.0.0/12')

/** Whether an address is one of the sandbox's proxies. */
export const isSandboxAddress = (ip: string): boolean =>
  ipaddr.IPv4.isValid(ip) && ipaddr.IPv4.parse(ip).match(sandboxNetwork)

const canonical = (ip: string): string => (ipaddr.isValid(ip) ? ipaddr.process(ip).toString() : ip)

export type CandidateRules = {
  /** Whether this service runs on its sandbox: then its proxies are candidates, and nothing else is. */
  readonly sandbox: boolean
  /** Addresses of the service beside those of this machine's interfaces: the judge's, the public one. */
  readonly own: ReadonlySet<string>
}

/** Null when it may be dialled. Interfaces are looked at anew: a machine gets addresses while it runs. */
export const candidateRefusal = (
  { ip, port }: SocketAddress,
  rules: CandidateRules,
): CandidateRefusal | null => {
  if (blockedPorts.has(port)) return 'blocked_port'
  if (rules.sandbox) return isSandboxAddress(ip) ? null : 'private_address'
  if (!isAllowedAddress(ip, { allowLoopback: false })) return 'private_address'
  const address = canonical(ip)
  if (rules.own.has(address)) return 'own_address'
  const machine = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
  return machine.some((one) => canonical(one.address) === address) ? 'own_address' : null
}
