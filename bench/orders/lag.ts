const lagOf = async (url: URL): Promise<number> => {
  const text = await (await fetch(new URL('/metrics', url))).text()
  return Math.max(
    0,
    ...[...text.matchAll(/^farebox_projection_lag_seconds\S* (\S+)$/gm)].map(([, value]) => Number(value)),
  )
}

/** Samples the projections' lag while a load runs. */
export const sampleLag = (url: URL) => {
  const samples: number[] = []
  const timer = setInterval(() => {
    lagOf(url).then(
      (seconds) => samples.push(seconds),
      () => undefined,
    )
  }, 250)
  return (): { p99Ms: number; maxMs: number } => {
    clearInterval(timer)
    samples.sort((a, b) => a - b)
    const at = (share: number) =>
      (samples[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? 0) * 1000
    return { p99Ms: at(0.99), maxMs: at(1) }
  }
}
