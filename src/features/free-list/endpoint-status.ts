import {
  type Anonymity,
  bitsOf,
  type CheckError,
  type EndpointState,
} from '../../domain/free-list/endpoint.ts'
import type { CheckResult } from './probe-port.ts'

const kept = 10
const bytesEach = 2
const longestLatencyMs = 0xffff

/** The last ten latencies, 16 bits each, the newest last. */
export const addLatency = (latencies: Buffer, ms: number): Buffer => {
  const newest = Buffer.alloc(bytesEach)
  newest.writeUInt16BE(Math.min(longestLatencyMs, Math.max(0, Math.round(ms))))
  return Buffer.concat([latencies.subarray(-(kept - 1) * bytesEach), newest])
}

/** Whole milliseconds; of an even number of latencies the mean of the middle two, rounded half up. Null for none. */
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
 * Checks of the last 24 hours, by the hour: 24 buckets of two counters of 16 bits, checks and then successes. The hour h
 * since the epoch has bucket h mod 24. 96 bytes an endpoint, whatever happens to it.
 */
const hours = 24
const bucketBytes = 4
const hourMs = 3_600_000
const most = 0xffff

/** The counters and the last hour that they cover; empty bytes are those of an endpoint that was never checked. */
export type HourCounters = { readonly bytes: Buffer; readonly hour: number }

export const hourOf = (epochMs: number): number => Math.floor(epochMs / hourMs)

/** Counts one check. Time that goes back counts into the hour that is known already. */
export const countCheck = ({ bytes, hour }: HourCounters, nowMs: number, success: boolean): HourCounters => {
  const counted = Buffer.alloc(hours * bucketBytes)
  bytes.copy(counted)
  const now = bytes.length === 0 ? hourOf(nowMs) : Math.max(hour, hourOf(nowMs))
  // Hours without a check between the last one and now are empty; more than a day empties all.
  for (let at = Math.max(hour + 1, now - hours + 1); at <= now; at += 1)
    counted.writeUInt32BE(0, (at % hours) * bucketBytes)
  const at = (now % hours) * bucketBytes
  const [checks, successes] = [counted.readUInt16BE(at), counted.readUInt16BE(at + 2)]
  if (checks < most) {
    counted.writeUInt16BE(checks + 1, at)
    if (success) counted.writeUInt16BE(successes + 1, at + 2)
  }
  return { bytes: counted, hour: now }
}

/** Checks of the hour that runs and of the 23 before it. */
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

/** Percent of those checks that were answered, with one digit; null when there were none. */
export const uptimeOf = (counters: HourCounters, nowMs: number): number | null => {
  const { checks, successes } = countsOf(counters, nowMs)
  return checks === 0 ? null : Math.round((1_000 * successes) / checks) / 10
}

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** Those that answered are asked again within these bounds. */
const liveMs = { least: 2 * minuteMs, most: 5 * minuteMs }
/** After the first check without an answer; twice as long after each further one, up to a day. */
const firstRetryMs = { answeredBefore: 2 * minuteMs, neverAnswered: 10 * minuteMs }
export const longestPauseMs = dayMs
/** A part of the pause, so that what was added together is not checked together for ever. */
const jitter = 0.1

/**
 * When an endpoint is checked next, milliseconds from now. Nothing is ever given up: the longest pause is a day, less up
 * to a fifth.
 * @param failures checks in a row that it did not answer
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

/** What a check needs to know of an endpoint, and changes; as the table has it. */
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

/** Instants in milliseconds since the epoch. */
export type CheckedFreeProxy = FreeProxyStatus & { readonly checkedMs: number; readonly nextDueMs: number }

/** An endpoint after a check. What it was found to be while it answered stays when it does not. */
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
  return { ...after, checkedMs: nowMs, nextDueMs: nowMs + nextCheckDelayMs(after, random) }
}
