import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { allWorkers, serverWorkers } from '../../src/app/worker-list.ts'
import { completion } from '../../src/features/orders/complete-orders.ts'
import { createScheduler } from '../../src/platform/work/scheduler.ts'
import { triggerText } from '../../src/platform/work/worker.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

type Listed = {
  readonly name: string
  readonly per: string
  readonly processes: number
  readonly lastRun: null | {
    readonly startedAt: string
    readonly finishedAt: string | null
    readonly succeeded: boolean
    readonly failuresInARow: number
    readonly pid: number
  }
  readonly lastError: null | { readonly message: string; readonly at: string }
}

test('every worker has its own name and a one-sentence description', () => {
  const names = allWorkers.map(({ name }) => name)
  assert.equal(new Set(names).size, names.length)
  for (const { name, about } of allWorkers) {
    assert.match(name, /^[a-z]+(-[a-z]+)*$/)
    assert.match(about, /^[A-Z][^.]+$/, name)
  }
})

describe('farebox workers', async () => {
  test('lists all workers, with the last run and the last error of each', async (t) => {
    const { core, cli } = await testApp(t, { own: true, audits: true })
    const listed = async (): Promise<ReadonlyMap<string, Listed>> => {
      const { workers } = (await cli('workers')).json as { workers: readonly Listed[] }
      return new Map(workers.map((one) => [one.name, one]))
    }
    assert.deepEqual(
      [...(await listed()).keys()],
      allWorkers.map(({ name }) => name),
    )
    const expected = [
      'completion',
      'webhook-enqueue',
      'sealer',
      'traffic-sweep',
      'payment-callbacks',
      'queue-leases',
    ]
    const ran = await until(
      async () => {
        const all = await listed()
        return expected.every((name) => all.get(name)?.processes === 1) ? all : null
      },
      { what: 'the first reports' },
    )
    assert.equal(ran.get('completion')?.lastRun?.succeeded, true)
    assert.equal(ran.get('exit-probes')?.lastRun, null)

    // Another process on the same database, in which a worker fails.
    const beside = createScheduler({
      workers: serverWorkers,
      pool: core.pool,
      place: { host: 'another machine', pid: 7 },
      clock: core.clock,
      logger: core.logger,
    })
    t.after(beside.stop)
    const failing = beside.start(
      completion,
      async () => {
        throw new Error('the orders cannot be read')
      },
      { everyMs: 3_600_000 },
    )
    await assert.rejects(failing.runNow())
    const two = await until(
      async () => {
        const found = (await listed()).get('completion')
        return found?.processes === 2 ? found : null
      },
      { timeoutMs: 4_000, what: 'the report of the other process' },
    )
    assert.equal(two.lastRun?.pid, 7)
    assert.deepEqual([two.lastRun?.succeeded, two.lastRun?.failuresInARow], [false, 1])
    assert.equal(two.lastError?.message, 'the orders cannot be read')

    const { out } = await cli.text('workers')
    const lines = out.split('\n')
    assert.equal(lines.length, allWorkers.length + 1)
    for (const [at, worker] of allWorkers.entries())
      for (const part of [worker.name, worker.about, triggerText(worker)])
        assert.ok(lines[at + 1]?.includes(part), `${part}: ${lines[at + 1]}`)
    const row = lines.find((line) => line.startsWith('completion '))
    assert.match(
      row ?? '',
      /every 1 s to 20 s +server +2 +\S+Z +\d+ ms +failed 1x +\S+Z the orders cannot be read$/,
    )
    assert.match(lines.find((line) => line.startsWith('exit-probes ')) ?? '', /cluster +0 +never +- +- +-$/)
  })
})
