import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openFarebox } from '../../src/app/compose.ts'
import { readConfig } from '../../src/app/config.ts'
import { createNotices } from '../../src/outbound/notices/service.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { openStage, operator } from '../contract/stage.ts'
import { httpClient } from '../support/http.ts'

const paths = [
  '/api/v1/me',
  '/api/v1/wallet/transactions',
  '/api/v1/orders',
  '/api/v1/orders?limit=1&offset=1',
  '/api/v1/plans',
  '/api/v1/proxies',
  '/api/v1/subscriptions',
  '/api/v1/announcements',
]

/** The same numbers from the same seed (Lehmer). */
const numbers = (seed: number) => () => {
  seed = (seed * 48_271) % 2_147_483_647
  return seed
}

test('law: what this process kept is what one that keeps nothing reads, after every write of either', async (t) => {
  const stage = await openStage(t)
  const { client, farebox } = stage
  const keeper = client
  const beside = await openFarebox({
    config: readConfig(stage.env),
    roles: ['http'], // it folds nothing, and so keeps nothing
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    logger: createLogger('fatal'),
    kill: () => assert.fail('no crash was asked for'),
  })
  t.after(() => beside.close())
  const other = httpClient(beside.baseUrl ?? '', stage.document)
  const buyers = [await stage.customer({ cents: 500_000 }), await stage.customer({ cents: 500_000 })]
  const next = numbers(20_261_121)
  const notices = createNotices(farebox.core)

  const read = async (reader: typeof client, key: string, after: number) => {
    const headers = { 'x-farebox-position': String(after) }
    const all = []
    for (const path of paths) {
      const answer = await reader.get(path, { key, headers })
      assert.equal(answer.status, 200, answer.text)
      all.push(answer.text)
    }
    return all
  }
  const some = async (list: string, field: string, id: string, key: string): Promise<string | undefined> => {
    const { body } = await keeper.get(list, { key })
    return body[field][next() % Math.max(1, body[field].length)]?.[id]
  }
  const rental = { country: 'USA', period_days: 30 }
  const writes: ((key: string, writer: typeof client) => Promise<unknown>)[] = [
    (key, writer) =>
      writer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 }, { key }),
    (key, writer) =>
      writer.post(
        '/api/v1/orders',
        { product_id: 'isp-static', quantity: 1, fulfillment_meta: rental },
        { key },
      ),
    async (key, writer) => {
      const id = await some('/api/v1/plans', 'plans', 'planId', key)
      if (id !== undefined)
        await writer.call('PATCH', `/api/v1/plans/${id}`, { key, json: { label: `l${next()}` } })
    },
    async (key, writer) => {
      const id = await some('/api/v1/proxies', 'proxies', 'proxyId', key)
      if (id !== undefined) await writer.call('PATCH', `/api/v1/proxies/${id}`, { key, json: { label: '' } })
    },
    (key, writer) =>
      writer.post(
        '/api/v1/subscriptions',
        { product_id: 'residential-premium', quantity: 1, interval: 'month' },
        { key },
      ),
    async () => {
      const noticeId = `ntc_${next()}` as never
      const words = { title: 'News', body: 'News.', kind: 'INFO', audience: 'ALL' } as const
      await notices.publish(
        { noticeId, ...words, expiresAt: null, linkHref: null, linkLabel: null },
        operator,
      )
    },
  ]
  for (let round = 0; round < 30; round += 1) {
    const buyer = buyers[next() % buyers.length]!
    await writes[next() % writes.length]!(buyer.key, next() % 2 === 0 ? keeper : other)
    const head = await farebox.core.log.head()
    for (const { key } of buyers)
      assert.deepEqual(await read(keeper, key, head), await read(other, key, head), `round ${round}`)
  }
})
