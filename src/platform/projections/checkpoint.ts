import type pg from 'pg'
import type { EventLog } from '../eventstore/port.ts'
import type { Definitions } from './definition.ts'
import type { WorkFold } from './read-model.ts'

/** A row of engine.checkpoints: the position up to which a group is folded. */
export type Checkpoint = {
  readonly logId: string
  readonly position: number
  /** The id of the event at that position. Null at the start of the log, and if an older version stored none. */
  readonly lastEvent: string | null
  readonly epoch: number
  readonly definitions: Definitions
  /** The models of the group that are stopped, by name. */
  readonly stopped: Readonly<Record<string, StoppedModel>>
}

/**
 * A read model that could not apply an event. Its tables cannot be read until they are rebuilt, and the other models of
 * its group continue.
 */
export type StoppedModel = {
  /** The position of the event. */
  readonly position: number
  /** Names the model, the event and the cause. */
  readonly error: string
  readonly at: string
}

type CheckpointRow = {
  log_id: string
  position: number
  last_event: string | null
  epoch: number
  definitions: Definitions
  stopped: Checkpoint['stopped']
}

const columns = 'log_id, position, last_event, epoch, definitions, stopped'

const fromRow = (row: CheckpointRow): Checkpoint => ({
  logId: row.log_id,
  position: row.position,
  lastEvent: row.last_event,
  epoch: row.epoch,
  definitions: row.definitions,
  stopped: row.stopped,
})

type Queries = Pick<pg.ClientBase, 'query'> | pg.Pool

/** The group's checkpoint, or null before its first start. `lock` locks the row until the transaction ends. */
export const readCheckpoint = async (
  db: Queries,
  group: string,
  lock: 'for update' | '' = '',
): Promise<Checkpoint | null> => {
  const { rows } = await db.query<CheckpointRow>(
    `select ${columns} from engine.checkpoints where name = $1::text ${lock}`,
    [group],
  )
  return rows[0] ? fromRow(rows[0]) : null
}

/** The stopped models of all groups. */
export const readStoppedModels = async (
  db: Queries,
): Promise<readonly (StoppedModel & { readonly group: string; readonly model: string })[]> => {
  const { rows } = await db.query<StoppedModel & { group: string; model: string }>(
    `select name as group, key as model, (value ->> 'position')::bigint as position, value ->> 'error' as error,
       value ->> 'at' as at
     from engine.checkpoints, jsonb_each(stopped) order by name, key`,
  )
  return rows
}

/** A stopped model in messages for operators. */
export const stoppedText = ({
  model,
  position,
  error,
}: Awaited<ReturnType<typeof readStoppedModels>>[number]): string =>
  `the read model ${model} is stopped at position ${position}: ${error}`

/** What an operator does about a stopped model. */
export const stoppedRemedy =
  'upgrade to a version that can apply the event: its server fills the tables again'

/** Only the group's epoch, for frequent checks. Null before its first start. */
export const readEpoch = async (db: Queries, group: string): Promise<number | null> => {
  const { rows } = await db.query<{ epoch: number }>({
    name: 'farebox_epoch',
    text: 'select epoch from engine.checkpoints where name = $1::text',
    values: [group],
  })
  return rows[0]?.epoch ?? null
}

/** Inserts the checkpoint of a group that never ran: at the start of the log, without tables. */
export const ensureCheckpoint = async (db: Queries, group: string, logId: string): Promise<void> => {
  await db.query(
    `insert into engine.checkpoints (name, log_id, position, epoch, definitions)
     values ($1::text, $2::text, 0, 0, '{}') on conflict (name) do nothing`,
    [group, logId],
  )
}

/**
 * Records that this version fills the work tables of a group. The new epoch ends the ownership of an older version,
 * which would skip events that it does not support.
 */
export const claimWorkTables = async (
  db: Queries,
  group: string,
  { name, version }: WorkFold,
): Promise<void> => {
  await db.query(
    `update engine.checkpoints set epoch = epoch + 1,
       definitions = definitions || jsonb_build_object($2::text, jsonb_build_object('version', $3::integer))
     where name = $1::text and coalesce((definitions -> $2::text ->> 'version')::integer, 0) < $3::integer`,
    [group, name, version],
  )
}

/** Starts a new epoch. Later batches of a former owner are rejected. */
export const startEpoch = async (db: Queries, group: string): Promise<Checkpoint> => {
  const { rows } = await db.query<CheckpointRow>(
    `update engine.checkpoints set epoch = epoch + 1 where name = $1::text
     returning ${columns}`,
    [group],
  )
  if (!rows[0]) throw new Error(`group ${group} has no checkpoint`)
  return fromRow(rows[0])
}

/** The read models belong to another log, or a newer program filled them. The message says what to do. */
export class ProjectionsRefused extends Error {
  override readonly name = 'ProjectionsRefused'
}

const remedy =
  'Connect the log that they belong to, or rebuild them from this one: npm run farebox -- projections rebuild all'

/**
 * Why read models at this checkpoint were not folded from this log as it is now; null if they were. The event id of
 * the checkpoint detects a log that was restored to an earlier point, even after it grew past the checkpoint.
 */
const foreignLogReason = async (
  log: Pick<EventLog, 'logId' | 'head' | 'eventAt'>,
  { logId, position, lastEvent }: Checkpoint,
): Promise<string | null> => {
  const ownId = await log.logId()
  if (logId !== ownId) return `were folded from the log ${logId}, but this log is ${ownId}`
  // The head is read after the checkpoint, because an owner in another process may advance the checkpoint.
  const head = await log.head()
  if (position > head)
    return `are at position ${position}, but the log ends at ${head}: it was restored from an older backup, or is not the one they were folded from`
  if (lastEvent === null) return null
  const found = await log.eventAt(position)
  if (found?.id === lastEvent) return null
  const actualEvent = found === null ? 'no event' : `event ${found.id}`
  return `end with event ${lastEvent} at position ${position}, but the log has ${actualEvent} there: it was restored from an older backup and went on from there, or it was changed (then "ledger verify" says where)`
}

/** Whether the read models at this checkpoint cannot be compared with this log. */
export const isOfAnotherLog = async (
  log: Pick<EventLog, 'logId' | 'head' | 'eventAt'>,
  checkpoint: Checkpoint,
): Promise<boolean> => (await foreignLogReason(log, checkpoint)) !== null

/**
 * @throws ProjectionsRefused if the checkpoint is of another log, past the head of this log, or of another history of
 * it
 */
export const refuseForeignLog = async (
  group: string,
  checkpoint: Checkpoint,
  log: Pick<EventLog, 'logId' | 'head' | 'eventAt'>,
): Promise<void> => {
  const reason = await foreignLogReason(log, checkpoint)
  if (reason !== null) throw new ProjectionsRefused(`the read models of group ${group} ${reason}. ${remedy}`)
}

/** For each table, whether it exists in schema `read`. */
export const tablesExist = async (db: Queries, names: readonly string[]): Promise<readonly boolean[]> => {
  const { rows } = await db.query<{ found: boolean }>(
    `select to_regclass('read.' || name) is not null as found
     from unnest($1::text[]) with ordinality as t (name, place) order by place`,
    [names],
  )
  return rows.map(({ found }) => found)
}
