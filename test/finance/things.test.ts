import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rooms } from '../../src/cli-rooms.ts'
import { thingWord } from '../../src/finance/trail.ts'
import { playBusiness } from '../audit/business.ts'
import { allEvents } from '../audit/world.ts'
import { deskOf } from '../resellers/desk.ts'

/** Streams of things by what their ids begin with: of their own, or shared by many. */
const home: Readonly<Record<string, string>> = {
  ord: 'order',
  dep: 'deposit',
  sub: 'subscription',
  pln: 'plan',
  ntc: 'notice',
  prx: 'stock',
  ref: 'order',
  crd: 'terms',
  whs: 'webhooks',
  key: 'account',
}
const shared = new Set(['prx', 'ref', 'crd', 'whs', 'key'])

/** The ids of things that an event names, in its data only. */
const idsIn = (value: unknown): readonly string[] => {
  if (typeof value === 'string') return thingWord(value) !== null ? [value] : []
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(idsIn) : []
}

test('every thing that the log names by an id is explained by it', async (t) => {
  const shop = await playBusiness(t)
  const { core } = shop.farebox
  const run = deskOf(core, rooms)
  const { key } = await shop.customer({ cents: 10_000 })
  const subscription = await shop.client.post(
    '/api/v1/subscriptions',
    { product_id: 'residential-premium', quantity: 1, interval: 'month' },
    { key, headers: { 'Idempotency-Key': 'monthly' } },
  )
  assert.equal(subscription.status, 201, subscription.text)
  const hook = await shop.client.post('/api/v1/webhooks', { url: 'http://127.0.0.1:9/gone' }, { key })
  assert.equal((await shop.client.call('DELETE', `/api/v1/webhooks/${hook.body.id}`, { key })).status, 204)

  const placed = await shop.client.post(
    '/api/v1/orders',
    { product_id: 'residential-premium', quantity: 5 },
    { key },
  )
  assert.equal((await run('orders', 'refund', '--order', placed.body.orderId, '--cents', '100')).code, 0)

  const events = (await allEvents(core.log)).map(({ data, ...event }) => ({
    ...event,
    data: JSON.parse(data),
  }))
  const ids = [...new Set(events.flatMap(({ data }) => idsIn(data)))]
  const byPrefix = Map.groupBy(ids, (id) => id.slice(0, 3))
  assert.deepEqual([...byPrefix.keys()].sort(), Object.keys(home).sort())
  for (const [prefix, found] of byPrefix)
    for (const id of new Set([...found.slice(0, 2), ...found.slice(-2)])) {
      const { code, err, json } = await run('ledger', 'explain', id, '--limit', '1000')
      assert.equal(code, 0, `${id}: ${err}`)
      assert.equal(json.leftOut, 0, id)
      const chain = json.chain.map(({ position }: { position: number }) => position)
      const wanted = events.filter(
        ({ stream, data }) =>
          stream === `${home[prefix]}-${id}` ||
          (stream.startsWith(`${home[prefix]}-`) && idsIn(data).includes(id) && shared.has(prefix)),
      )
      assert.ok(wanted.length > 0, id)
      for (const { position, type } of wanted)
        assert.ok(chain.includes(position), `${id}: ${type} is missing`)
    }
  const [deposit = ''] = byPrefix.get('dep') ?? []
  const { json: short } = await run('ledger', 'explain', deposit, '--limit', '2')
  const { json: whole } = await run('ledger', 'explain', deposit)
  assert.equal(whole.leftOut, 0)
  assert.equal(short.leftOut, whole.chain.length - 2)
  assert.deepEqual(short.chain, whole.chain.slice(-2))
})
