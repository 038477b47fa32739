import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import type { Migrations } from '../postgres/migrate.ts'
import type { MasterKey } from '../vault/keys.ts'
import { createRowSigner } from '../vault/seal.ts'
import type { FoldPoint, Slot } from './fold-cache.ts'
import { type Answers, isBlocked } from './pending-command.ts'
import type { Queue } from './queueing.ts'
import type { CommandRunnerDeps, RunnerLimits, Snapshot, SnapshotStore } from './runner-ports.ts'

/**
 * Snapshots of folds. They may be thrown away at any time (`truncate engine.snapshots`); states are JSON texts, so that
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
  // Nobody signed those of before.
  '1780_signed_snapshots': `
    truncate engine.snapshots;
    alter table engine.snapshots add column signature bytea not null`,
}

const loadSql = `
  select s.stream, s.fold, s.log_id as "logId", s.version, s.revision, s.event_id as "eventId",
    s.recorded_at_ms as "recordedAtMs", s.state, s.signature
  from unnest($1::text[], $2::text[], $3::text[], $4::integer[]) as wanted (stream, fold, log_id, version)
  join engine.snapshots s using (stream, fold, log_id, version)`

// Of one log and version only a newer state replaces an older one: several processes snapshot the same stream.
const saveSql = `
  insert into engine.snapshots as kept (stream, fold, log_id, version, revision, event_id, recorded_at_ms, state, signature)
  values ($1::text, $2::text, $3::text, $4::integer, $5::bigint, $6::text, $7::bigint, $8::text, $9::bytea)
  on conflict (stream, fold) do update
  set log_id = excluded.log_id, version = excluded.version, revision = excluded.revision,
    event_id = excluded.event_id, recorded_at_ms = excluded.recorded_at_ms, state = excluded.state,
    signature = excluded.signature
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

type SignedSnapshot = Snapshot & { readonly signature: Buffer }

// As it was when it was checked: another process may have written a right one since.
const removeSql =
  'delete from engine.snapshots where stream = $1::text and fold = $2::text and signature = $3::bytea'

/**
 * Snapshots in `engine.snapshots`. Its errors are the pool's; the command runner goes on without snapshots then. Each is
 * signed with a key of the master key: a state that somebody else wrote, or moved to another stream, would let a wallet
 * spend what the log does not have. It is logged, removed, and the stream is read from its beginning.
 */
