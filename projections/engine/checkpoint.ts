import type pg from 'pg'
import type { Definitions } from './definition.ts'

/** A row of engine.checkpoints: where a group stands. */
export type Checkpoint = {
  readonly logId: string
  readonly position: number
  readonly epoch: number
  readonly definitions: Definitions
}

type CheckpointRow = { log_id: string; position: number; epoch: number; definitions: Definitions }

const fromRow = (row: CheckpointRow): Checkpoint => ({
  logId: row.log_id,
  position: row.position,
  epoch: row.epoch,
  definitions: row.definitions,
})

type Queries = Pick<pg.ClientBase, 'query'> | pg.Pool

/** The group's checkpoint, or null before its first start. `lock` holds it until the transaction ends. */
export const readCheckpoint = async (
  db: Queries,
  group: string,
  lock: 'for update' | '' = '',
): Promise<Checkpoint | null> => {
  const { rows } = await db.query<CheckpointRow>(
    `select log_id, position, epoch, definitions from engine.checkpoints where name = $1::text ${lock}`,
    [group],
  )
  return rows[0] ? fromRow(rows[0]) : null
}

/** Makes the checkpoint of a group that never ran: at the start of the log, with no tables. */
export const ensureCheckpoint = async (db: Queries, group: string, logId: string): Promise<void> => {
  await db.query(
    `insert into engine.checkpoints (name, log_id, position, epoch, definitions)
     values ($1::text, $2::text, 0, 0, '{}') on conflict (name) do nothing`,
    [group, logId],
  )
}

/** Starts a new epoch: whatever a former owner still sends is refused from now on. */
export const raiseEpoch = async (db: Queries, group: string): Promise<Checkpoint> => {
  const { rows } = await db.query<CheckpointRow>(
    `update engine.checkpoints set epoch = epoch + 1 where name = $1::text
     returning log_id, position, epoch, definitions`,
    [group],
  )
  if (!rows[0]) throw new Error(`group ${group} has no checkpoint`)
  return fromRow(rows[0])
}

/** The read models do not belong to this log, or were made by a newer program. The message says what to do. */
export class ProjectionsRefused extends Error {
  override readonly name = 'ProjectionsRefused'
}

const remedy =
  'Connect the log that they belong to, or have them made anew from this one: npm run farebox -- projections rebuild all'

/** @throws ProjectionsRefused when the checkpoint is of another log or past the head of this one */
export const refuseForeignLog = (
  group: string,
  checkpoint: Checkpoint,
  logId: string,
  head: number,
): void => {
  if (checkpoint.logId !== logId)
    throw new ProjectionsRefused(
      `the read models of group ${group} were folded from the log ${checkpoint.logId}, but this log is ${logId}. ${remedy}`,
    )
  if (checkpoint.position > head)
    throw new ProjectionsRefused(
      `the read models of group ${group} are at position ${checkpoint.position}, but the log ends at ${head}: it was restored from an older backup, or is not the one they were folded from. ${remedy}`,
    )
}

/** Whether all these tables stand in schema `read`. */
export const tablesExist = async (db: Queries, names: readonly string[]): Promise<readonly boolean[]> => {
  const { rows } = await db.query<{ found: boolean }>(
    `select to_regclass('read.' || name) is not null as found
     from unnest($1::text[]) with ordinality as t (name, place) order by place`,
    [names],
  )
  return rows.map(({ found }) => found)
}
