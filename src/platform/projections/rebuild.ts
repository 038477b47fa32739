import type pg from 'pg'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { EventLog, StoredEvent } from '../eventstore/port.ts'
import { tryLock } from '../postgres/locks.ts'
import { openSession, type Session } from '../postgres/postgres-session.ts'
import {
  type Checkpoint,
  ensureCheckpoint,
  isOfAnotherLog,
  ProjectionsRefused,
  readCheckpoint,
  tablesExist,
} from './checkpoint.ts'
import { compareTables, type Difference } from './compare-tables.ts'
import { createIndexSql, createTableSql, definitionOf } from './definition.ts'
import { type FoldWatch, isDataError, modelOfRow, PoisonEvent } from './fold-batch.ts'
import { groupLock, type ReadModel, type ReadModelGroup } from './read-model.ts'
import { createReplay, type RebuiltCheckpoint, type Replay, swapTables } from './rebuild-tables.ts'

export type RebuildPhase = 'fold' | 'index' | 'catch up' | 'compare' | 'switch'

export type RebuildProgress = {
  readonly group: string
  readonly phase: RebuildPhase
  readonly events: number
  readonly position: number
  readonly target: number
  readonly eventsPerSecond: number
  /** Null until it can be estimated. */
  readonly secondsLeft: number | null
}

export type RebuildResult = {
  readonly group: string
  readonly models: readonly string[]
  readonly events: number
  readonly position: number
  readonly durationMs: number
  /** The models whose version did not change. Their live tables were compared before the replacement. */
  readonly compared: readonly string[]
  /** At most one per table: its first. */
  readonly differences: readonly Difference[]
  /** False if the tables were only compared. */
  readonly exchanged: boolean
}

export type RebuildOptions = {
  readonly onProgress?: (progress: RebuildProgress) => void
  readonly signal?: AbortSignal
  /** Compares the new tables with the live ones, then drops the new ones. */
  readonly compareOnly?: boolean
}

/** Another process already rebuilds the group's tables. */
export class RebuildRunning extends Error {
  override readonly name = 'RebuildRunning'
}

export type RebuildContext = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly decode: (event: StoredEvent) => RecordedEvent
  readonly watch?: FoldWatch | undefined
}

type Plan = {
  readonly group: ReadModelGroup
  readonly models: readonly ReadModel[]
  /** All models of the group. */
  readonly isWholeGroup: boolean
  readonly schema: string
  readonly logId: string
  /** The live tables belong to another log, or to another history of this log. */
  readonly isForeignLog: boolean
  /** Their live tables were filled by exactly these definitions, from this log. */
  readonly comparable: readonly ReadModel[]
  /** `checkpoint`: the new tables must be exactly at the live checkpoint. `head`: the live position does not matter. */
  readonly targetKind: 'checkpoint' | 'head'
}

const planRebuild = async (
  { pool, log }: RebuildContext,
  group: ReadModelGroup,
  models: readonly ReadModel[],
): Promise<Plan> => {
  const logId = await log.logId()
  await ensureCheckpoint(pool, group.name, logId)
  const checkpoint = (await readCheckpoint(pool, group.name)) as Checkpoint
  const isForeignLog = await isOfAnotherLog(log, checkpoint)
  const isWholeGroup = models.length === group.models.length
  if (isForeignLog && !isWholeGroup)
    throw new ProjectionsRefused(
      `the tables of group ${group.name} were folded from another log: only all of its models can be rebuilt together`,
    )
  const comparable: ReadModel[] = []
  for (const model of isForeignLog ? [] : models) {
    if (checkpoint.definitions[model.name]?.digest !== definitionOf(model).digest) continue
    const names = model.tables.map(({ name }) => name)
    if ((await tablesExist(pool, names)).every(Boolean)) comparable.push(model)
  }
  return {
    group,
    models,
    isWholeGroup,
    schema: `read_next_${group.name}`,
    logId,
    isForeignLog,
    comparable,
    targetKind: isWholeGroup && comparable.length === 0 ? 'head' : 'checkpoint',
  }
}

