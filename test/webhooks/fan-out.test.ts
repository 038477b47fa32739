import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EventLog } from '../../src/eventstore/port.ts'
import { newId } from '../../src/ids.ts'
import { createNotices } from '../../src/notices/service.ts'
import { operator, type Stage } from '../contract/stage.ts'
import { until } from '../support/until.ts'
import { bulkEndpoints } from './bulk.ts'
import { eventsOf, openHooks, startReactor } from './world.ts'

const size = process.env.FAREBOX_SOAK ? 100_000 : 1_200

const publish = async (stage: Stage, audience: 'ALL' | 'PARTNERS' | 'DEVELOPERS' | 'CUSTOMERS') => {
  const { core } = stage.farebox
  const notices = createNotices(core)
  const noticeId = newId<string>('ntc')
  const published = await notices.publish(
    {
      noticeId,
      title: 'Maintenance',
      body: 'On Sunday.',
      kind: 'MAINTENANCE',
      audience,
      expiresAt: null,
      linkHref: null,
      linkLabel: null,
    },
    operator,
  )
  assert.equal(published.outcome, 'decided')
  return noticeId
}

const toldOf = async (log: EventLog, noticeId: string): Promise<string[]> => {
  const events = await eventsOf(log, 'delivery-')
  return events
    .filter(
      ({ type, data }) => type === 'WebhookEnqueued' && (data as { resource: string }).resource === noticeId,
    )
    .map(({ data }) => (data as { endpointId: string }).endpointId)
    .sort()
}

test('a notice reaches every endpoint of its audience once, although the reactor dies again and again', async (t) => {
  const stage = await openHooks(t)
  const { log, pool } = stage.farebox.core
  const customers = await bulkEndpoints(log, size)
  const partners = await bulkEndpoints(log, size / 4, { reseller: true, events: ['announcement.published'] })
  await bulkEndpoints(log, 50, { events: ['order.fulfilled'] })
  const keyless = await bulkEndpoints(log, 30, { keys: 0 })
  const noticeId = await publish(stage, 'DEVELOPERS')
  const late = await bulkEndpoints(log, 20)
  const forPartners = await publish(stage, 'PARTNERS')

  // Now and then an append is lost after it landed, or before; then the reactor starts over from its tables.
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
  let reactor = startReactor(t, stage, { log: dying })
  const queued = async () =>
    (await pool.query('select count(*)::int as queued from work.webhook_deliveries')).rows[0].queued as number
  await until(async () => (await queued()) > size / 2, { timeoutMs: 1_200_000, everyMs: 100 })
  await reactor.stop()
  const half = (await toldOf(log, noticeId)).length
  assert.ok(half < size, `${half} were told before the stop`)
  reactor = startReactor(t, stage)
  const left = async () =>
    (await pool.query('select count(*)::int as left from work.webhook_fan_out_targets')).rows[0]
      .left as number
  await until(
    async () => (await left()) === 0 && (await queued()) === customers.length + 2 * partners.length,
    {
      timeoutMs: 1_200_000,
      everyMs: 200,
      what: 'the end of the fan-out',
    },
  )
  assert.deepEqual(await toldOf(log, noticeId), [...customers, ...partners].sort())
  assert.deepEqual(await toldOf(log, forPartners), [...partners].sort())
  assert.ok(deaths >= 3, `it died ${deaths} times`)
  assert.ok(keyless.length > 0 && late.length > 0)

  const [enqueued] = (await eventsOf(log, 'delivery-')).filter(({ type }) => type === 'WebhookEnqueued')
  assert.deepEqual((enqueued!.data as { data: unknown }).data, {
    announcementId: noticeId,
    title: 'Maintenance',
    kind: 'MAINTENANCE',
    audience: 'DEVELOPERS',
  })
})
