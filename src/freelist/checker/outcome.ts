import type { CheckResult } from '../probe/port.ts'
import { type Anonymity, bitsOf, type CheckError, type EndpointState } from '../record/endpoint.ts'
import { addLatency } from '../record/latency.ts'
import { countCheck } from '../record/uptime.ts'
import { pauseMs } from './schedule.ts'

/** What a check needs to know of an endpoint, and changes; as the table has it. */
export type Standing = {
  readonly ip: string
  readonly port: number
  readonly state: EndpointState
  readonly protocols: number
  readonly anonymity: Anonymity | null
  readonly exitIp: string | null
  readonly interceptsTls: boolean | null
  readonly error: CheckError | null
  readonly connectMs: number | null
  readonly latencies: Buffer
  readonly hours: Buffer
  readonly hour: number
  readonly checks: number
  readonly successes: number
  readonly failures: number
}

/** Instants in milliseconds since the epoch. */
export type Checked = Standing & { readonly checkedMs: number; readonly nextDueMs: number }

/** An endpoint after a check. What it was found to be while it answered stays when it does not. */
export const afterCheck = (
  before: Standing,
  result: CheckResult,
  { nowMs, random }: { readonly nowMs: number; readonly random: number },
): Checked => {
  const { alive, latencyMs } = result
  const { bytes: hours, hour } = countCheck({ bytes: before.hours, hour: before.hour }, nowMs, alive)
  const counted = { ...before, hours, hour, checks: before.checks + 1 }
  const after: Standing = alive
    ? {
        ...counted,
        state: 'live',
        protocols: bitsOf(result.protocols),
        anonymity: result.anonymity,
        exitIp: result.exitIp,
        interceptsTls: result.interceptsTls,
        error: null,
        connectMs: result.connectMs,
        latencies: latencyMs === null ? before.latencies : addLatency(before.latencies, latencyMs),
        successes: before.successes + 1,
        failures: 0,
      }
    : {
        ...counted,
        state: before.successes > 0 ? 'not_answering' : 'never_answered',
        error: result.error,
        failures: before.failures + 1,
      }
  return { ...after, checkedMs: nowMs, nextDueMs: nowMs + pauseMs(after, random) }
}