/** After a round of catching up this short, little is left to fold under the locks, and the next step follows. */
const shortRoundMs = 300
/** The most events that are folded while reads wait. */
const maxLockedEvents = 5000

const runRebuild = async (
  context: RebuildContext,
  plan: Plan,
  session: Session,
  options: RebuildOptions,
): Promise<RebuildResult> => {
  const { log } = context
  const { group, models, schema, targetKind } = plan
  const { client } = session
  const startedMs = performance.now()
  const signal = options.signal ? AbortSignal.any([session.ended, options.signal]) : session.ended
  const replay: Replay = createReplay({ ...context, group: group.name, session, schema, models, signal })

  let target = 0
  const report = (phase: RebuildPhase): void => {
    const seconds = (performance.now() - startedMs) / 1000
    const { events, position } = replay
    const left = position > 0 ? (seconds * (target - position)) / position : null
    options.onProgress?.({
      group: group.name,
      phase,
      events,
      position,
      target,
      eventsPerSecond: Math.round(events / Math.max(seconds, 0.001)),
      secondsLeft: left === null ? null : Math.max(0, Math.round(left)),
    })
  }
  const findTarget = async (checkpoint?: Checkpoint): Promise<number> => {
    if (targetKind === 'head') return Math.max(replay.position, await log.head())
    return (checkpoint ?? (await readCheckpoint(client, group.name)))?.position ?? 0
  }
  const catchUp = async (phase: RebuildPhase): Promise<void> => {
    let roundMs: number
    do {
      const roundStartMs = performance.now()
      target = await findTarget()
      report(phase)
      await replay.to(target, () => report(phase))
      roundMs = performance.now() - roundStartMs
    } while (roundMs > shortRoundMs)
  }
  const compare = async (): Promise<readonly Difference[]> => {
    const differences: Difference[] = []
    // One snapshot shows the live tables as of their checkpoint. This transaction also sees its own rows.
    await client.query('begin isolation level repeatable read')
    target = await findTarget()
    await replay.to(target)
    for (const model of plan.comparable)
      for (const table of model.tables) {
        signal.throwIfAborted()
        const difference = await compareTables(table, { client, schema: 'read' }, { client, schema })
        if (difference) differences.push(difference)
      }
    await client.query('commit')
    return differences
  }
  const settle = async (checkpoint: Checkpoint): Promise<RebuiltCheckpoint | null> => {
    const position = await findTarget(checkpoint)
    // There are at most as many events as positions. On EventStoreDB there are fewer, so a round may be unnecessary.
    if (position - replay.position > maxLockedEvents && targetKind === 'checkpoint') return null
    await replay.to(position)
    await context.watch?.beforeSwap?.(group.name, client)
    return { position, lastEvent: replay.lastEvent }
  }
  const exchange = async (): Promise<number> => {
    for (let round = 0; round < 1000; round += 1) {
      signal.throwIfAborted()
      await catchUp('catch up')
      report('switch')
      const position = await swapTables({
        session,
        signal,
        group: group.name,
        models,
        whole: plan.isWholeGroup,
        schema,
        logId: plan.logId,
        foreign: plan.isForeignLog,
        settle,
      })
      if (position !== null) return position
    }
    throw new Error(`the rebuild of group ${group.name} cannot keep up with the log`)
  }

  const run = async () => {
    await client.query(`drop schema if exists ${schema} cascade`)
    await client.query(`create schema ${schema}`)
    const tables = models.flatMap((model) => model.tables)
    for (const table of tables) await client.query(createTableSql(schema, table))
    await catchUp('fold')
    report('index')
    for (const table of tables) {
      for (const sql of createIndexSql(schema, table)) await client.query(sql)
      if (replay.events > 0) await client.query(`analyze ${schema}.${table.name}`)
    }
    await catchUp('catch up')
    if (plan.comparable.length > 0) report('compare')
    const differences = plan.comparable.length > 0 ? await compare() : []
    return { differences, position: options.compareOnly ? replay.position : await exchange() }
  }
  const { differences, position } = await run().catch((error) => {
    const { lastRead } = replay
    if (!isDataError(error) || lastRead === null) throw error
    const cause = new Error(
      `one of the events up to it makes a row that Postgres rejects: ${error.message}`,
      {
        cause: error,
      },
    )
    throw new PoisonEvent(lastRead, modelOfRow(error, models)?.name ?? group.name, cause)
  })
  return {
    group: group.name,
    models: models.map(({ name }) => name),
    events: replay.events,
    position,
    durationMs: Math.round(performance.now() - startedMs),
    compared: plan.comparable.map(({ name }) => name),
    differences,
    exchanged: !options.compareOnly,
  }
}

