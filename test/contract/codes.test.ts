import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import type { AccountId } from '../../src/kernel/ids.ts'
import { done } from '../support/app-actions.ts'
import { declaredOf } from '../support/http.ts'
import { operator } from '../support/operator.ts'
import { secondClient, testApp } from '../support/test-app.ts'
import type { Case } from './case.ts'
import { orderlyCases, play } from './cases.ts'
import { keylessBlind, keylessCases, keylessLimited } from './keyless.ts'
import { goodRequests } from './requests.ts'
import { lateScrapeCases } from './scrape-cases.ts'
import { scraperListBlind, scraperListCases, scraperListLimited } from './scraper-list-cases.ts'
import { assertNoSecrets, assertSecured } from './secrets.ts'

/** Runs cases in order; those of an operation that follow each other are one test. */
const playAll = async (t: TestContext, cases: readonly Case[], played: Set<string>): Promise<void> => {
  for (let from = 0; from < cases.length; ) {
    const { operation } = cases[from]!
    const end = cases.findIndex((one, at) => at > from && one.operation !== operation)
    const some = cases.slice(from, end < 0 ? cases.length : end)
    await t.test(`${operation}: ${[...new Set(some.map(({ answer }) => answer))].join(', ')}`, async () => {
      for (const one of some) played.add(await play(one))
    })
    from += some.length
  }
}

const day = 86_400_000

/** Operations that are answered from the log and from work tables alone. */
const decidedAlone = [
  'setLowBalance',
  'getAutoTopup',
  'setAutoTopup',
  'removeAutoTopup',
  'createCardPage',
  'getResellerTerms',
  'updateResellerTerms',
  'setResellerPrice',
  'moveCustomerCredit',
  'createOrder',
  'createDeposit',
  'createWebhook',
  'deleteWebhook',
  'testWebhook',
  'listSeals',
  'listVerifications',
  'createSubscription',
  'cancelSubscription',
  'resetTrafficBudget',
  'removeTrafficBudget',
  'scrape',
  'scrapeBatch',
]

/** Operations that need nothing but their key. */
const fromMemory = [
  'getCustomerMovement',
  'listGeoCountries',
  'listGeoStates',
  'listGeoCities',
  'listGeoIsps',
  'listGeoAsns',
  'listScrapeBatches',
  'getScrapeBatch',
  'cancelScrapeBatch',
  'getScrapeBatchResult',
]

const holdings = {
  orderId: 'ord_none',
  waitingOrderId: 'ord_none',
  planId: 'pln_none',
  proxyId: 'prx_none',
  entryId: 'wle_none',
  budgetId: 'tbg_none',
  depositId: 'dep_none',
  webhookId: 'whs_none',
  subscriptionId: 'sub_none',
  deliveryId: 'dlv_none',
  customerId: 'cus_none',
  movementId: 'dep_none',
  batchId: 'scb_none',
}

