import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import type pg from 'pg'
import type { SocketAddress } from '../../domain/free-list/endpoint.ts'
import { isoTime } from '../../kernel/clock.ts'
import { isAllowedAddress } from '../../platform/outgoing/target.ts'
import { type CheckedFreeProxy, type FreeProxyStatus, longestPauseMs } from './endpoint-status.ts'

/** A claim continues after this endpoint. */
type Cursor = { readonly due: string; readonly ip: string; readonly port: number }

export type RecordStore = {
  /**
   * Up to `limit` due endpoints, the longest due first. The next claim continues after them, and restarts after the
   * end. Endpoints that were claimed and not written yet are returned again.
   * @param isLiveOnly only those that answered their last check
   */
  due(nowMs: number, limit: number, isLiveOnly: boolean): Promise<readonly FreeProxyStatus[]>
  /** Writes checks in one statement. An endpoint that another process wrote since it was read does not change. */
  write(checked: readonly CheckedFreeProxy[]): Promise<void>
  /**
   * Makes endpoints due now whose due time is further away than the longest pause, because a wrong clock set it.
   * @param limit the most endpoints to change
   * @returns the number of changed endpoints
   */
  makeOverlongDue(nowMs: number, limit: number): Promise<number>
  /** How long the most overdue endpoint has been due, milliseconds; null when none is due. */
  lateMs(nowMs: number): Promise<number | null>
}

/** Clocks of processes differ by less than this, milliseconds. */
const graceMs = 60_000

const firstCursor: Cursor = { due: '-infinity', ip: '0.0.0.0', port: 0 }

const columns = `host(ip) as ip, port, state, protocols, anonymity, host(exit_ip) as "exitIp", intercepts_tls as "interceptsTls",
  error, connect_ms as "connectMs", latencies, hours, hour, checks, successes, failures, next_due::text as due`

export const createRecordStore = (pool: pg.Pool): RecordStore => {
  const cursors = { live: firstCursor, all: firstCursor }
  return {
    due: async (nowMs, limit, isLiveOnly) => {
      const which = isLiveOnly ? 'live' : 'all'
      const { due, ip, port } = cursors[which]
      const { rows } = await pool.query<FreeProxyStatus & Cursor>({
        name: `free-proxies-due-${which}`,
        text: `select ${columns} from work.free_proxies
                where next_due <= $1::timestamptz and (next_due, ip, port) > ($2::timestamptz, $3::inet, $4::int)
                  ${isLiveOnly ? "and state = 'live'" : ''}
                order by next_due, ip, port limit $5::int`,
        values: [isoTime(nowMs), due, ip, port, limit],
      })
      cursors[which] = rows.length < limit ? firstCursor : rows.at(-1)!
      return rows
    },
    write: async (checked) => {
      if (checked.length === 0) return
      const column = <Value>(value: (one: CheckedFreeProxy) => Value): Value[] => checked.map(value)
      await pool.query({
        name: 'free-proxies-checked',
        text: `update work.free_proxies p
                  set state = c.state, protocols = c.protocols, anonymity = c.anonymity, exit_ip = c.exit_ip,
                      intercepts_tls = c.intercepts_tls, error = c.error, connect_ms = c.connect_ms, latencies = c.latencies,
                      hours = c.hours, hour = c.hour, checks = c.checks, successes = c.successes, failures = c.failures,
                      last_checked = c.checked,
                      last_answered = case when c.state = 'live' then c.checked else p.last_answered end,
                      next_due = c.next_due
                 from unnest($1::inet[], $2::int[], $3::text[], $4::smallint[], $5::text[], $6::inet[], $7::boolean[],
                             $8::text[], $9::int[], $10::bytea[], $11::bytea[], $12::int[], $13::int[], $14::int[],
                             $15::int[], $16::timestamptz[], $17::timestamptz[])
                   as c (ip, port, state, protocols, anonymity, exit_ip, intercepts_tls, error, connect_ms, latencies,
                         hours, hour, checks, successes, failures, checked, next_due)
                where p.ip = c.ip and p.port = c.port and p.checks = c.checks - 1`,
        values: [
          column(({ ip }) => ip),
          column(({ port }) => port),
          column(({ state }) => state),
          column(({ protocols }) => protocols),
          column(({ anonymity }) => anonymity),
          column(({ exitIp }) => exitIp),
          column(({ interceptsTls }) => interceptsTls),
          column(({ error }) => error),
          column(({ connectMs }) => connectMs),
          column(({ latencies }) => latencies),
          column(({ hours }) => hours),
          column(({ hour }) => hour),
          column(({ checks }) => checks),
          column(({ successes }) => successes),
          column(({ failures }) => failures),
          column(({ checkedMs }) => isoTime(checkedMs)),
          column(({ nextCheckMs }) => isoTime(nextCheckMs)),
        ],
      })
    },
    makeOverlongDue: async (nowMs, limit) => {
      const { rowCount } = await pool.query({
        name: 'free-proxies-bring-forward',
        text: `update work.free_proxies p set next_due = $1::timestamptz
                 from (select ip, port from work.free_proxies where next_due > $2::timestamptz
                        order by next_due, ip, port limit $3::int for update skip locked) late
                where p.ip = late.ip and p.port = late.port`,
        values: [isoTime(nowMs), isoTime(nowMs + longestPauseMs + graceMs), limit],
      })
      return rowCount ?? 0
    },
    lateMs: async (nowMs) => {
      const { rows } = await pool.query<{ due: string | null }>(
        'select min(next_due) as due from work.free_proxies where next_due <= $1::timestamptz',
        [isoTime(nowMs)],
      )
      const due = rows[0]?.due ?? null
      return due === null ? null : nowMs - Date.parse(due)
    },
  }
}

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
export type CandidateRefusal = 'private_address' | 'own_address' | 'blocked_port' | 'not_of_sandbox'

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
  if (rules.sandbox && isSandboxAddress(ip)) return null
  if (!isAllowedAddress(ip, { allowLoopback: false })) return 'private_address'
  if (rules.sandbox) return 'not_of_sandbox'
  const address = canonical(ip)
  if (rules.own.has(address)) return 'own_address'
  const machine = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
  return machine.some((networkInterface) => canonical(networkInterface.address) === address)
    ? 'own_address'
    : null
}
