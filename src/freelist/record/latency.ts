const kept = 10
const bytesEach = 2
const longestMs = 0xffff

/** The last ten latencies, 16 bits each, the newest last. */
export const addLatency = (latencies: Buffer, ms: number): Buffer => {
  const newest = Buffer.alloc(bytesEach)
  newest.writeUInt16BE(Math.min(longestMs, Math.max(0, Math.round(ms))))
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