export const createPostgresSnapshots = ({
  pool,
  keys,
  logger,
}: {
  readonly pool: pg.Pool
  readonly keys: { readonly master: MasterKey }
  readonly logger: Pick<CommandRunnerDeps['logger'], 'error'>
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
    async load(asked) {
      const columns = [
        asked.map(({ stream }) => stream),
        asked.map(({ fold }) => fold),
        asked.map(({ logId }) => logId),
        asked.map(({ version }) => version),
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
          'a snapshot was written by somebody else than the service: it is removed, and the stream is read from its beginning',
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

export type Snapshotter = {
  /** Has a snapshot taken when one is due. */
  consider(slot: Slot): void
  /** Takes those of the slots that would cost the next process most, as long as there is time. */
  finish(slots: readonly Slot[]): Promise<void>
  /** Snapshots that wait or are being written. */
  underWay(): number
}

type SnapshotterDeps = Pick<CommandRunnerDeps, 'log' | 'logger' | 'hooks'> & {
  readonly store: SnapshotStore | undefined
  readonly limits: RunnerLimits
  readonly monotonicMs: MonotonicClock
  readonly onIdle: () => void
}

type Due = { readonly slot: Slot; readonly point: FoldPoint }

/** Writes snapshots one after another, off the append path: an append never waits for one, and a failed one is only logged. */
export const createSnapshotter = (deps: SnapshotterDeps): Snapshotter => {
  const { limits, store } = deps
  const waiting: Due[] = []
  /** Those whose snapshot waits or is being written: a second one would say nearly the same. */
  const asked = new Set<Slot>()
  let running = false

  const newEvents = ({ fold, point, snapshotRevision }: Slot): number =>
    fold.snapshot === undefined || point === null ? 0 : point.revision - snapshotRevision

  const isDue = (slot: Slot): boolean => {
    const { fold, point } = slot
    if (fold.snapshot === undefined || point === null) return false
    const { everyEvents } = fold.snapshot
    const events = newEvents(slot)
    if (events <= (everyEvents ?? limits.snapshotMinEvents)) return false
    const isSoon = deps.monotonicMs() - slot.snapshotAtMs < limits.snapshotEveryMs
    if (everyEvents !== undefined) return !isSoon
    // A snapshot costs what its state holds, so a state doubles before the next one. Not more than that: each order leaves an
    // entry, and a wallet that had to get more new events than entries would never get its first. Where a doubling would
    // be too much to read, an eighth has to pay for it; and where orders come so fast that twice as much gathers within
    // the interval, the interval does not count.
    const entries = fold.snapshot.entries(point.state)
    const tail = Math.max(limits.snapshotTailEvents, entries / 8)
    if (isSoon) return point.revision - slot.snapshotAskedRevision > 2 * tail
    return events > Math.min(entries / 2, tail)
  }

  const write = async (to: SnapshotStore, { slot, point }: Due): Promise<void> => {
    const { stream, fold } = slot
    try {
      const state = fold.snapshot!.toText(point.state)
      const logId = await deps.log.logId()
      deps.hooks?.at('before-snapshot')
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
      deps.hooks?.at('after-snapshot')
      slot.snapshotRevision = Math.max(slot.snapshotRevision, revision)
    } catch (err) {
      deps.logger.warn({ err, stream }, 'a snapshot could not be written')
    }
  }

  const run = async (to: SnapshotStore): Promise<void> => {
    running = true
    for (let due = waiting.shift(); due !== undefined; due = waiting.shift()) {
      // The batch that made it due is answered first.
      await new Promise((resolve) => setImmediate(resolve))
      await write(to, due)
      asked.delete(due.slot)
    }
    running = false
    deps.onIdle()
  }

  return {
    consider(slot) {
      if (store === undefined || waiting.length >= limits.snapshotQueue) return
      if (asked.has(slot) || !isDue(slot)) return
      slot.snapshotAtMs = deps.monotonicMs()
      slot.snapshotAskedRevision = slot.point!.revision
      asked.add(slot)
      waiting.push({ slot, point: slot.point! })
      if (!running) void run(store)
    },
    async finish(slots) {
      if (store === undefined) return
      const endMs = deps.monotonicMs() + limits.snapshotCloseMs
      const due = slots
        .filter((slot) => newEvents(slot) > limits.snapshotCloseEvents)
        .sort((a, b) => newEvents(b) - newEvents(a))
      for (const slot of due) {
        if (deps.monotonicMs() >= endMs) return
        await write(store, { slot, point: slot.point! })
      }
    },
    underWay: () => waiting.length + (running ? 1 : 0),
  }
}

const sweepMs = 100

export type Sweeper = {
  /** Looks after the queue as long as something waits in it. */
  watch(): void
  stop(): void
}

/** Turns away commands that wait too long, so that no client waits without bound. */
export const createSweeper = (deps: {
  readonly limits: RunnerLimits
  readonly queue: Queue
  readonly answers: Answers
  readonly monotonicMs: MonotonicClock
}): Sweeper => {
  const { limits, queue, answers } = deps
  let timer: NodeJS.Timeout | undefined

  const sweep = (): void => {
    timer = undefined
    const now = deps.monotonicMs()
    const late = queue.take(queue.length(), (pending) => {
      const waitedMs = now - pending.arrivedMs
      return waitedMs > limits.queueWaitMs || (waitedMs > limits.frozenWaitMs && isBlocked(pending))
    })
    for (const pending of late)
      if (isBlocked(pending))
        answers.overload(pending, 'frozen', 'an earlier append of this stream has no outcome yet')
      else
        answers.overload(
          pending,
          'wait',
          `${pending.command.name} got no answer within ${limits.queueWaitMs / 1000} s: the log does not answer or is overloaded`,
        )
    watch()
  }
  const watch = (): void => {
    if (timer === undefined && queue.length() > 0) timer = setTimeout(sweep, sweepMs)
  }
  return { watch, stop: () => clearTimeout(timer) }
}
