import {
  type Anonymity,
  bitsOf,
  type CheckError,
  type EndpointState,
} from '../../domain/free-list/endpoint.ts'
import type { CheckResult } from './probe-port.ts'

const maxLatencies = 10
const bytesEach = 2
const longestLatencyMs = 0xffff

/** The last ten latencies, 16 bits each, the newest last. */
export const addLatency = (latencies: Buffer, ms: number): Buffer => {
  const newest = Buffer.alloc(bytesEach)
  newest.writeUInt16BE(Math.min(longestLatencyMs, Math.max(0, Math.round(ms))))
  return Buffer.concat([latencies.subarray(-(maxLatencies - 1) * bytesEach), newest])
}

/**
 * Median in whole milliseconds. For an even number of latencies, the mean of the middle two, rounded half up. Null for
 * none.
 */
export const medianOf = (latencies: Buffer): number | null => {
  if (latencies.length === 0) return null
  const sorted = Array.from({ length: latencies.length / bytesEach }, (_, at) =>
    latencies.readUInt16BE(at * bytesEach),
  ).sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle]!, sorted[middle]!]
  return Math.round((low + high) / 2)
}

/*
 * Checks of the last 24 hours by hour: 24 buckets of two 16-bit counters, checks and then successes. The hour h since
 * the epoch has bucket h mod 24. Always 96 bytes for an endpoint.
 */
const hours = 24
const bucketBytes = 4
const hourMs = 3_600_000
const maxChecks = 0xffff

/** The counters and the last hour that they cover. Empty bytes: the endpoint was never checked. */
export type HourCounters = { readonly bytes: Buffer; readonly hour: number }

export const hourOf = (epochMs: number): number => Math.floor(epochMs / hourMs)

/** Counts one check. If the clock went back, it counts in the last known hour. */
export const countCheck = ({ bytes, hour }: HourCounters, nowMs: number, success: boolean): HourCounters => {
  const counted = Buffer.alloc(hours * bucketBytes)
  bytes.copy(counted)
  const now = bytes.length === 0 ? hourOf(nowMs) : Math.max(hour, hourOf(nowMs))
  // Clears the hours without a check between the last check and now; after more than a day, all of them.
  for (let at = Math.max(hour + 1, now - hours + 1); at <= now; at += 1)
    counted.writeUInt32BE(0, (at % hours) * bucketBytes)
  const at = (now % hours) * bucketBytes
  const [checks, successes] = [counted.readUInt16BE(at), counted.readUInt16BE(at + 2)]
  if (checks < maxChecks) {
    counted.writeUInt16BE(checks + 1, at)
    if (success) counted.writeUInt16BE(successes + 1, at + 2)
  }
  return { bytes: counted, hour: now }
}

/** Checks of the current hour and of the 23 hours before it. */
export const countsOf = (
  { bytes, hour }: HourCounters,
  nowMs: number,
): { readonly checks: number; readonly successes: number } => {
  const now = hourOf(nowMs)
  let [checks, successes] = [0, 0]
  if (bytes.length > 0)
    for (let at = Math.max(now - hours + 1, hour - hours + 1); at <= Math.min(now, hour); at += 1) {
      checks += bytes.readUInt16BE((at % hours) * bucketBytes)
      successes += bytes.readUInt16BE((at % hours) * bucketBytes + 2)
    }
  return { checks, successes }
}

/** Percentage of these checks that were answered, with one decimal; null when there were none. */
export const uptimeOf = (counters: HourCounters, nowMs: number): number | null => {
  const { checks, successes } = countsOf(counters, nowMs)
  return checks === 0 ? null : Math.round((1_000 * successes) / checks) / 10
}

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** Endpoints that answered are checked again within these bounds. */
const liveMs = { least: 2 * minuteMs, most: 5 * minuteMs }
/** Pause after the first failed check. It doubles with each further failure, up to a day. */
const firstRetryMs = { answeredBefore: 2 * minuteMs, neverAnswered: 10 * minuteMs }
export const longestPauseMs = dayMs
/** Share of the pause, so that endpoints that were added together are not always checked together. */
const jitter = 0.1

/**
 * The delay until the next check, milliseconds. Checks never stop: the longest pause is a day, less up to a fifth.
 * @param failures consecutive failed checks
 * @param random from 0 up to, but not including, 1
 */
export const nextCheckDelayMs = (
  { state, failures }: { readonly state: EndpointState; readonly failures: number },
  random: number,
): number => {
  if (state === 'live') return Math.round(liveMs.least + (liveMs.most - liveMs.least) * random)
  const first = state === 'never_answered' ? firstRetryMs.neverAnswered : firstRetryMs.answeredBefore
  const doubled = first * 2 ** Math.min(20, Math.max(0, failures - 1))
  return Math.round(Math.min(doubled, longestPauseMs / (1 + jitter)) * (1 - jitter + 2 * jitter * random))
}

/** The state of an endpoint that checks read and change, as in the table. */
export type FreeProxyStatus = {
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

/** Times in milliseconds since the epoch. */
export type CheckedFreeProxy = FreeProxyStatus & { readonly checkedMs: number; readonly nextCheckMs: number }

/** An endpoint after a check. A failed check keeps the properties found by the last successful one. */
export const applyCheck = (
  before: FreeProxyStatus,
  result: CheckResult,
  { nowMs, random }: { readonly nowMs: number; readonly random: number },
): CheckedFreeProxy => {
  const { alive, latencyMs } = result
  const { bytes: hours, hour } = countCheck({ bytes: before.hours, hour: before.hour }, nowMs, alive)
  const counted = { ...before, hours, hour, checks: before.checks + 1 }
  const after: FreeProxyStatus = alive
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
  return { ...after, checkedMs: nowMs, nextCheckMs: nowMs + nextCheckDelayMs(after, random) }
}
