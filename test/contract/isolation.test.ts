import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc, { runs } from '../support/fast-check.ts'
import type { Called } from '../support/http.ts'
import { type TestApp, testApp } from '../support/test-app.ts'
import { closedUrl } from './requests.ts'

type Whose = 'own' | 'foreign'
type Action =
  | { readonly kind: 'order'; readonly body: object; readonly name: string }
  | { readonly kind: 'topUp'; readonly whose: Whose; readonly at: number; readonly name: string }
  | { readonly kind: 'extend'; readonly whose: Whose; readonly at: number; readonly name: string }
  | { readonly kind: 'deposit'; readonly cents: number; readonly name: string }
  | { readonly kind: 'label'; readonly whose: Whose; readonly at: number; readonly label: string }
  | { readonly kind: 'read'; readonly whose: Whose; readonly at: number }
  | { readonly kind: 'hook'; readonly whose: Whose; readonly at: number; readonly made: boolean }
  | { readonly kind: 'subscribe'; readonly name: string }
  | { readonly kind: 'list'; readonly path: string; readonly whose: Whose; readonly at: number }

/** The same few names for both accounts: nothing of one may be found by the name of the other. */
const name = fc.integer({ min: 0, max: 99 }).map((n) => `order-${n}`)
const whose = fc.constantFrom<Whose>('own', 'foreign')
const at = fc.nat({ max: 50 })
const bodies = [
  { product_id: 'residential-premium', quantity: 1 },
  { product_id: 'residential-unlimited-day', quantity: 1 },
  { product_id: 'isp-static', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } },
  { product_id: 'ipv4-datacenter', quantity: 2, fulfillment_meta: { country: 'USA', period_days: 30 } },
]
const lists = [
  'orders',
  'orders?subscription_id={subscription}',
  'plans',
  'proxies',
  'proxies?order_id={order}',
  'proxies?format=txt',
  'wallet/transactions',
  'deposits',
  'webhooks',
  'subscriptions',
]

const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ kind: fc.constant('order' as const), body: fc.constantFrom(...bodies), name }),
  fc.record({ kind: fc.constant('topUp' as const), whose, at, name }),
  fc.record({ kind: fc.constant('extend' as const), whose, at, name }),
  fc.record({ kind: fc.constant('deposit' as const), cents: fc.constantFrom(1_000, 2_000), name }),
  fc.record({ kind: fc.constant('label' as const), whose, at, label: fc.constantFrom('acme', 'beta', '') }),
  fc.record({ kind: fc.constant('read' as const), whose, at }),
  fc.record({ kind: fc.constant('hook' as const), whose, at, made: fc.boolean() }),
  fc.record({ kind: fc.constant('subscribe' as const), name }),
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('list' as const), path: fc.constantFrom(...lists), whose, at }),
  },
)

const idPattern = /(?:ord|pln|prx|txn|acc|key|dep|whs|dlv|sub)_[0-9a-z]{8,}/g

/** One account: all ids that it ever received, and the resources that it may act upon. */
const party = (key: string) => ({ key, received: new Set<string>(), secrets: new Set<string>() })
type Party = ReturnType<typeof party>

const idsOf = ({ received }: Party, kind: string): readonly string[] =>
  [...received].filter((id) => id.startsWith(`${kind}_`))

