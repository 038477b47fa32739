import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import type { Migrations } from '../postgres/migrate.ts'
import type { MasterKey } from '../vault/keys.ts'
import { createRowSigner } from '../vault/seal.ts'
import type { CommandRunnerDependencies, RunnerLimits, Snapshot, SnapshotStore } from './command.ts'
import type { FoldPoint, Slot } from './fold-cache.ts'

/**
 * Snapshots of folds. They can be deleted at any time (`truncate engine.snapshots`). States are JSON texts, so that
 * Postgres neither parses nor rewrites them.
 */
export const migrations: Migrations = {
  '0110_snapshots': `
    create table engine.snapshots (
      stream text not null,
      fold text not null,
      log_id text not null,
      version integer not null,
      revision bigint not null,
      event_id text not null,
      recorded_at_ms bigint not null,
      state text not null,
      primary key (stream, fold)
    )`,
  // Earlier snapshots have no signature.
  '1780_signed_snapshots': `
    truncate engine.snapshots;
    alter table engine.snapshots add column signature bytea not null`,
}

const loadSql = `
  select s.stream, s.fold, s.log_id as "logId", s.version, s.revision, s.event_id as "eventId",
    s.recorded_at_ms as "recordedAtMs", s.state, s.signature
  from unnest($1::text[], $2::text[], $3::text[], $4::integer[]) as wanted (stream, fold, log_id, version)
  join engine.snapshots s using (stream, fold, log_id, version)`

// Several processes write snapshots of one stream. Only a newer state of the same log and version replaces an older
// state.
const saveSql = `
  insert into engine.snapshots as stored (stream, fold, log_id, version, revision, event_id, recorded_at_ms, state, signature)
  values ($1::text, $2::text, $3::text, $4::integer, $5::bigint, $6::text, $7::bigint, $8::text, $9::bytea)
  on conflict (stream, fold) do update
  set log_id = excluded.log_id, version = excluded.version, revision = excluded.revision,
    event_id = excluded.event_id, recorded_at_ms = excluded.recorded_at_ms, state = excluded.state,
    signature = excluded.signature
  where (stored.log_id, stored.version) <> (excluded.log_id, excluded.version) or stored.revision < excluded.revision`

/** Includes older versions of a fold, because the first command after an upgrade is the slowest. */
const busySql = `
  select stream, fold from engine.snapshots
  where log_id = $1::text and fold = any($2::text[])
  order by recorded_at_ms desc, stream limit $3::int`

/** The most recently written streams that have a snapshot, newest first. */
export const busyStreams = async (
  pool: pg.Pool,
  logId: string,
  folds: readonly string[],
  limit: number,
): Promise<readonly Pick<Snapshot, 'stream' | 'fold'>[]> => {
  const { rows } = await pool.query<Pick<Snapshot, 'stream' | 'fold'>>(busySql, [logId, folds, limit])
  return rows
}

type SignedSnapshot = Snapshot & { readonly signature: Buffer }

// Only the checked row: another process may have written a valid one since.
const removeSql =
  'delete from engine.snapshots where stream = $1::text and fold = $2::text and signature = $3::bytea'

/**
 * Snapshots in `engine.snapshots`. Errors are those of the pool; the command runner then continues without snapshots.
 * Each is signed with a key derived from the master key, because a forged state would let a wallet spend money that the
 * log does not have. A snapshot with a wrong signature is logged and removed, and its stream is read from the
 * beginning.
 */
export const createPostgresSnapshots = ({
  pool,
  keys,
  logger,
}: {
  readonly pool: pg.Pool
  readonly keys: { readonly master: MasterKey }
  readonly logger: Pick<CommandRunnerDependencies['logger'], 'error'>
}): SnapshotStore => {
  const signer = createRowSigner(keys.master, 'snapshot v1')
  const fieldsOf = ({ stream, fold, logId, version, revision, eventId, recordedAtMs, state }: Snapshot) => [
    stream,
    fold,
    logId,
    String(version),
    String(revision),
    eventId,
    String(recordedAtMs),
    sha256(state).toString('hex'),
  ]

  const isGenuine = (row: SignedSnapshot): boolean => signer.isSigned(fieldsOf(row), row.signature)

  return {
    async load(keysToLoad) {
      const columns = [
        keysToLoad.map(({ stream }) => stream),
        keysToLoad.map(({ fold }) => fold),
        keysToLoad.map(({ logId }) => logId),
        keysToLoad.map(({ version }) => version),
      ]
      const { rows } = await pool.query<SignedSnapshot>({
        name: 'load-signed-snapshots',
        text: loadSql,
        values: columns,
      })
      const genuine = new Set(rows.filter(isGenuine))
      for (const row of rows) {
        if (genuine.has(row)) continue
        const { stream, fold, signature } = row
        logger.error(
          { stream, fold },
          'a snapshot has a wrong signature: it is removed, and its stream is read from the beginning',
        )
        await pool.query(removeSql, [stream, fold, signature])
      }
      return [...genuine]
    },
    async save(snapshot) {
      const { stream, fold, logId, version, revision, eventId, recordedAtMs, state } = snapshot
      const signature = signer.sign(fieldsOf(snapshot))
      await pool.query(saveSql, [
        stream,
        fold,
        logId,
        version,
        revision,
        eventId,
        recordedAtMs,
        state,
        signature,
      ])
    },
  }
}

