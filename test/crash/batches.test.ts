import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { hookTo } from '../features/webhooks/deliveries.ts'
import { startReceiver } from '../features/webhooks/receiver.ts'
import { done } from '../support/app-actions.ts'
import { atEnd } from '../support/cleanup.ts'
import { call, startFarebox } from '../support/farebox.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const event = 'scrape.batch.finished'

test('a finished batch sends one webhook, also if the service ends between its end, its record and its delivery', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const app = await testApp(t, { own: true })
  const pool = createPool({ url: app.env.DATABASE_URL!, applicationName: 'farebox-test' })
  atEnd(t, () => pool.end())
  const customer = await app.customer({ cents: 1_000, scopes: ['buy', 'scrape'] })
  const { key } = customer
  const receiver = await startReceiver(t)
  const hook = await hookTo(app, receiver.url, [event], customer)
  assert.ok(await app.farebox.projecting.caughtUp(20_000))

  /** The events of a type about the batch. */
  const written = async (type: string) =>
    (await pool.query('select data from log.events where type = $1 and data like $2', [type, `%${batchId}%`]))
      .rowCount
  const batch = { platform: 'reddit', operation: 'subreddit', inputs: [{ subreddit: 'node' }] }
  // Nothing is folded, so the end of the batch is in the log, and its webhook is not.
  await app.farebox.projecting.pause()
  const { batchId } = (await done(app.client.post('/v1/scrape/batch', batch, { key }))).body
  await until(async () => (await written('ScrapeBatchFinished')) === 1, {
    timeoutMs: 30_000,
    what: 'the end',
  })
  await app.close()
  assert.equal(await written('WebhookEnqueued'), 0)
  // As if the service had ended before it noted the end in the row of the batch.
  await pool.query('update work.scrape_batches set finished_at = null where batch_id = $1', [batchId])

  receiver.answer(() => undefined)
  const second = await startFarebox(t, app.env)
  await until(() => receiver.received[0], { timeoutMs: 30_000, what: 'the webhook' })
  await second.kill()
  receiver.answer((response) => response.end('ok'))

  const third = await startFarebox(t, app.env)
  const deliveries = async () =>
    (await call(`${third.baseUrl}/api/v1/webhooks/${hook.id}/deliveries`, key)).body.deliveries
  await until(async () => (await deliveries())[0]?.status === 'succeeded', {
    timeoutMs: 60_000,
    what: 'the delivery',
  })
  await until(
    async () => {
      const { rows } = await pool.query('select finished_at from work.scrape_batches where batch_id = $1', [
        batchId,
      ])
      return rows[0].finished_at !== null
    },
    { timeoutMs: 30_000, what: 'the note of the end' },
  )
  assert.equal((await deliveries()).length, 1)
  assert.deepEqual([await written('ScrapeBatchFinished'), await written('WebhookEnqueued')], [1, 1])
  // The request that was not answered is repeated, with the same id.
  assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  assert.deepEqual(
    receiver.received.map(({ json }) => [json.event, json.resource, json.data.found]),
    receiver.received.map(() => [event, batchId, 1]),
  )
  await third.stop()
})