test('every response that the interface description declares is returned', async (t) => {
  const clock = { aheadMs: 0 }
  const lines: string[] = []
  const app = await testApp(t, {
    own: true,
    with: ['financeToken'],
    systemClock: () => Date.now() + clock.aheadMs,
    settings: { LOG_LEVEL: 'trace' },
    logTo: new Writable({
      write: (chunk, _encoding, written) => {
        lines.push(String(chunk))
        written()
      },
    }),
  })
  const second = (settings: Readonly<Record<string, string | undefined>>) =>
    secondClient(t, app, { LOG_LEVEL: 'fatal', FAREBOX_SANDBOX_URL: undefined, ...settings })
  const { client, farebox, demo } = app
  const key = demo.buyer.key
  const played = new Set<string>()
  const good = goodRequests({
    ...holdings,
    resellerKey: demo.reseller.key,
    financeToken: app.financeToken,
    scraperKey: demo.scraper.key,
  })

  const { cases, prepared } = await orderlyCases(app)
  const secured = cases.map((one) => ({
    ...one,
    send: async () => {
      const answer = await one.send()
      assertSecured(one.operation, answer)
      return answer
    },
  }))
  await playAll(t, secured, played)

  await t.test('no log line, event or read table contains a secret', async (t) => {
    assert.ok(lines.length > cases.length, 'each request leaves a line')
    await assertNoSecrets(t, app, prepared, lines)
  })

  // For it the rentals have ended.
  const future = await second({ FAREBOX_CLOCK_OFFSET_MS: String(400 * day) })
  const unchecking = await second({
    FAREBOX_SANDBOX: 'off',
  })
  // A provider's refusal of our key or credits disables it for a while, in the process that got the refusal.
  const sandbox = { FAREBOX_SANDBOX_URL: demo.sandbox ?? undefined }
  const keyless = await second(sandbox)
  const broke = await second(sandbox)
  const unserved = await second({
    FAREBOX_DEMO: 'off',
    FAREBOX_SANDBOX: 'off',
    FAREBOX_RATE_LIMIT: undefined,
    FAREBOX_WEBHOOK_ALLOW_LOOPBACK: undefined,
    FAREBOX_GATEWAY_ALLOW_LOOPBACK: undefined,
    FAREBOX_SCRAPERS_KEY: 'unused',
  })
  const [rental] = prepared.bought.isp.proxyIds
  await playAll(
    t,
    [
      {
        operation: 'extendProxies',
        answer: '409 out_of_stock',
        how: 'a rental that has ended',
        send: () =>
          future.post(
            '/api/v1/proxies/extend',
            { proxy_ids: prepared.bought.isp.proxyIds.slice(0, 1), period_days: 30 },
            { key },
          ),
      },
      {
        operation: 'replaceProxy',
        answer: '409 rental_ended',
        how: 'a rental that has ended',
        send: () => future.post(`/api/v1/proxies/${rental}/replace`, { reason: 'low_speed' }, { key }),
      },
      {
        operation: 'checkProxy',
        answer: '409 rental_ended',
        how: 'a rental that has ended',
        send: () => future.get(`/api/v1/proxies/${rental}/check`, { key }),
      },
      {
        operation: 'checkProxy',
        answer: '409 check_not_available',
        how: 'a service without a target',
        send: () => unchecking.get(`/api/v1/proxies/${rental}/check`, { key }),
      },
      ...lateScrapeCases(app, { future, keyless, broke, unserved }),
    ],
    played,
  )

  await t.test('503: each operation, while required data is unavailable', async () => {
    await farebox.projecting.pause()
    await app.credit(demo.buyer.accountId, 100)
    await app.credit(demo.reseller.accountId, 100)
    await app.credit(demo.scraper.accountId, 100)
    const blind = [...decidedAlone, ...fromMemory]
    const reads = Object.entries(good).filter(([name]) => !blind.includes(name))
    const answers = reads.map(([operation, { method, path, ...options }]) =>
      play({
        operation,
        answer: '503 overloaded',
        how: 'the projections are paused',
        send: () => client.call(method, path, { key, ...options }),
      }),
    )
    for (const answer of await Promise.all(answers)) played.add(answer)
    farebox.projecting.resume()
  })

  await t.test(
    '503 overloaded: operations without a read model, while the clock of the process is wrong',
    async () => {
      const ending = await app.accounts.issueKey(
        {
          accountId: demo.buyer.accountId as AccountId,
          scopes: ['buy', 'scrape'],
          cap: null,
          expiresAtMs: Date.now() + day,
        },
        operator,
      )
      assert.ok(ending.outcome === 'done')
      await done(client.get('/api/v1/me', { key: ending.key }))
      clock.aheadMs = 10_000
      await farebox.core.clockGuard.check()
      for (const operation of [...decidedAlone, ...fromMemory]) {
        const { method, path, ...options } = good[operation]!
        // Whether a key has ended is not known then.
        const used = fromMemory.includes(operation) ? { ...options, key: ending.key } : { key, ...options }
        const send = () => client.call(method, path, used)
        played.add(await play({ operation, answer: '503 overloaded', how: 'wrong clock', send }))
      }
      clock.aheadMs = 0
      await farebox.core.clockGuard.check()
    },
  )

  await t.test(
    '403 deposits_not_available: automatic top-up by card and by crypto, without a payment gateway',
    async () => {
      const answer = '403 deposits_not_available'
      for (const [operation, more] of Object.entries({
        createCardPage: {},
        setAutoTopup: { method: 'crypto' },
      })) {
        const { method, path, json } = good[operation]!
        const send = () => unchecking.call(method, path, { key, json: json && { ...json, ...more } })
        played.add(await play({ operation, answer, how: 'no gateway', send }))
      }
    },
  )

  await t.test('429: each operation, for a key above its rate limit', async (t) => {
    const limited = await testApp(t, {
      own: true,
      with: ['financeToken'],
      settings: {
        FAREBOX_RATE_LIMIT: 'on',
        FAREBOX_RATE_KEY: '1/1',
        FAREBOX_RATE_LIST: '1/1',
        FAREBOX_RATE_LOOKUP: '1/1',
        FAREBOX_RATE_CHECK: '1/1',
      },
    })
    const { buyer, reseller } = limited.demo
    const { log } = limited.core
    const before = await log.head()
    let ordered = 0
    for (const [operation, { method, path, ...options }] of Object.entries(
      goodRequests({
        ...holdings,
        resellerKey: reseller.key,
        financeToken: limited.financeToken,
        scraperKey: limited.demo.scraper.key,
      }),
    )) {
      const send = () => limited.client.call(method, path, { key: buyer.key, ...options })
      // Of requests of one key that come at once, only the first may have a token.
      const refused = async () => {
        const answers = await Promise.all([send(), send(), send()])
        ordered += answers.filter(({ status, body }) => status === 201 && body.orderId !== undefined).length
        return answers.find(({ status }) => status === 429) ?? assert.fail('three at once were taken')
      }
      played.add(await play({ operation, answer: '429 rate_limited', how: 'at once', send: refused }))
    }
    const placed = (await log.readAll(before, 1_000)).filter(({ type }) => type === 'OrderCompleted')
    assert.equal(placed.length, ordered, 'a request that was refused was processed')
    await playAll(t, keylessLimited(limited.client), played)
  })

  await playAll(t, keylessCases(client), played)
  await playAll(t, scraperListCases(client), played)

  const once = { FAREBOX_RATE_LIMIT: 'on', FAREBOX_RATE_ADDRESS: '1/1' }
  await playAll(t, scraperListLimited(await second(once)), played)

  await t.test('503: each free tool and the list of scrapers, while their records are locked', async (t) => {
    const hurried = await second({
      FAREBOX_STATEMENT_TIMEOUT_MS: '100',
      FAREBOX_FREELIST_JUDGE_HOST: '127.0.0.1',
      FAREBOX_FREELIST_JUDGE_PORTS: '9/11',
    })
    const locking = await farebox.core.pool.connect()
    try {
      await locking.query('begin; lock table work.free_proxies, work.scraper_health in access exclusive mode')
      await playAll(t, keylessBlind(hurried), played)
      await playAll(t, scraperListBlind(hurried), played)
    } finally {
      await locking.query('rollback')
      locking.release()
    }
  })

  await t.test('and no response is declared without a case', () => {
    const missing = [...declaredOf(app.document)].filter((answer) => !played.has(answer))
    assert.deepEqual(missing, [])
    t.diagnostic(`${played.size} answers of ${Object.keys(good).length} operations`)
  })
})
