import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { type RebuildProgress, type RebuildResult, rebuild } from '../projections/engine/rebuild.ts'
import { groups } from '../projections/groups.ts'
import { createCodec } from '../src/eventstore/codec.ts'
import { openPostgresLog } from '../src/eventstore/postgres/log.ts'
import { migrate } from '../src/postgres/migrate.ts'
import { allMigrations } from '../src/postgres/migrations.ts'
import { clientConfig, createPool } from '../src/postgres/pool.ts'
import { appendHistory } from './history.ts'

export type RebuildBenchOptions = {
  /** A Postgres where databases may be made. */
  readonly url: string
  /** Default 1,000,000. */
  readonly events?: number
  print(line: string): void
}

const withAdmin = async (url: string, sql: string): Promise<void> => {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  try {
    await admin.query(sql)
  } finally {
    await admin.end()
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

/**
 * How long all read models take to be made from a log of orders: once into nothing, as at a first start, and once
 * beside live tables, with the comparison of both. Target: a million events in under a minute on two cores.
 */
export const benchRebuild = async ({
  url,
  events = 1_000_000,
  print,
}: RebuildBenchOptions): Promise<readonly RebuildResult[]> => {
  const database = `farebox_bench_${randomBytes(4).toString('hex')}`
  await withAdmin(url, `create database ${database}`)
  const settings = {
    url: Object.assign(new URL(url), { pathname: `/${database}` }).toString(),
    applicationName: 'farebox-bench',
  }
  const pool = createPool(settings)
  try {
    await migrate(pool, allMigrations)
    const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
    try {
      const startedMs = performance.now()
      await appendHistory(log, events)
      print(
        `rebuild: ${events.toLocaleString('en-US')} events of orders written in ${seconds(performance.now() - startedMs)}`,
      )
      const context = { pool, log, decode: createCodec().decode, groups }
      const results: RebuildResult[] = []
      for (const what of ['into nothing', 'beside live tables, compared']) {
        const startMs = performance.now()
        const phases = new Map<string, number>()
        const onProgress = ({ group, phase }: RebuildProgress): void => {
          const name = `${group} ${phase}`
          if (!phases.has(name)) phases.set(name, performance.now())
        }
        const made = await rebuild(context, 'all', { onProgress })
        const differences = made.flatMap((result) => result.differences)
        if (differences.length > 0) throw new Error(JSON.stringify(differences))
        results.push(...made)
        const starts = [...phases.values(), performance.now()]
        for (const { group, events: folded, durationMs } of made) {
          const rate = Math.round((folded * 1000) / durationMs).toLocaleString('en-US')
          const parts = [...phases.keys()].flatMap((name, at) =>
            name.startsWith(`${group} `)
              ? [`${name.slice(group.length + 1)} ${seconds((starts[at + 1] ?? 0) - (starts[at] ?? 0))}`]
              : [],
          )
          print(
            `rebuild ${what}, ${group}: ${seconds(durationMs)}, ${rate} events a second (${parts.join(', ')})`,
          )
        }
        print(`rebuild ${what}, all: ${seconds(performance.now() - startMs)}`)
      }
      return results
    } finally {
      await log.close()
    }
  } finally {
    await pool.end()
    await withAdmin(url, `drop database ${database} with (force)`)
  }
}
