import { setTimeout as sleep } from 'node:timers/promises'
import type { Session } from '../../src/platform/postgres/session.ts'
import { type Checkpoint, readCheckpoint } from './checkpoint.ts'
import { definitionsOf } from './definition.ts'
import type { ReadModel } from './read-model.ts'
import { qualified } from './table-sql.ts'

/** Where new tables stand: what their group's checkpoint becomes. */
export type Settled = Pick<Checkpoint, 'position' | 'lastEvent'>

export type Exchange = {
  readonly session: Session
  readonly group: string
  readonly models: readonly ReadModel[]
  /** The models are all that the group has from now on. */
  readonly whole: boolean
  readonly schema: string
  readonly logId: string
  /** The live tables are of another log, or of another past of this one. */
  readonly foreign: boolean
  /**
   * Called under the locks with the checkpoint: brings the new tables to where the group is to stand and returns that
   * place, or null when they are too far behind to do it while readers wait.
   */
  readonly settle: (checkpoint: Checkpoint) => Promise<Settled | null>
}

/** SQLSTATEs of a lock that was not free in time, and of a deadlock: readers lock tables in orders of their own. */
const lockFailures = ['55P03', '40P01']

/** The live tables that go: those of the models, and what they had before. */
const existing = async ({ session, models }: Exchange): Promise<readonly string[]> => {
  const { rows } = await session.client.query<{ name: string }>(
    `select format('read.%I', tablename) as name from pg_tables
     where schemaname = 'read' and tablename = any ($1::text[])`,
    [models.flatMap(({ tables, formerTables = [] }) => [...tables.map(({ name }) => name), ...formerTables])],
  )
  return rows.map(({ name }) => name)
}

const attempt = async (exchange: Exchange, lockTimeoutMs: number): Promise<number | null> => {
  const { session, group, models, whole, schema, logId, foreign, settle } = exchange
  const { client } = session
  await client.query('begin')
  try {
    await client.query(`set local lock_timeout = ${lockTimeoutMs}`)
    // The checkpoint before the tables, as a batch of the runner takes them; the other way round the two would deadlock.
    const checkpoint = await readCheckpoint(client, group, 'for update')
    if (!checkpoint) throw new Error(`group ${group} has no checkpoint`)
    const live = await existing(exchange)
    const made = models.flatMap((model) => model.tables.map((table) => qualified(schema, table)))
    // The new tables too: once `settle` has folded into them, nothing may be left to wait for.
    await client.query(`lock table ${[...live, ...made].join(', ')} in access exclusive mode`)
    await client.query('set local lock_timeout = 0')
    const settled = await settle(checkpoint)
    if (settled === null) {
      await client.query('rollback')
      return null
    }
    for (const name of live) await client.query(`drop table ${name}`)
    for (const name of made) await client.query(`alter table ${name} set schema read`)
    await client.query(
      `update engine.checkpoints set epoch = epoch + 1, position = $2::bigint, log_id = $3::text,
         definitions = case when $7::boolean then '{}'::jsonb else definitions end || $4::jsonb,
         last_event = $5::uuid,
         lineage = case when $6::boolean then gen_random_uuid() else lineage end
       where name = $1::text`,
      [
        group,
        settled.position,
        logId,
        JSON.stringify(definitionsOf(models)),
        settled.lastEvent,
        foreign,
        whole,
      ],
    )
    await client.query('commit')
    return settled.position
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

/** How long readers may queue behind one attempt. From the deadlock timeout (1 s) on, an autovacuum gives way. */
const lockTimeouts = [100, 200, 400, 800, 1600]
const maxAttempts = 100

/**
 * Puts the new tables in the place of the live ones, in one transaction. Readers wait for some milliseconds and then
 * find the new tables; the group's owner meets a new epoch, forgets its cached rows and goes on. Retries while other
 * sessions hold the tables; resolves to null when `settle` gave null.
 */
export const exchangeTables = async (exchange: Exchange): Promise<number | null> => {
  for (let count = 0; ; count += 1) {
    try {
      return await attempt(exchange, lockTimeouts[count % lockTimeouts.length] ?? 100)
    } catch (error) {
      if (!lockFailures.includes((error as { code?: string }).code ?? '')) throw error
      if (count >= maxAttempts)
        throw new Error(
          `other sessions keep the tables of group ${exchange.group} locked: end long transactions (pg_stat_activity) and rebuild again`,
          { cause: error },
        )
      await sleep(50 + Math.random() * 250)
    }
  }
}
