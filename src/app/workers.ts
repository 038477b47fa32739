import { hot } from '../../projections/groups.ts'
import { type ServerCore, waitForReadTables } from '../platform/feature/core.ts'
import type { Running, StartWorker } from '../platform/feature/feature.ts'
import { createWorkers } from '../platform/work/queue-workers.ts'
import type { Features } from './features.ts'
import { createWorkMetrics } from './metrics.ts'

/** Starts the workers of every feature when the read tables exist. Payment callbacks are processed at once. */
export const startWorkers = (core: ServerCore, features: Features): Running => {
  const stopping = new AbortController()
  const workers = createWorkers({
    ...core,
    metrics: createWorkMetrics(core.registry, { ...core, ...core.probing }),
  })
  const callbacks = features.deposits.takeCallbacks({ workers })
  const starts: readonly StartWorker[] = Object.values(features).flatMap(
    ({ workers: featureWorkers = [] }: { readonly workers?: readonly StartWorker[] }) => featureWorkers,
  )
  const started = waitForReadTables(core.projecting, hot.name, stopping.signal).then((areTablesReady) =>
    areTablesReady ? starts.map((start) => start({ workers })) : [],
  )
  return {
    stop: async () => {
      stopping.abort()
      await callbacks.stop()
      for (const worker of await started) await worker.stop()
      await workers.stop()
    },
  }
}
