const lagOf = async (url: URL): Promise<number> => {
  const text = await (await fetch(new URL('/metrics', url))).text()
  return Math.max(
    0,
    ...[...text.matchAll(/^farebox_projection_lag_seconds\S* (\S+)$/gm)].map(([, value]) => Number(value)),
  )
}

/** Often enough for a percentile, and seldom enough that the looking takes no share of what it looks at. */
const sampleMs = 500

/** Samples the projections' lag while a load runs. @returns ends the sampling and gives what was seen, milliseconds */
export const sampleLag = (url: URL): (() => readonly number[]) => {
  const samplesMs: number[] = []
  const timer = setInterval(() => {
    lagOf(url).then(
      (seconds) => samplesMs.push(seconds * 1000),
      () => undefined,
    )
  }, sampleMs)
  return () => {
    clearInterval(timer)
    return samplesMs
  }
}
