import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { startFarebox } from '../../support/farebox.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { bulkEndpoints, sameValues } from './bulk.ts'
import { eventsOf, publish, startReactor, valuesOf } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

const size = process.env.FAREBOX_SOAK ? 100_000 : 1_200

const notifiedOf = async (log: EventLog, noticeId: string): Promise<string[]> => {
  const events = await eventsOf(log, 'delivery-')
  return events
    .filter(
      ({ type, data }) => type === 'WebhookEnqueued' && (data as { resource: string }).resource === noticeId,
    )
    .map(({ data }) => (data as { endpointId: string }).endpointId)
    .sort()
}

test('a notice reaches every endpoint of its audience, enqueued once, even if processes crash halfway', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  const { log, pool } = app.core
  const receiver = await startReceiver(t)
  const values = { values: sameValues(valuesOf(app).store, receiver.url) }
  const customers = await bulkEndpoints(log, size, values)
  const partners = await bulkEndpoints(log, size / 4, {
    ...values,
    reseller: true,
    events: ['announcement.published'],
  })
  await bulkEndpoints(log, 50, { ...values, events: ['order.fulfilled'] })
  await bulkEndpoints(log, 30, { ...values, keys: 0 })
  const noticeId = await publish(app, 'DEVELOPERS')
  await bulkEndpoints(log, 20, values)
  const forPartners = await publish(app, 'PARTNERS')
  const all = customers.length + 2 * partners.length
  const queued = async () =>
    (await pool.query('select count(*)::int as queued from work.webhook_deliveries')).rows[0].queued as number
  const untilQueued = (count: number) =>
    until(async () => (await queued()) >= count, {
      timeoutMs: 1_800_000,
      everyMs: 100,
      what: `${count} of ${all} deliveries`,
    })

  // Occasionally an append is lost after it landed, or before; then the reactor restarts from its tables.
  let appends = 0
  let deaths = 0
  const dying: EventLog = {
    ...log,
    appendAll: async (items) => {
      appends += 1
      if (appends % 24 === 7) {
        deaths += 1
        throw new Error('killed before it was written')
      }
      const outcomes = await log.appendAll(items)
      if (appends % 24 === 19) {
        deaths += 1
        throw new Error('killed after it was written')
      }
      return outcomes
    },
  }
  const reactor = startReactor(t, app, { log: dying })
  await untilQueued(Math.min(all / 4, 400))
  await reactor.stop()
  assert.ok(deaths >= 2, `it died ${deaths} times`)

  // Then whole processes, which send too.
  const env = { ...app.env, FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_DEMO: 'off' }
  const doomed = await startFarebox(t, env, ['reactors'])
  await untilQueued(all / 2)
  await doomed.kill()
  const half = await queued()
  assert.ok(half < all, `${half} of ${all} were enqueued at the kill`)
  await startFarebox(t, env, ['reactors'])
  await untilQueued(all)
  const pending = async () =>
    (await pool.query("select count(*)::int as left from work.webhook_deliveries where status = 'pending'"))
      .rows[0].left as number
  await until(async () => (await pending()) === 0, {
    timeoutMs: 1_800_000,
    everyMs: 100,
    what: 'the sending',
  })

  assert.deepEqual(await notifiedOf(log, noticeId), [...customers, ...partners].sort())
  assert.deepEqual(await notifiedOf(log, forPartners), [...partners].sort())
  const arrived = new Set(receiver.received.map(({ headers }) => headers['webhook-id']))
  assert.equal(arrived.size, all, 'each arrived')
  await until(
    async () => {
      const { rows } = await pool.query(
        `select announced_position = (select max(position) from read.webhook_announcements)
            and announced_endpoint is null as done from work.webhook_enqueuing`,
      )
      return rows[0]?.done
    },
    { what: 'the end of the lists' },
  )
  t.diagnostic(`${receiver.received.length} requests for ${all} deliveries; killed at ${half}`)

  const notice = receiver.received.find(({ json }) => json.resource === noticeId)!.json
  assert.equal(notice.event, 'announcement.published')
  assert.deepEqual(notice.data, {
    announcementId: noticeId,
    title: 'Maintenance',
    kind: 'MAINTENANCE',
    audience: 'DEVELOPERS',
  })
})
