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
