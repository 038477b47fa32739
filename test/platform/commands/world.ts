import type { TestContext } from 'node:test'
import type pg from 'pg'
import type { Snapshot, SnapshotStore } from '../../../src/platform/commands/command.ts'
import { createPostgresStreamLocks } from '../../../src/platform/commands/contention.ts'
import { createPostgresSnapshots } from '../../../src/platform/commands/snapshots.ts'
import type { AppendItem, EventLog, ItemOutcome } from '../../../src/platform/eventstore/port.ts'
import { clientConfig } from '../../../src/platform/postgres/pool.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { openLog } from '../eventstore/open-postgres.ts'

// What tests of other modules need to run their commands in tests.
export { codec, runnerOver } from './purse.ts'

type AppendAll = EventLog['appendAll']

/** The log behind a wire that a test holds in its hand: `appendAll` and `readStreams` can be replaced at any time. */
export type WiredLog = EventLog & {
  onAppendAll: (items: readonly AppendItem[], send: AppendAll) => Promise<readonly ItemOutcome[]>
  onReadStreams: EventLog['readStreams']
  /** Every item sent, in order. */
  readonly sent: AppendItem[]
  reads: number
}

export const wired = (log: EventLog): WiredLog => {
  const wire: WiredLog = {
    ...log,
    sent: [],
    reads: 0,
    onAppendAll: (items, send) => send(items),
    onReadStreams: log.readStreams,
    appendAll(items) {
      wire.sent.push(...items)
      return wire.onAppendAll(items, log.appendAll)
    },
    readStreams(tails, limitEach) {
      wire.reads++
      return wire.onReadStreams(tails, limitEach)
    },
  }
  return wire
}

export const unknownOutcomes = (items: readonly AppendItem[]): readonly ItemOutcome[] =>
  items.map(() => ({ status: 'unknown', cause: new Error('the answer was lost'), landed: [] }))

export const unavailableOutcomes = (items: readonly AppendItem[]): readonly ItemOutcome[] =>
  items.map(() => ({ status: 'unavailable', cause: new Error('no connection'), landed: [] }))

/** A door that a test opens when it likes. */
export const gate = (): { readonly passed: Promise<void>; open(): void } => {
  let open = (): void => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open: () => open() }
}

export const locksOn = (t: TestContext, { pool, url }: { pool: pg.Pool; url: string }) => {
  const connection = clientConfig({ url, applicationName: 'farebox-test-locks' })
  const locks = createPostgresStreamLocks({ pool, connection })
  t.after(() => locks.close())
  return locks
}

/** A real log on a fresh Postgres, behind a wire, and another connection to it as an operator's process has. */
export const postgresWorld = async (t: TestContext) => {
  const { url, pool } = await testDatabase(t)
  const opened = async (): Promise<EventLog> => {
    const log = await openLog(url)
    t.after(() => log.close())
    return log
  }
  return { url, pool, wire: wired(await opened()), elsewhere: await opened() }
}

/** Sends a wire's reads of streams to another process's log, and records the first revision of each. */
export const beginningsOfReads = (wire: WiredLog, elsewhere: EventLog): number[] => {
  const begun: number[] = []
  wire.onReadStreams = (tails) => {
    begun.push(...tails.map(({ from }) => from))
    return elsewhere.readStreams(tails)
  }
  return begun
}

const keys = { master: masterKey(Buffer.alloc(32, 7)) }

/**
 * The snapshots of a world.
 * @param onForged receives the log line of a forged one
 */
export const snapshotsIn = (pool: pg.Pool, onForged: (message: string) => void = () => {}): SnapshotStore =>
  createPostgresSnapshots({ pool, keys, logger: { error: (_fields, message) => onForged(message) } })

/** Signs the present snapshots: as if the service had written the test's change. */
export const signAgain = async (pool: pg.Pool): Promise<void> => {
  const { rows } = await pool.query<Snapshot>(
    `delete from engine.snapshots returning stream, fold, log_id as "logId", version, revision,
       event_id as "eventId", recorded_at_ms as "recordedAtMs", state`,
  )
  for (const row of rows) await snapshotsIn(pool).save(row)
}

/** Waits until the world's one snapshot is at this revision or a later one. */
export const snapshotFrom = async (pool: pg.Pool, revision: number): Promise<void> => {
  const text = 'select from engine.snapshots where revision >= $1::bigint'
  await until(async () => (await pool.query(text, [revision])).rowCount === 1)
}
