import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Bench } from './bench.ts'
import { withDatabase } from './database.ts'
import { type Lag, watchLag } from './orders/lag.ts'
import { runLoad } from './orders/load.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { prepare } from './orders/shop.ts'
import { percentile } from './percentile.ts'

const connections = 32
const peakS = 6
const pauseMs = 50
/** How far the hot group may be behind at half the peak, milliseconds at the 99th percentile. */
const limitMs = 100
const order = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })

/** What was seen of each group, rising. */
const byGroup = (samples: readonly Lag[]): ReadonlyMap<string, readonly number[]> => {
  const groups = Map.groupBy(
    samples.flatMap((sample) => [...sample]),
    ([group]) => group,
  )
  return new Map([...groups].map(([group, seen]) => [group, seen.map(([, ms]) => ms).sort((a, b) => a - b)]))
}

const at = (sorted: readonly number[], share: number): string =>
  percentile(sorted, share).toFixed(0).padStart(8)

/** How far the read models are behind the log at half of the most orders a second. */
export const lag: Bench = {
  name: 'lag',
  what: 'how far the read models are behind at half the peak of orders; limit 100 ms',
  run: async ({ url, print, sizes: { seconds } }) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(url, async (database) => {
        const settings = serverSettings(database, directory)
        await stopServer((await startServer(settings)).child) // makes the demo
        const { keys } = await prepare(settings)
        const { child, url: base } = await startServer(settings)
        try {
          const load = (measureMs: number, perSecond?: number) =>
            runLoad({
              host: base.hostname,
              port: Number(base.port),
              connections,
              warmUpMs: 2_000,
              measureMs,
              path: '/api/v1/orders',
              run: randomBytes(4).toString('hex'),
              keys,
              bodies: [order],
              ...(perSecond !== undefined && { perSecond }),
            })
          const peak = await load(peakS * 1000)
          print(
            `orders at the peak, ${keys.length} wallets, ${connections} clients: ${peak.perSecond.toFixed(0)} a second`,
          )
          const watched = watchLag(base, pauseMs)
          const half = await load(seconds * 1000, peak.perSecond / 2)
          const seen = byGroup(await watched())
          print(
            `at half of it: ${half.perSecond.toFixed(0)} a second, p50 ${half.p50Ms.toFixed(1)} ms, p99 ${half.p99Ms.toFixed(1)} ms`,
          )
          print(`lag of the read models, ms:      p50     p99     max  p99 × ${limitMs} ms  samples`)
          for (const [group, sorted] of seen) {
            const share = (Number(at(sorted, 0.99)) / limitMs).toFixed(2).padStart(14)
            print(
              `  ${group.padEnd(26)}${at(sorted, 0.5)}${at(sorted, 0.99)}${at(sorted, 1)}${share}${String(sorted.length).padStart(9)}`,
            )
          }
        } finally {
          await stopServer(child)
        }
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
