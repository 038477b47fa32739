import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { newRunId, runVerification } from '../../src/audit/verification-runs.ts'
import { onWebhooks } from '../../src/features/webhooks/start-webhooks.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { createWorkers } from '../../src/platform/work/queue-workers.ts'
import { auditWorld, sealedHistory, testKey } from '../audit/world.ts'
import { buyPlan } from '../features/webhooks/causes.ts'
import { hookTo, startReactor, startWorker } from '../features/webhooks/deliveries.ts'
import { startReceiver } from '../features/webhooks/receiver.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { filesOnPath } from './paths.ts'

/**
 * How many files a reader opens to follow a request. The files are those of `src` that run code for it, without the
 * kernel and without background work (see paths.ts).
 */
const assertAtMost = (limit: number, path: readonly string[]): void =>
  assert.ok(
    path.length <= limit,
    `${path.length} files are on the path, more than ${limit}:\n${path.join('\n')}`,
  )

/** A run in which a cache expired, or a poll came between, has more files. The shortest run is the path. */
const assertShortest = async (
  limit: number,
  measure: (run: number) => Promise<readonly string[]>,
): Promise<void> => {
  let shortest = await measure(0)
  for (let run = 1; run < 20 && shortest.length > limit; run += 1) {
    const path = await measure(run)
    if (path.length < shortest.length) shortest = path
  }
  assertAtMost(limit, shortest)
}

describe('a path has few files:', () => {
  test('an order that the wallet pays, from the request to the answer', async (t) => {
    const { buyer } = await testApp(t, { own: true, roles: ['http'] })
    const order = async (name: string) => {
      const json = {
        product_id: 'isp-static',
        quantity: 1,
        fulfillment_meta: { country: 'USA', period_days: 30 },
      }
      const answer = await buyer.post('/api/v1/orders', json, { headers: { 'Idempotency-Key': name } })
      assert.equal(answer.status, 201, answer.text)
    }
    await assertShortest(40, (run) =>
      filesOnPath(
        () => order(`measured-${run}`),
        [],
        () => order(`warm-${run}`),
      ),
    )
  })

  test('a payment, from the callback of its provider to the credit of the wallet', async (t) => {
    const app = await testApp(t, { own: true, roles: ['http'] })
    const { core, features } = app.farebox
    // Of the workers only this one runs, so that the others do nothing meanwhile.
    const workers = createWorkers(core)
    const callbacks = features.deposits.takeCallbacks({ workers })
    t.after(async () => {
      await callbacks.stop()
      await workers.stop()
    })
    const { key } = await app.customer({ cents: 0 })
    const pay = async () => {
      const { deposit_id: depositId } = await app.openDeposit(key, { amount_cents: 2500 })
      return async () => {
        const before = await core.log.head()
        assert.equal((await app.act(depositId, 'pay')).status, 200)
        await until(async () => (await core.log.head()) > before, { what: 'the credit' })
      }
    }
    await (await pay())()
    // The log and the signatures of its events are counted on the path of an order.
    const log = ['src/platform/eventstore/', 'src/platform/postgres/', 'src/audit/']
    assertAtMost(30, await filesOnPath(await pay(), log))
  })

  test('a verification of a log with every kind of event', async (t) => {
    const world = await auditWorld(t)
    await sealedHistory(world)
    const { pool, log } = world
    const verify = async () => {
      const { result } = await runVerification(
        { pool, log, groups, logInPostgres: true, clock: Date.now, master: masterKey(Buffer.alloc(32, 7)) },
        {
          runId: newRunId(),
          actor: { kind: 'operator', name: 'test' },
          publicKey: testKey(1).publicKey,
          exported: null,
        },
      )
      assert.ok(result.events > 100)
    }
    await verify()
    // The rules that are checked: those of the business, and the invariants between events.
    assertAtMost(40, await filesOnPath(verify, ['src/domain/', 'src/audit/invariants/']))
  })

  test('a webhook, from the due row of an order to the recorded outcome', async (t) => {
    const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
    const { core, projecting } = app.farebox
    const receiver = await startReceiver(t)
    const customer = await app.customer({ cents: 100_000 })
    await hookTo(app, receiver.url, ['order.fulfilled'], customer)
    // The enqueuer of the measured delivery starts a round when the gate opens.
    let gate = Promise.resolve()
    const gated = {
      query: async (...query: Parameters<typeof core.pool.query>) => {
        await gate
        return core.pool.query(...query)
      },
    } as unknown as typeof core.pool
    startReactor(t, app, { pool: gated })
    const worker = startWorker(t, app)
    t.after(onWebhooks(projecting.progress, { due: [], queued: [worker.wake] }))
    const count = async (sql: string): Promise<number> => (await core.pool.query(sql)).rows[0].n
    const succeeded = (times: number) =>
      until(
        async () =>
          (await count(
            "select count(*)::integer as n from work.webhook_deliveries where status = 'succeeded'",
          )) === times,
        { what: `${times} deliveries` },
      )
    await buyPlan(app, customer)
    await buyPlan(app, customer)
    await succeeded(2)
    await assertShortest(20, async (run) => {
      const opening = Promise.withResolvers<void>()
      gate = opening.promise
      await buyPlan(app, customer)
      await until(
        async () =>
          (await count('select count(*)::integer as n from read.webhooks_due where not enqueued')) === 1,
        {
          what: 'a due row',
        },
      )
      return filesOnPath(async () => {
        opening.resolve()
        await succeeded(3 + run)
      }, [
        // The log, and the signature of each event.
        'src/platform/eventstore/',
        'src/app/',
        'src/audit/',
        // What folds the events into read tables and checks them, and what watches these tables.
        'src/domain/catalog/',
        'src/domain/finance/',
        'src/domain/ledger/',
        'src/domain/orders/decide-placement.ts',
        'src/domain/plans/',
        'src/features/finance/',
        'src/gateway/',
        'src/platform/commands/background-scheduler.ts',
        'src/platform/postgres/client.ts',
        'src/platform/postgres/pipeline.ts',
        // Other rounds of the enqueuer.
        'src/features/webhooks/cancel-deliveries.ts',
        'src/features/webhooks/fan-out.ts',
      ])
    })
  })
})
