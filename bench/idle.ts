import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { startEmbeddedPostgres } from '../src/platform/postgres/embedded.ts'
import { createPool } from '../src/platform/postgres/pool.ts'
import type { Bench, BenchContext } from './bench.ts'
import { withDatabase } from './database.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { type CpuSpent, cpuSpent } from './process-cpu.ts'

/** Of a core, process and Postgres together, without requests. */
const limitPercent = 2

/** The default settings of Postgres, instead of those of the embedded one. */
const defaults = {
  jit: 'on',
  random_page_cost: '4',
  shared_buffers: '128MB',
  wal_buffers: '-1',
  wal_init_zero: 'on',
  min_wal_size: '80MB',
  max_wal_size: '1GB',
  checkpoint_timeout: '5min',
} as const

/** After its start a service still compiles, warms up and collects. */
const settleMs = 15_000

const describe = async (pool: pg.Pool): Promise<string> => {
  const { rows } = await pool.query<{ version: string; above: string; compiler: boolean }>(
    // Our sessions disable JIT; another session finds out whether the server supports it.
    `select current_setting('server_version') as version, current_setting('jit_above_cost') as above,
            set_config('jit', 'on', false) is not null and pg_jit_available() as compiler`,
  )
  const { version, above, compiler } = rows[0]!
  return `Postgres ${version}, jit from a cost of ${above}, ${compiler ? 'with' : 'without'} a compiler on this server`
}

const measure = async (database: string, { print, sizes: { seconds } }: BenchContext): Promise<void> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const pool = createPool({ url: database, applicationName: 'farebox-bench', max: 1 })
  try {
    print(await describe(pool))
    const settings = serverSettings(database, directory)
    await stopServer((await startServer(settings)).child) // makes the demo
    const { child } = await startServer(settings)
    try {
      await sleep(settleMs)
      const before = await cpuSpent(child.pid!, pool)
      const startedMs = performance.now()
      await sleep(seconds * 1000)
      const spent = await cpuSpent(child.pid!, pool)
      const elapsedMicros = (performance.now() - startedMs) * 1000
      const percent = (part: (spent: CpuSpent) => number): number =>
        ((part(spent) - part(before)) / elapsedMicros) * 100
      const ours = percent(({ node, postgres }) => node + postgres)
      print('percent of a core:      process  Postgres  together   limit  together / limit')
      print(
        `  idle for ${String(seconds).padStart(4)} s      ${percent(({ node }) => node)
          .toFixed(2)
          .padStart(9)}${percent(({ postgres }) => postgres)
          .toFixed(2)
          .padStart(
            10,
          )}${ours.toFixed(2).padStart(10)}${limitPercent.toFixed(2).padStart(8)}${(ours / limitPercent).toFixed(2).padStart(18)}`,
      )
    } finally {
      await stopServer(child)
    }
  } finally {
    await pool.end()
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * The cost of a service without requests, on a Postgres with default settings. The embedded one brings no compiler:
 * BENCH_IDLE_URL names a server that has one, where databases may be made.
 */
export const idle: Bench = {
  name: 'idle',
  what: 'processor time of a service without requests; limit 2 % of a core',
  run: async (context) => {
    const given = process.env.BENCH_IDLE_URL
    if (given !== undefined) return withDatabase(given, (database) => measure(database, context))
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    const server = await startEmbeddedPostgres({ dataDir: directory, role: 'benchmark', settings: defaults })
    try {
      await withDatabase(server.ownerUrl, (database) => measure(database, context))
    } finally {
      await server.stop()
      await rm(directory, { recursive: true, force: true })
    }
  },
}
