import type pg from 'pg'
import { type Anonymity, bitsOf, type Protocol } from '../../../../src/domain/free-list/endpoint.ts'
import {
  addLatency,
  countCheck,
  type HourCounters,
} from '../../../../src/features/free-list/endpoint-status.ts'

/** An endpoint as a test wants it on record. Its checks are one an hour, the last of them at `atMs`. */
export type Recorded = {
  readonly ip: string
  readonly port: number
  readonly state?: 'live' | 'not_answering' | 'never_answered'
  readonly protocols?: readonly Protocol[]
  readonly anonymity?: Anonymity
  readonly exitIp?: string
  readonly latenciesMs?: readonly number[]
  /** Of each check, the latest last; default one that was answered, or none where it is not live. */
  readonly answered?: readonly boolean[]
  readonly atMs?: number
}

const hourMs = 3_600_000

const iso = (ms: number): string => new Date(ms).toISOString()

/** Puts endpoints on record as if they had been checked. */
export const record = async (pool: pg.Pool, endpoints: readonly Recorded[]): Promise<void> => {
  for (const one of endpoints) {
    const state = one.state ?? 'live'
    const answered =
      one.answered ?? (state === 'live' ? [true] : state === 'not_answering' ? [true, false] : [false])
    const atMs = one.atMs ?? Date.now()
    const timeOf = (at: number): number => atMs - (answered.length - 1 - at) * hourMs
    const counters = answered.reduce<HourCounters>(
      (before, success, at) => countCheck(before, timeOf(at), success),
      { bytes: Buffer.alloc(0), hour: 0 },
    )
    const last = answered.lastIndexOf(true)
    const latencies = (one.latenciesMs ?? (last < 0 ? [] : [100])).reduce(addLatency, Buffer.alloc(0))
    await pool.query(
      `insert into work.free_proxies (ip, port, state, protocols, anonymity, exit_ip, error, latencies, hours, hour, checks,
         successes, failures, first_seen, last_checked, last_answered, next_due)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
      [
        one.ip,
        one.port,
        state,
        bitsOf(one.protocols ?? (last < 0 ? [] : ['http'])),
        last < 0 ? null : (one.anonymity ?? 'elite'),
        last < 0 ? null : (one.exitIp ?? one.ip),
        state === 'live' ? null : 'connect_timeout',
        latencies,
        counters.bytes,
        counters.hour,
        answered.length,
        answered.filter(Boolean).length,
        answered.length - 1 - last,
        iso(timeOf(0)),
        iso(atMs),
        last < 0 ? null : iso(timeOf(last)),
        iso(atMs + 300_000),
      ],
    )
  }
}
