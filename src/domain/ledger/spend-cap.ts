import { Map as ImmutableMap, List } from 'immutable'
import type { OrderDetails } from '../shared/order-terms.ts'

/**
 * What each key spent on orders, in one-minute buckets. A bucket counts until all of it is older than 24 hours, so the
 * cap is never exceeded and spending counts at most one minute too long. Refunds do not reduce it.
 */
export type Spend = {
  readonly windows: ImmutableMap<string, SpendWindow>
  /** The buckets of all keys in the order in which they were opened. They are dropped in that order. */
  readonly queue: List<{ readonly keyId: string; readonly minute: number }>
}

type Bucket = { readonly minute: number; readonly micros: number }
type SpendWindow = { readonly totalMicros: number; readonly buckets: List<Bucket> }

const minuteMs = 60_000
const windowMs = 24 * 60 * minuteMs
/** A debit opens at most one bucket, so dropping two per event limits both the work and the stored buckets. */
const droppedPerEvent = 2

const isPast = (minute: number, nowMs: number): boolean => (minute + 1) * minuteMs <= nowMs - windowMs

export const emptySpend = (): Spend => ({ windows: ImmutableMap(), queue: List() })

/** The key whose cap an order counts against. Rolled keys count together. Null for an order without a key. */
export const capKeyOf = ({ keyId, capKeyId }: Pick<OrderDetails, 'keyId' | 'capKeyId'>): string | null =>
  capKeyId ?? keyId

/**
 * Counts a debit of `micros` micro-dollars. Times never decrease within a stream. An earlier time would count in the
 * newest bucket.
 */
export const recordSpend = (spend: Spend, keyId: string, micros: number, atMs: number): Spend => {
  const minute = Math.floor(atMs / minuteMs)
  const window = spend.windows.get(keyId) ?? { totalMicros: 0, buckets: List() }
  const last = window.buckets.last()
  const isSameMinute = last !== undefined && last.minute >= minute
  const buckets = isSameMinute
    ? window.buckets.set(-1, { minute: last.minute, micros: last.micros + micros })
    : window.buckets.push({ minute, micros })
  return {
    windows: spend.windows.set(keyId, { totalMicros: window.totalMicros + micros, buckets }),
    queue: isSameMinute ? spend.queue : spend.queue.push({ keyId, minute }),
  }
}

/**
 * Drops at most two of the oldest buckets that no longer count.
 * @throws if the buckets do not match their queue
 */
export const dropExpiredSpend = (spend: Spend, nowMs: number): Spend => {
  let { windows, queue } = spend
  for (let dropped = 0; dropped < droppedPerEvent; dropped += 1) {
    const oldest = queue.first()
    if (!oldest || !isPast(oldest.minute, nowMs)) break
    const window = windows.get(oldest.keyId)
    const bucket = window?.buckets.first()
    if (!window || bucket?.minute !== oldest.minute)
      throw new Error(`the spend buckets of ${oldest.keyId} are out of step with their queue`)
    windows =
      window.buckets.size === 1
        ? windows.delete(oldest.keyId)
        : windows.set(oldest.keyId, {
            totalMicros: window.totalMicros - bucket.micros,
            buckets: window.buckets.shift(),
          })
    queue = queue.shift()
  }
  return queue === spend.queue ? spend : { windows, queue }
}

/** What the key spent in the 24 hours before `nowMs`, micro-dollars. The period is extended to whole minutes. */
export const spentMicros = (spend: Spend, keyId: string, nowMs: number): number => {
  const window = spend.windows.get(keyId)
  if (!window) return 0
  let spent = window.totalMicros
  for (const bucket of window.buckets) {
    if (!isPast(bucket.minute, nowMs)) break
    spent -= bucket.micros
  }
  return spent
}

/** Every bucket in the order of the queue. */
export type SpendJson = readonly (readonly [keyId: string, minute: number, micros: number])[]

export const spendToJson = (spend: Spend): SpendJson => {
  const remainingBuckets = new Map(spend.windows.map(({ buckets }) => buckets.values()).entries())
  return spend.queue.toArray().map(({ keyId, minute }) => {
    const bucket = remainingBuckets.get(keyId)?.next().value
    if (bucket?.minute !== minute)
      throw new Error(`the spend buckets of ${keyId} are out of step with their queue`)
    return [keyId, minute, bucket.micros] as const
  })
}

export const spendFromJson = (json: SpendJson): Spend =>
  json.reduce(
    (spend, [keyId, minute, micros]) => recordSpend(spend, keyId, micros, minute * minuteMs),
    emptySpend(),
  )
