import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { allMigrations } from '../../../src/app/migrations.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { startEmbeddedPostgres } from '../../../src/platform/postgres/embedded.ts'
import { migrate } from '../../../src/platform/postgres/migrate.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { createReads, ReadsBehind } from '../../../src/platform/projections/read-your-writes.ts'
import { atEnd } from '../../support/cleanup.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { until } from '../../support/until.ts'
import { createEngine, startEngine, stateOf } from './engine.ts'
import { appendToLedger, both } from './tally.ts'

const account = 'acc_reader' as AccountId

/** A separate Postgres. `stopWriter` stops the process that writes commits to disk for which no session waits. */
const forgetfulPostgres = async (t: TestContext) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-lost-commits-'))
  atEnd(t, () => rm(dataDir, { recursive: true, force: true }))
  const server = await startEmbeddedPostgres({ dataDir, settings: { fsync: 'off', wal_writer_delay: '10s' } })
  atEnd(t, () => server.stop())
  const pool = createPool({ url: server.ownerUrl, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  await migrate(pool, allMigrations)
  const stopWriter = async (): Promise<{ resume(): void }> => {
    const { rows } = await pool.query<{ pid: number }>(
      `select pid from pg_stat_activity where backend_type = 'walwriter'`,
    )
    const { pid } = rows[0]!
    process.kill(pid, 'SIGSTOP')
    return { resume: () => void process.kill(pid, 'SIGCONT') }
  }
  return { pool, stopWriter }
}

/**
 * Ends a backend as the system does when memory runs out: Postgres ends all others, and restarts from the
 * disk.
 */
const crash = async (pool: pg.Pool, writer: { resume(): void }): Promise<void> => {
  const clients = [await pool.connect(), await pool.connect()]
  const ended = clients.map((client) => {
    client.on('error', () => undefined)
    return new Promise((resolve) => client.once('end', resolve))
  })
  const { rows } = await clients[0]!.query<{ pid: number }>('select pg_backend_pid() as pid')
  process.kill(rows[0]!.pid, 'SIGKILL')
  await Promise.all(ended)
  // A stopped process could not end.
  writer.resume()
  for (const client of clients) client.release(true)
  const answers = (): Promise<boolean> =>
    pool.query('select 1').then(
      () => true,
      () => false,
    )
  await until(answers, { timeoutMs: 20_000, what: 'Postgres, started over' })
}

const sumOf = async (pool: pg.Pool): Promise<unknown> => {
  const { rows } = await pool.query(`select sum from read.tallies where name = 'wallet'`)
  return rows[0]?.sum
}

test('rows that a crash of Postgres lost are not read as stored', async (t) => {
  const { pool, stopWriter } = await forgetfulPostgres(t)
  const log = createMemoryLog()
  const engines = [await startEngine(t, pool, log, [both]), await startEngine(t, pool, log, [both])]
  await until(() => engines.some((engine) => stateOf(engine, 'both') === 'owner'), { what: 'an owner' })
  const follower = createEngine(t, pool, log, [both])
  follower.progress.setUsable('both', true)
  const readers = [...engines, follower]
  const reads = readers.map((engine) =>
    createReads({ progress: engine.progress, log, group: 'both', timeoutMs: 5_000 }),
  )
  await appendToLedger(log, account)
  for (const each of reads) await each.settled(account)
  await pool.query('create table public.on_disk ()')
  const writer = await stopWriter()
  await appendToLedger(log, account)
  for (const each of reads) await each.settled(account)
  assert.equal(await sumOf(pool), 2)
  for (const engine of engines) await engine.pause()
  await crash(pool, writer)
  assert.equal(await sumOf(pool), 1, 'the second commit is lost')
  for (const reader of readers) {
    const impatient = createReads({ progress: reader.progress, log, group: 'both', timeoutMs: 100 })
    await assert.rejects(impatient.settled(account), ReadsBehind)
  }
  for (const engine of engines) engine.resume()
  for (const each of reads) {
    await each.settled(account)
    assert.equal(await sumOf(pool), 2)
  }
})
