import { setTimeout as pause } from 'node:timers/promises'
import { metricsToken } from './server.ts'

/** How far each group of read models is behind at one moment, milliseconds by the group's name. */
export type Lag = ReadonlyMap<string, number>

const headers = { authorization: `Bearer ${metricsToken}` }

const lagOf = async (url: URL): Promise<Lag> => {
  const text = await (await fetch(new URL('/metrics', url), { headers })).text()
  const lines = text.matchAll(/^farebox_projection_lag_seconds\{group="([^"]+)"\} (\S+)$/gm)
  return new Map([...lines].map(([, group, seconds]) => [group ?? '', Number(seconds) * 1000]))
}

/**
 * Samples the lag of the read models, one request at a time. Each sample is a whole scrape of the
 * metrics: with a short pause it takes a share of the measured load.
 * @returns ends the looking and gives what was seen
 */
export const watchLag = (url: URL, pauseMs: number): (() => Promise<readonly Lag[]>) => {
  const seen: Lag[] = []
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      seen.push(await lagOf(url))
      await pause(pauseMs, undefined, { signal: over.signal }).catch(() => undefined)
    }
  })()
  // Stopping the sampler reports a failed sample.
  watching.catch(() => undefined)
  return async () => {
    over.abort()
    await watching
    return seen
  }
}
