import { replay } from '../../src/features/finance/replay.ts'
import { limitMemory } from '../../src/platform/cli/limit-memory.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import { openPostgresLog } from '../../src/platform/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../src/platform/postgres/pool.ts'

/** One replay of a whole log in a process of its own, so that its peak of memory is the replay's. */
export type ReplayFigures = {
  readonly events: number
  readonly entries: number
  readonly accounts: number
  readonly ms: number
  readonly cpuMs: number
  readonly peakBytes: number
}

const [url] = process.argv.slice(2)
limitMemory()
const settings = { url: url ?? '', applicationName: 'farebox-bench' }
const pool = createPool(settings)
const log = openPostgresLog({ pool, connection: clientConfig(settings) })
const startedMs = performance.now()
const { events, entries, sums } = await replay({
  log,
  decode: createCodec().decode,
  head: await log.head(),
  until: null,
})
const { user, system } = process.cpuUsage()
const figures: ReplayFigures = {
  events,
  entries,
  accounts: sums.length,
  ms: Math.round(performance.now() - startedMs),
  cpuMs: Math.round((user + system) / 1000),
  peakBytes: process.resourceUsage().maxRSS * 1024,
}
process.stdout.write(JSON.stringify(figures))
await log.close()
await pool.end()