type Snapshotter = {
  /** Requests a snapshot if one is due. */
  consider(slot: Slot): void
  /** Writes snapshots of the slots with the most new events, until the time limit. */
  finish(slots: readonly Slot[]): Promise<void>
  /** Snapshots in the queue or in progress. */
  underWay(): number
}

type SnapshotterDependencies = Pick<CommandRunnerDependencies, 'log' | 'logger' | 'hooks'> & {
  readonly store: SnapshotStore | undefined
  readonly limits: RunnerLimits
  readonly monotonicMs: MonotonicClock
  readonly onIdle: () => void
}

type Due = { readonly slot: Slot; readonly point: FoldPoint }

/** Writes snapshots one after another. No append waits for a snapshot, and a failed one is only logged. */
export const createSnapshotter = (dependencies: SnapshotterDependencies): Snapshotter => {
  const { limits, store } = dependencies
  const waiting: Due[] = []
  /** Slots with a snapshot in the queue or in progress. */
  const requested = new Set<Slot>()
  let running = false

  const newEvents = ({ fold, point, snapshotRevision }: Slot): number =>
    fold.snapshot === undefined || point === null ? 0 : point.revision - snapshotRevision

  const isDue = (slot: Slot): boolean => {
    const { fold, point } = slot
    if (fold.snapshot === undefined || point === null) return false
    const { everyEvents } = fold.snapshot
    const events = newEvents(slot)
    if (events <= (everyEvents ?? limits.snapshotMinEvents)) return false
    const isSoon = dependencies.monotonicMs() - slot.snapshotAtMs < limits.snapshotEveryMs
    if (everyEvents !== undefined) return !isSoon
    // The cost of a snapshot grows with its state. A snapshot is due after new events for half of the entries: each
    // order adds an entry, so a larger factor might never be reached. A large state gets one after an eighth of its
    // entries, to limit the events that a first command reads. The interval does not apply if twice as many events came
    // within it.
    const entries = fold.snapshot.entries(point.state)
    const tail = Math.max(limits.snapshotTailEvents, entries / 8)
    if (isSoon) return point.revision - slot.snapshotRequestRevision > 2 * tail
    return events > Math.min(entries / 2, tail)
  }

  const write = async (to: SnapshotStore, { slot, point }: Due): Promise<void> => {
    const { stream, fold } = slot
    try {
      const state = fold.snapshot!.toText(point.state)
      const logId = await dependencies.log.logId()
      dependencies.hooks?.at('before-snapshot')
      const { revision, eventId, recordedAtMs } = point
      await to.save({
        stream,
        logId,
        fold: fold.name,
        version: fold.version,
        revision,
        eventId,
        recordedAtMs,
        state,
      })
      dependencies.hooks?.at('after-snapshot')
      slot.snapshotRevision = Math.max(slot.snapshotRevision, revision)
    } catch (err) {
      dependencies.logger.warn({ err, stream }, 'a snapshot could not be written')
    }
  }

  const run = async (to: SnapshotStore): Promise<void> => {
    running = true
    for (let due = waiting.shift(); due !== undefined; due = waiting.shift()) {
      // Write it after the batch that made it due is answered.
      await new Promise((resolve) => setImmediate(resolve))
      await write(to, due)
      requested.delete(due.slot)
    }
    running = false
    dependencies.onIdle()
  }

  return {
    consider(slot) {
      if (store === undefined || waiting.length >= limits.snapshotQueue) return
      if (requested.has(slot) || !isDue(slot)) return
      slot.snapshotAtMs = dependencies.monotonicMs()
      slot.snapshotRequestRevision = slot.point!.revision
      requested.add(slot)
      waiting.push({ slot, point: slot.point! })
      if (!running) void run(store)
    },
    async finish(slots) {
      if (store === undefined) return
      const endMs = dependencies.monotonicMs() + limits.snapshotCloseMs
      const due = slots
        .filter((slot) => newEvents(slot) > limits.snapshotCloseEvents)
        .sort((a, b) => newEvents(b) - newEvents(a))
      for (const slot of due) {
        if (dependencies.monotonicMs() >= endMs) return
        await write(store, { slot, point: slot.point! })
      }
    },
    underWay: () => waiting.length + (running ? 1 : 0),
  }
}
