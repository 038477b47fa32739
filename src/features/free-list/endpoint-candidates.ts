import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import type pg from 'pg'
import type { SocketAddress } from '../../domain/free-list/endpoint.ts'
import { isoTime } from '../../kernel/clock.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'

/** Rows of one statement. */
const batch = 5_000

/**
 * Stores candidates, due at once. Known endpoints do not change. Check first whether they may be dialled
 * (`candidateRefusal`).
 * @returns the number of new endpoints
 */
export const addCandidates = async (
  pool: pg.Pool,
  socketAddresses: readonly SocketAddress[],
  nowMs: number,
): Promise<number> => {
  let added = 0
  for (let at = 0; at < socketAddresses.length; at += batch) {
    const part = socketAddresses.slice(at, at + batch)
    const { rowCount } = await pool.query({
      name: 'free-proxies-add',
      // In key order, so that concurrent inserts do not deadlock.
      text: `insert into work.free_proxies (ip, port, first_seen, next_due)
             select ip, port, $3::timestamptz, $3::timestamptz
               from (select distinct ip, port from unnest($1::inet[], $2::int[]) as given (ip, port) order by ip, port) given
             on conflict do nothing`,
      values: [part.map(({ ip }) => ip), part.map(({ port }) => port), isoTime(nowMs)],
    })
    added += rowCount ?? 0
  }
  return added
}

/** Why an address is never dialled as a proxy. */
export type CandidateRefusal = 'private_address' | 'own_address' | 'blocked_port'

/** Mail ports: a check would look like an attempt to send mail. */
const blockedPorts: ReadonlySet<number> = new Set([25, 465, 587])

/** Only the sandbox proxies listen in this network. */
const sandboxNetwork = ipaddr.IPv4.parseCIDR('127.80.0.0/12')

/** Whether an address is one of the sandbox's proxies. */
export const isSandboxAddress = (ip: string): boolean =>
  ipaddr.IPv4.isValid(ip) && ipaddr.IPv4.parse(ip).match(sandboxNetwork)

const canonical = (ip: string): string => (ipaddr.isValid(ip) ? ipaddr.process(ip).toString() : ip)

export type CandidateRules = {
  /** Whether this service runs on its sandbox. Then only the sandbox proxies are candidates. */
  readonly sandbox: boolean
  /** Addresses of the service other than those of this machine's interfaces: the judge's and the public one. */
  readonly own: ReadonlySet<string>
}

/** Null when it may be dialled. Interfaces are read each time, because addresses of a machine can change. */
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
  return machine.some((networkInterface) => canonical(networkInterface.address) === address)
    ? 'own_address'
    : null
}
