import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// See main.ts.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { openFreelistWorker } = await import('./app/free-list-process.ts')
const { runWorker } = await import('./app/run-worker.ts')

/** The process that reads feeds of free proxies and checks the proxies. */
await runWorker('the checker of free proxies', (parts) =>
  openFreelistWorker({
    ...parts,
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    cpuMs: () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1_000
    },
    random: Math.random,
  }),
)
