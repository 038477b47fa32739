import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { openLog } from '../eventstore/open-postgres.ts'
import { decode } from './engine.ts'
import { appendMany, both, type Fact } from './tally.ts'

const startProcess = (t: TestContext, url: string, ...args: readonly string[]) => {
  const child: ChildProcess = fork(join(import.meta.dirname, 'runner-process.ts'), [url, ...args])
  const states: string[] = []
  child.on('message', (state) => states.push(String(state)))
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  t.after(kill)
  return {
    states,
    kill,
    signal: (name: NodeJS.Signals) => child.kill(name),
    isDead: () => child.signalCode !== null,
  }
}

const addOnes = (count: number): Fact[] =>
  Array.from({ length: count }, (_, index): Fact => ({ kind: 'add', name: `n${index % 7}`, amount: 1 }))

const total = async (pool: pg.Pool): Promise<number> =>
  (await pool.query<{ sum: number }>('select coalesce(sum(sum), 0)::bigint as sum from read.tallies'))
    .rows[0]!.sum

const world = async (t: TestContext) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  return { url, pool, log }
}

test('a process killed inside a batch, before or while it commits, leaves only complete batches', async (t) => {
  const { url, pool, log } = await world(t)
  await startProcess(t, url).kill()
  let written = 0
  for (const point of ['projection-batch-folded', 'projection-batch-sent'])
    for (const pass of ['1', '4']) {
      const doomed = startProcess(t, url, '--point', point, '--pass', pass)
      await until(() => doomed.states.includes('owner'))
      await appendMany(log, addOnes(100))
      written += 100
      await until(() => doomed.isDead(), { what: `the end of the process at ${point}` })
      // In one statement: the batch that the dead process sent may land between two.
      const { rows } = await pool.query<{ position: number; sum: number }>(
        'select position, (select coalesce(sum(sum), 0)::bigint from read.tallies) as sum from engine.checkpoints',
      )
      assert.equal(rows[0]!.sum, rows[0]!.position)
      const heir = startProcess(t, url)
      await until(async () => (await total(pool)) === written)
      await heir.kill()
    }
  const [result] = await rebuild({ pool, log, decode, groups: [both] }, 'all', { compareOnly: true })
  assert.deepEqual(result?.differences, [])
})

test('when the owner is killed, a standby process continues within seconds', async (t) => {
  const { url, pool, log } = await world(t)
  const owner = startProcess(t, url)
  await until(() => owner.states.includes('owner'))
  const heir = startProcess(t, url)
  await until(() => heir.states.includes('standby'))
  await appendMany(log, addOnes(500))
  await until(async () => (await total(pool)) > 0)
  await owner.kill()
  const killedMs = performance.now()
  await until(() => heir.states.includes('owner'))
  assert.ok(performance.now() - killedMs < 20_000)
  await until(async () => (await total(pool)) === 500)
})

test('when the owner hangs, a standby process continues; the owner stops when it runs again', async (t) => {
  const { url, pool, log } = await world(t)
  const stopped = startProcess(t, url, '--answer-timeout-ms', '2000')
  await until(() => stopped.states.includes('owner'))
  const heir = startProcess(t, url)
  await until(() => heir.states.includes('standby'))
  stopped.signal('SIGSTOP')
  await appendMany(log, addOnes(500))
  await until(() => heir.states.includes('owner'))
  await until(async () => (await total(pool)) === 500)
  stopped.signal('SIGCONT')
  await until(() => stopped.states.at(-1) === 'standby')
  await appendMany(log, addOnes(100))
  await until(async () => (await total(pool)) === 600)
  assert.equal(heir.states.at(-1), 'owner')
})
