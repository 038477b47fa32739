import type { TestContext } from 'node:test'
import type pg from 'pg'
import { createDigestStore, type DigestStore } from '../../src/audit/seals/digests.ts'
import { chainToHead, openSealing, rotateSealKey } from '../../src/audit/seals/sealing.ts'
import { type SealKey, sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import { createPeriods } from '../../src/features/finance/period-service.ts'
import { utcCalendar } from '../../src/kernel/calendar.ts'
import { type Period, parsePeriod } from '../../src/kernel/months.ts'
import { sealStream } from '../../src/kernel/streams.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../src/platform/eventstore/port.ts'
import { makeEvents } from '../golden/make.ts'
import { runnerOver } from '../platform/commands/world.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { testDatabase } from '../support/postgres.ts'

export const cause = { correlationId: 'run_test', actor: { kind: 'operator', name: 'auditor' } } as const

/** A key that is the same in every run. */
export const testKey = (n = 1): SealKey => sealKeyOf(Buffer.alloc(32, n))

/** After the last of the events: a seal is made when they exist. */
export const startMs = Date.parse('2026-10-27T00:00:00.000Z')

/** Events of every kind except those of seals and months, which are about their own log. */
export const everyKind = async (): Promise<readonly StoredEvent[]> =>
  (await makeEvents())
    .filter(({ stream }) => stream !== sealStream && !stream.startsWith('period-'))
    .map(({ id, stream, revision, type, data, metadata }, at) => ({
      id,
      stream,
      revision,
      type,
      data: JSON.stringify(data),
      metadata: JSON.stringify(metadata),
      position: at + 1,
    }))

/** Appends events one by one, at the revisions they have. */
export const appendEach = async (log: EventLog, events: readonly StoredEvent[]): Promise<void> => {
  for (const { id, stream, revision, type, data, metadata } of events)
    await log.append(stream, revision === 0 ? 'noStream' : revision - 1, [{ id, type, data, metadata }])
}

export const allEvents = async (log: EventLog): Promise<StoredEvent[]> => {
  const events: StoredEvent[] = []
  for (let page = await log.readAll(0, 1000); page.length > 0; ) {
    events.push(...page)
    page = await log.readAll(page.at(-1)!.position, 1000)
  }
  return events
}

export type Audited = {
  readonly url: string
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly store: DigestStore
  /** Seals the log like a process that was just started. */
  seal(key?: SealKey): Promise<number | null>
}

/** A log on a fresh Postgres that can be sealed. */
export const auditWorld = async (t: TestContext): Promise<Audited> => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  return { url, pool, ...(await sealable(t, pool, log)) }
}

export const sealable = async (
  t: TestContext,
  pool: pg.Pool,
  log: EventLog,
): Promise<Omit<Audited, 'url' | 'pool'>> => {
  const store = createDigestStore(pool, await log.logId())
  return {
    log,
    store,
    seal: async (key = testKey()) => {
      const runner = runnerOver(log, { clock: () => startMs })
      t.after(() => runner.close())
      const sealing = await openSealing({ log, runner, store, key, clock: () => startMs }, cause)
      await chainToHead(log, sealing.chain)
      const seal = await sealing.seal(cause)
      await runner.close()
      return seal?.throughOrdinal ?? null
    },
  }
}

const closeMonth = async (log: EventLog): Promise<void> => {
  const runner = runnerOver(log, { clock: () => startMs })
  const { decode } = createCodec()
  await createPeriods({ log, runner, decode, calendar: utcCalendar }).close(
    parsePeriod('2026-07') as Period,
    cause,
  )
  await runner.close()
}

/** Events of every kind, with another key from the middle on; all but the last seal are sealed. */
export const sealedHistory = async ({ log, seal }: Pick<Audited, 'log' | 'seal'>): Promise<void> => {
  const events = await everyKind()
  await appendEach(log, events.slice(0, 40))
  await seal(testKey(1))
  const runner = runnerOver(log, { clock: () => startMs })
  const clock = (): number => startMs
  await rotateSealKey({ runner, clock, key: testKey(1), next: testKey(2) }, cause)
  await runner.close()
  await appendEach(log, events.slice(40))
  await closeMonth(log)
  await seal(testKey(2))
}

/** Changes the log as an owner of the database: the triggers do not fire. */
export const tamper = async (
  pool: pg.Pool,
  ...statements: (readonly [sql: string, values?: unknown[]])[]
) => {
  const client = await pool.connect()
  try {
    await client.query('begin; set local session_replication_role = replica')
    for (const [sql, values] of statements) await client.query(sql, values)
    await client.query('commit')
  } finally {
    client.release()
  }
}
