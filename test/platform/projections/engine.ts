import type { TestContext } from 'node:test'
import type pg from 'pg'
import { pino } from 'pino'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import {
  createProjectionRunner,
  type ProjectionRunner,
  type RunnerOptions,
} from '../../../src/platform/projections/projection-runner.ts'
import type { ReadModelGroup } from '../../../src/platform/projections/read-model.ts'
import { until } from '../../support/until.ts'

export const { decode } = createCodec()
export const silent = pino({ level: 'silent' })

export type Engine = ProjectionRunner & { readonly groups: readonly ReadModelGroup[] }

/** A runner as one process has it, not started; it stops with the test. */
export const createEngine = (
  t: TestContext,
  pool: pg.Pool,
  log: EventLog,
  groups: readonly ReadModelGroup[],
  over: Partial<RunnerOptions> = {},
): Engine => {
  const feed = createLogFeed({
    log,
    decode,
    onError: (error) => {
      throw error
    },
  })
  const runner = createProjectionRunner({
    pool,
    log,
    feed,
    decode,
    groups,
    logger: silent,
    clock: Date.now,
    ...over,
  })
  let stopped: Promise<void> | null = null
  const stop = (): Promise<void> => {
    stopped ??= runner.stop().then(() => feed.close())
    return stopped
  }
  t.after(stop)
  return { ...runner, stop, groups }
}

export const startEngine = async (...args: Parameters<typeof createEngine>): Promise<Engine> => {
  const engine = createEngine(...args)
  await engine.start()
  return engine
}

/** Waits until every group that is named (default: all) has folded the log up to its head as of now. */
export const caughtUp = async (engine: Engine, log: EventLog, names?: readonly string[]): Promise<void> => {
  const head = await log.head()
  for (const { name } of engine.groups)
    if (!names || names.includes(name))
      await until(() => engine.progress.reached(name, head, 1000), {
        timeoutMs: 20_000,
        what: `group ${name} reaching position ${head} (${JSON.stringify(engine.health())})`,
      })
}

export const stateOf = (engine: Engine, group: string): string =>
  engine.health().find((health) => health.group === group)?.state ?? 'absent'

export const owns = (engine: Engine, group: string): Promise<boolean> =>
  until(() => stateOf(engine, group) === 'owner', { what: `owning ${group}` })

/** Every row of a table as JSON text, in the order of its key. */
export const rowsOf = async (pool: pg.Pool, table: string, key: string): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ row: string }>(
    `select to_jsonb(t)::text as row from read.${table} t order by ${key}`,
  )
  return rows.map(({ row }) => row)
}
