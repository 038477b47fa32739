import type pg from 'pg'
import type { Snapshot, SnapshotStore } from './ports.ts'

const loadSql = `
  select s.stream, s.fold, s.log_id as "logId", s.version, s.revision, s.event_id as "eventId",
    s.recorded_at_ms as "recordedAtMs", s.state
  from unnest($1::text[], $2::text[], $3::text[], $4::integer[]) as wanted (stream, fold, log_id, version)
  join engine.snapshots s using (stream, fold, log_id, version)`

// Of one log and version only a newer state replaces an older one: several processes snapshot the same stream.
const saveSql = `
  insert into engine.snapshots as kept (stream, fold, log_id, version, revision, event_id, recorded_at_ms, state)
  values ($1::text, $2::text, $3::text, $4::integer, $5::bigint, $6::text, $7::bigint, $8::text)
  on conflict (stream, fold) do update
  set log_id = excluded.log_id, version = excluded.version, revision = excluded.revision,
    event_id = excluded.event_id, recorded_at_ms = excluded.recorded_at_ms, state = excluded.state
  where (kept.log_id, kept.version) <> (excluded.log_id, excluded.version) or kept.revision < excluded.revision`

/** Also of older versions of a fold: an upgrade makes a first command slowest. */
const busySql = `
  select stream, fold from engine.snapshots
  where log_id = $1::text and fold = any($2::text[])
  order by recorded_at_ms desc, stream limit $3::int`

/** The streams that were written to last among those that were ever busy enough for a snapshot, the newest first. */
export const busyStreams = async (
  pool: pg.Pool,
  logId: string,
  folds: readonly string[],
  limit: number,
): Promise<readonly Pick<Snapshot, 'stream' | 'fold'>[]> => {
  const { rows } = await pool.query<Pick<Snapshot, 'stream' | 'fold'>>(busySql, [logId, folds, limit])
  return rows
}

/** Snapshots in `engine.snapshots`. Its errors are the pool's; the command runner goes on without snapshots then. */
export const createPostgresSnapshots = (pool: pg.Pool): SnapshotStore => ({
  async load(keys) {
    const columns = [
      keys.map(({ stream }) => stream),
      keys.map(({ fold }) => fold),
      keys.map(({ logId }) => logId),
      keys.map(({ version }) => version),
    ]
    const { rows } = await pool.query<Snapshot>({ name: 'load-snapshots', text: loadSql, values: columns })
    return rows
  },
  async save({ stream, fold, logId, version, revision, eventId, recordedAtMs, state }) {
    await pool.query(saveSql, [stream, fold, logId, version, revision, eventId, recordedAtMs, state])
  },
})
