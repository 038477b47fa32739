import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  deliveriesOf,
  hookTo,
  ping,
  startReactor,
  startWorker,
  untilDelivery,
} from '../features/webhooks/deliveries.ts'
import { startReceiver } from '../features/webhooks/receiver.ts'
import { testApp } from '../support/test-app.ts'

test('an operator lists waiting and abandoned work and retries it', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  const { core } = app
  const { cli } = app
  startReactor(t, app)
  const receiver = await startReceiver(t)
  let code = 410
  receiver.answer((response) => response.writeHead(code).end())
  const hook = await hookTo(app, receiver.url)
  const gone = await ping(app, hook)
  startWorker(t, app)
  await untilDelivery(app, hook, gone, ({ status }) => status === 'abandoned')
  await core.pool.query(`insert into work.messages (order_id, account_id, customer_id, notice, due_at, status, finished_at, result)
    values ('ord_1', 'acc_1', 'cus_1', 'placed', now(), 'dead', now(), 'given up: error 500')`)

  const { json } = await cli('work', 'queues')
  const deadOf = (queue: string) => json.queues.find((each: { queue: string }) => each.queue === queue).dead
  assert.deepEqual([deadOf('webhooks'), deadOf('messages'), deadOf('payment-callbacks')], [1, 1, 0])
  const [dead] = (await cli('work', 'dead', '--queue', 'webhooks')).json.items
  assert.deepEqual([dead.item, dead.owner, dead.result], [gone, hook.id, 'abandoned after 1 attempts'])
  assert.match(
    (await cli.text('work', 'dead', '--queue', 'messages')).out,
    /ord_1 placed +acc_1 +0 .* given up: error 500/,
  )

  code = 200
  const enabled = await app.client.call('PATCH', `/api/v1/webhooks/${hook.id}`, {
    key: hook.key,
    json: { status: 'active' },
  })
  assert.equal(enabled.status, 200, enabled.text)
  assert.deepEqual((await cli('work', 'retry', '--queue', 'webhooks', '--item', gone)).json, { retried: 1 })
  await untilDelivery(app, hook, gone, ({ status }) => status === 'succeeded')
  assert.equal((await deliveriesOf(app, hook)).length, 1)
  assert.deepEqual((await cli('work', 'retry', '--queue', 'messages', '--all')).json, { retried: 1 })
  const { rows } = await core.pool.query('select status, attempts from work.messages')
  assert.deepEqual(rows, [{ status: 'pending', attempts: 0 }])

  const unknown = await cli('work', 'dead', '--queue', 'jobs')
  assert.equal(unknown.code, 2)
  assert.match(unknown.out, /no queue is called \\"jobs\\"; there are webhooks, payment-callbacks/)
  assert.equal((await cli('work', 'retry', '--queue', 'messages')).code, 2)
})
