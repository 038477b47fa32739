import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// See main.ts.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { openGatewayWorker } = await import('./app/gateway-process.ts')
const { runWorker } = await import('./app/run-worker.ts')

/** A worker process of the gateway. */
await runWorker('the gateway', (parts) =>
  openGatewayWorker({
    ...parts,
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    random: Math.random,
  }),
)