const actOf = ({ client }: TestApp) => {
  /** A foreign thing must read like one that never was: the same answer but for the id and the request's own. */
  const asIfAbsent = (answer: Called, absent: Called, id: string, none: string): void => {
    const plain = ({ body: { requestId: _, ...body } }: Called, shown: string) =>
      JSON.stringify(body).replaceAll(shown, '')
    assert.deepEqual([answer.status, answer.body.code], [404, 'not_found'], answer.text)
    assert.deepEqual([absent.status, plain(absent, none)], [answer.status, plain(answer, id)])
  }

  return async (me: Party, other: Party, done: Action): Promise<void> => {
    const { key } = me
    const pick = (kind: string): string | undefined => {
      if (!('at' in done)) return undefined
      const ids = idsOf(done.whose === 'own' ? me : other, kind)
      return ids[done.at % Math.max(1, ids.length)]
    }
    const headers = 'name' in done ? { 'Idempotency-Key': done.name } : {}
    /** Sends for an id; for a foreign one also for an absent one, and compares. */
    const about = async (kind: string, send: (id: string, again?: boolean) => Promise<Called>) => {
      const id = pick(kind)
      if (id === undefined) return
      const answer = await send(id)
      if ('whose' in done && done.whose === 'foreign') {
        // A name of its own order is reported before the subject of the request.
        if (answer.body.code === 'idempotency_conflict') return
        const none = `${kind}_${'0'.repeat(32)}`
        asIfAbsent(answer, await send(none), id, none)
      } else hear(answer)
    }
    const hear = ({ status, text }: Called): void => {
      if (status >= 300) return
      for (const [id] of text.matchAll(idPattern)) me.received.add(id)
      for (const [, secret] of text.matchAll(/"password":"([^"]+)"/g)) me.secrets.add(secret ?? '')
      for (const [secret] of text.matchAll(/whsec_[A-Za-z0-9+/=]+/g)) me.secrets.add(secret)
    }
    switch (done.kind) {
      case 'order':
        return hear(await client.post('/api/v1/orders', done.body, { key, headers }))
      case 'subscribe':
        return hear(
          await client.post(
            '/api/v1/subscriptions',
            { product_id: 'residential-premium', quantity: 1, interval: 'month' },
            { key, headers },
          ),
        )
      case 'deposit':
        return hear(await client.post('/api/v1/deposits', { amount_cents: done.cents }, { key, headers }))
      case 'topUp':
        return about('pln', (id) =>
          client.post(`/api/v1/plans/${id}/topup`, { quantity: 1 }, { key, headers }),
        )
      case 'extend':
        return about('prx', (id) =>
          client.post('/api/v1/proxies/extend', { proxy_ids: [id], period_days: 30 }, { key, headers }),
        )
      case 'label': {
        const json = { label: done.label }
        await about('pln', (id) => client.call('PATCH', `/api/v1/plans/${id}`, { key, json }))
        return about('prx', (id) => client.call('PATCH', `/api/v1/proxies/${id}`, { key, json }))
      }
      case 'read':
        await about('pln', (id) => client.get(`/api/v1/plans/${id}`, { key }))
        await about('dep', (id) => client.get(`/api/v1/deposits/${id}`, { key }))
        await about('sub', (id) => client.get(`/api/v1/subscriptions/${id}`, { key }))
        if (done.at % 5 === 0)
          await about('sub', (id) => client.call('DELETE', `/api/v1/subscriptions/${id}`, { key }))
        return about('ord', (id) => client.get(`/api/v1/orders/${id}`, { key }))
      case 'hook': {
        if (done.made) hear(await client.post('/api/v1/webhooks', { url: closedUrl }, { key }))
        const hook = '/api/v1/webhooks'
        await about('whs', (id) => client.get(`${hook}/${id}/deliveries`, { key }))
        await about('whs', (id) => client.post(`${hook}/${id}/test`, undefined, { key }))
        await about('whs', (id) => client.post(`${hook}/${id}/rotate-secret`, undefined, { key }))
        const json = { events: ['ping'] }
        await about('whs', (id) => client.call('PATCH', `${hook}/${id}`, { key, json }))
        if (done.at % 3 > 0) return
        return about('whs', (id) => client.call('DELETE', `${hook}/${id}`, { key }))
      }
      case 'list': {
        const order = pick('ord') ?? 'ord_none'
        const subscription = pick('sub') ?? 'sub_none'
        const path = done.path.replace('{order}', order).replace('{subscription}', subscription)
        const answer = await client.get(`/api/v1/${path}`, { key })
        assert.equal(answer.status, 200, answer.text)
        if (done.path.includes('{subscription}') && done.whose === 'foreign')
          assert.deepEqual(answer.body.orders, [], "another account's subscription has no orders to see")
        if (done.path.includes('{order}') && done.whose === 'foreign')
          assert.deepEqual(answer.body.proxies, [], "another account's order has no addresses to see")
        return hear(answer)
      }
      default: {
        const unknown: never = done
        throw new Error(`unknown action ${JSON.stringify(unknown)}`)
      }
    }
  }
}

const common = (a: ReadonlySet<string>, b: ReadonlySet<string>) => [...a].filter((one) => b.has(one))

test("two accounts that use the same names never see each other's data", async (t) => {
  const app = await testApp(t, { own: true })
  const { demo, credit } = app
  const customer = await app.customer({ cents: 10_000_000 })
  await credit(demo.reseller.accountId, 10_000_000)
  const parties = [party(customer.key), party(demo.reseller.key)] as const
  const [first, second] = parties
  const act = actOf(app)
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(action, action), { maxLength: 20 }), async (pairs) => {
      for (const [one, other] of pairs) {
        await Promise.all([act(first, second, one), act(second, first, other)])
        assert.deepEqual(common(first.received, second.received), [], 'both received the same id')
        assert.deepEqual(common(first.secrets, second.secrets), [], 'both have one password')
      }
    }),
    { numRuns: runs(40, 400) },
  )
  for (const { received } of parties)
    for (const kind of ['ord', 'pln', 'prx', 'txn', 'dep', 'whs', 'dlv'])
      assert.ok(
        [...received].some((id) => id.startsWith(kind)),
        `nothing was seen of ${kind}`,
      )
  t.diagnostic(`${first.received.size} and ${second.received.size} ids were seen`)
})
