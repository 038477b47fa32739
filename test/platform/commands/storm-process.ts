import { createPostgresStreamLocks } from '../../../src/platform/commands/contention.ts'
import { clientConfig, createPool } from '../../../src/platform/postgres/pool.ts'
import { openLog } from '../eventstore/open-postgres.ts'
import { move, purse, runnerOver } from './purse.ts'

/**
 * One of several processes that move one purse as fast as they can; prints each answer's wait in
 * milliseconds.
 */
const [url, name, countText, widthText] = process.argv.slice(2) as [string, string, string, string]
const [count, width] = [Number(countText), Number(widthText)]
const log = await openLog(url)
const settings = { url, applicationName: 'farebox-test-locks' }
const pool = createPool({ ...settings, max: 4 })
const streamLocks = createPostgresStreamLocks({ pool, connection: clientConfig(settings) })
let conflicts = 0
const runner = runnerOver(log, {
  streamLocks,
  metrics: { onConflict: () => conflicts++ },
})

process.once('message', async () => {
  const startedMs = performance.now()
  const waits: number[] = []
  let next = 0
  let overloads = 0
  const work = async (): Promise<void> => {
    while (next < count) {
      const id = `${name}-${next++}`
      const requestedMs = performance.now()
      for (;;) {
        try {
          await runner.run(move(purse('hot'), id, 1))
          break
        } catch {
          overloads++
        }
      }
      waits.push(performance.now() - requestedMs)
    }
  }
  await Promise.all(Array.from({ length: width }, work))
  const endedMs = performance.timeOrigin + performance.now()
  process.send?.({
    name,
    conflicts,
    overloads,
    ms: performance.now() - startedMs,
    maxWaitMs: Math.max(...waits),
    endedMs,
  })
  await runner.close()
  await streamLocks.close()
  await log.close()
  await pool.end()
  process.disconnect()
})
process.send?.('ready')
