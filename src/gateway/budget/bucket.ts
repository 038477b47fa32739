import type { MonotonicClock } from '../../kernel/clock.ts'

/** A bucket of this length is filled by its speed, milliseconds: a burst is no longer. */
const bucketMs = 100

/** A token bucket in bytes. `bytesPerSecond` may change while it runs. */
export const createBucket = (monotonicMs: MonotonicClock, bytesPerSecond: number) => {
  let speed = bytesPerSecond
  let tokens = (speed * bucketMs) / 1000
  let filledAtMs = monotonicMs()
  const fill = (): number => {
    const nowMs = monotonicMs()
    tokens = Math.min((speed * bucketMs) / 1000, tokens + ((nowMs - filledAtMs) * speed) / 1000)
    filledAtMs = nowMs
    return Math.floor(tokens)
  }
  return {
    /** What can be taken at once, bytes. */
    available: fill,
    /** As much of `wanted` as is worth waiting for at this speed, bytes: more would not fit, less makes many small pieces. */
    worthwhile: (wanted: number): number =>
      Math.max(1, Math.min(wanted, Math.floor((speed * bucketMs) / 2_000))),
    take: (wanted: number): number => {
      const bytes = Math.max(0, Math.min(wanted, fill()))
      tokens -= bytes
      return bytes
    },
    giveBack: (bytes: number): void => {
      tokens += bytes
    },
    setSpeed: (next: number): void => {
      fill()
      speed = next
    },
  }
}

export type Bucket = ReturnType<typeof createBucket>