/**
 * Rebuilds tables of a group next to the live ones, compares the two if the version did not change, and replaces the
 * live ones. Reads and the owner in any process continue.
 * @throws RebuildRunning, PoisonEvent, UndecodableEvent, ProjectionsRefused; the live tables are then unchanged
 */
export const rebuildGroup = async (
  context: RebuildContext,
  group: ReadModelGroup,
  models: readonly ReadModel[],
  options: RebuildOptions = {},
): Promise<RebuildResult> => {
  const session = await openSession(context.pool, `farebox rebuild ${group.name}`, 0)
  try {
    if (!(await tryLock(session.client, groupLock(group, 'rebuild'))))
      throw new RebuildRunning(`the read models of group ${group.name} are being rebuilt already`)
    const plan = await planRebuild(context, group, models)
    try {
      return await runRebuild(context, plan, session, options)
    } finally {
      if (!session.ended.aborted) {
        await session.client.query('rollback')
        await session.client.query(`drop schema if exists ${plan.schema} cascade`)
      }
    }
  } finally {
    await session.close()
  }
}

/**
 * If work tables were filled from another log, or from another history of this log, it empties them. The owner of the
 * group then fills them from the start of this log. Other work tables remain, because they store state that is not in
 * the log.
 */
const resetWork = async ({ pool, log }: RebuildContext, group: ReadModelGroup): Promise<void> => {
  const logId = await log.logId()
  const session = await openSession(pool, `farebox reset ${group.name}`, 0)
  try {
    const { client } = session
    await ensureCheckpoint(client, group.name, logId)
    await client.query('begin')
    const checkpoint = (await readCheckpoint(client, group.name, 'for update')) as Checkpoint
    if (await isOfAnotherLog(log, checkpoint)) {
      await group.work?.reset(client)
      await client.query(
        `update engine.checkpoints set epoch = epoch + 1, position = 0, log_id = $2::text, last_event = null,
           lineage = gen_random_uuid() where name = $1::text`,
        [group.name, logId],
      )
    }
    await client.query('commit')
  } finally {
    await session.close() // rolls back a transaction that is still open
  }
}

/**
 * Rebuilds the read models of these names, or all, one group after another.
 * @throws UnknownReadModel, and the errors of `rebuildGroup`
 */
export const rebuild = async (
  context: RebuildContext & {
    readonly groups: readonly ReadModelGroup[]
    /** Connections with the auditor's role, for its groups; default: `pool`. */
    readonly auditorPool?: pg.Pool
  },
  names: readonly string[] | 'all',
  options: RebuildOptions = {},
): Promise<readonly RebuildResult[]> => {
  const all = context.groups.flatMap((group) => group.models.map(({ name }) => name))
  const unknown = names === 'all' ? [] : names.filter((name) => !all.includes(name))
  if (unknown.length > 0)
    throw new UnknownReadModel(`there is no read model ${unknown.join(', ')}; there are ${all.join(', ')}`)
  const results: RebuildResult[] = []
  for (const group of context.groups) {
    const models = group.models.filter(({ name }) => names === 'all' || names.includes(name))
    if (group.work && names === 'all' && !options.compareOnly) await resetWork(context, group)
    const pool = (group.audits && context.auditorPool) || context.pool
    if (models.length > 0) results.push(await rebuildGroup({ ...context, pool }, group, models, options))
  }
  return results
}

export class UnknownReadModel extends Error {
  override readonly name = 'UnknownReadModel'
}
