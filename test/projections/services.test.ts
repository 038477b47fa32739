import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createNotices } from '../../src/features/notices/notice-service.ts'
import type { KeyId } from '../../src/kernel/ids.ts'
import { operate, operator } from '../support/operator.ts'
import { secondClient, testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

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

const rounds = process.env.FAREBOX_SOAK === '1' ? 30 : 8

/** The same numbers from the same seed (Lehmer). */
const numbers = (seed: number) => () => {
  seed = (seed * 48_271) % 2_147_483_647
  return seed
}

test('two services on one database', async (t) => {
  const app = await testApp(t, { own: true })
  const other = await secondClient(t, app)

  await t.test(
    'invariant: the projecting process and another one give the same answers, after every write of either',
    async () => {
      const { client: folding, farebox } = app
      const buyers = [await app.customer({ cents: 500_000 }), await app.customer({ cents: 500_000 })]
      const next = numbers(20_261_121)
      const notices = createNotices(farebox.core)

      const read = async (reader: typeof folding, key: string, after: number) => {
        const headers = { 'x-farebox-position': String(after) }
        const all = []
        for (const path of paths) {
          const answer = await reader.get(path, { key, headers })
          assert.equal(answer.status, 200, answer.text)
          all.push(answer.text)
        }
        return all
      }
      const some = async (
        list: string,
        field: string,
        id: string,
        key: string,
      ): Promise<string | undefined> => {
        const { body } = await folding.get(list, { key })
        return body[field][next() % Math.max(1, body[field].length)]?.[id]
      }
      const rental = { country: 'USA', period_days: 30 }
      const writes: ((key: string, writer: typeof folding) => Promise<unknown>)[] = [
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
          if (id !== undefined)
            await writer.call('PATCH', `/api/v1/proxies/${id}`, { key, json: { label: '' } })
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
      for (let round = 0; round < rounds; round += 1) {
        const buyer = buyers[next() % buyers.length]!
        await writes[next() % writes.length]!(buyer.key, next() % 2 === 0 ? folding : other)
        const head = await farebox.core.log.head()
        for (const { key } of buyers)
          assert.deepEqual(await read(folding, key, head), await read(other, key, head), `round ${round}`)
      }
    },
  )

  await t.test(
    'a process that missed the notifications of changes still applies new prices and revoked keys, and listens again',
    async () => {
      const { pool } = app.core
      const { accountId, key } = await app.customer({ cents: 1_000, reseller: true })
      const costOf = async (): Promise<number> => {
        const { body } = await other.get('/api/v1/products/residential-premium/price?quantity=5', { key })
        return body.yourCostCents
      }
      const discount = async (percent: string): Promise<void> => {
        const set = ['reseller', 'set', '--account', accountId, '--discount', percent]
        assert.equal((await operate(set, app.env)).code, 0)
      }
      const hearing = async (): Promise<number> =>
        (
          await pool.query(
            `select from pg_stat_activity where application_name = 'farebox hints' and datname = current_database()`,
          )
        ).rowCount ?? 0
      const full = await costOf()
      assert.equal(await hearing(), 1)
      // Deaf for as long as the test needs: no connection may be opened under its name.
      const deaf = setInterval(() => {
        pool
          .query(
            `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'farebox hints' and datname = current_database()`,
          )
          .catch(() => undefined)
      }, 5)
      try {
        await discount('10')
        await until(async () => (await costOf()) < full, { what: 'the new price' })
        const [keyId] = (await app.accounts.read(accountId, operator))!.keys.keys()
        await app.accounts.revokeKey(keyId as KeyId, operator)
        await until(async () => (await other.get('/api/v1/me', { key })).status === 401, { what: 'a 401' })
      } finally {
        clearInterval(deaf)
      }
      await until(async () => (await hearing()) === 1, { what: 'hearing again' })
    },
  )
})
