import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createClaim } from '../../../src/features/deposits/create-invoice.ts'
import { releaseDeposit } from '../../../src/features/deposits/deposit-urls.ts'
import { type DepositId, newId } from '../../../src/kernel/ids.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { machineMs } from '../../support/machine-time.ts'
import { ownPort } from '../../support/own-port.ts'
import { secondClient, type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

type Invoice = { readonly id: string; readonly deposit_id: string; readonly provider: string }

const deposits = '/api/v1/deposits'

/** A reseller per provider of crypto; cards of both run at Stripe. */
const openShops = async (app: TestApp) => {
  const [nowpayments, btcpay] = [
    await app.resellerWithGateways('Now', 'nowpayments'),
    await app.resellerWithGateways('Btc', 'btcpay'),
  ]
  return [
    { provider: 'stripe', method: 'card', reseller: btcpay },
    { provider: 'btcpay', method: 'crypto', reseller: btcpay },
    { provider: 'nowpayments', method: 'crypto', reseller: nowpayments },
  ] as const
}

const invoicesOf = async (app: TestApp, depositId: string): Promise<readonly Invoice[]> => {
  const answer = await fetch(`${app.sandbox}/_sandbox/invoices`)
  const { invoices } = (await answer.json()) as { invoices: readonly Invoice[] }
  return invoices.filter(({ deposit_id }) => deposit_id === depositId)
}

const body = (method: string) => ({ amount_cents: 1500, method })

/**
 * Requests while the provider fails, then repeatedly under the same key: one deposit, one payment page, one
 * credit.
 */
const outlives = async (
  app: TestApp,
  { provider, method, reseller }: Awaited<ReturnType<typeof openShops>>[number],
  fault: string,
  mend: () => Promise<void>,
) => {
  const name = `${provider} ${fault}`
  const headers = asCustomer(name, name)
  const { key, accountId } = reseller
  const ask = () => app.client.post(deposits, body(method), { key, headers })
  const failed = await ask()
  assert.deepEqual([failed.status, failed.body.code], [502, 'gateway_unavailable'], failed.text)
  assert.match(failed.body.error, /same Idempotency-Key/)
  assert.equal(failed.headers.get('retry-after'), '5')
  await mend()
  const mine = async () => {
    const { body: list } = await app.client.get(`${deposits}?limit=100`, { key })
    return list.deposits.filter((one: { customer: string }) => one.customer === name)
  }
  assert.deepEqual(
    (await mine()).map((one: { status: string; pay_url: string | null }) => [one.status, one.pay_url]),
    [['awaiting_payment', null]],
  )
  const [made, ...again] = await Promise.all([ask(), ask(), ask(), ask()])
  assert.equal(made.status, 200, made.text)
  for (const one of again) assert.deepEqual([one.status, one.body], [200, made.body], 'one pay page')
  assert.deepEqual(
    (await mine()).map((one: { deposit_id: string }) => one.deposit_id),
    [made.body.deposit_id],
  )
  const atProvider = await invoicesOf(app, made.body.deposit_id)
  assert.ok(atProvider.every((invoice) => invoice.provider === provider))
  // NOWPayments has neither a key nor a search: an invoice with a lost answer is unknown
  // (docs/decisions/0017).
  if (provider !== 'nowpayments')
    assert.equal(atProvider.length, 1, `${atProvider.length} invoices at ${name}`)
  await app.act(made.body.deposit_id, 'pay', 1500)
  await app.untilDeposit(key, made.body.deposit_id, { status: 'paid', credited_cents: 1500 })
  assert.equal(await app.customerCredit(accountId, name), 1500)
}

describe('a gateway that is down causes 502 gateway_unavailable, and the same key gives one invoice', () => {
  const faults = [
    ['it answers 503', { down: true }, { down: false }],
    ['it breaks the connection', { apiCut: 'before' }, { apiCut: 'never' }],
    ['it makes the invoice and breaks the connection', { apiCut: 'after' }, { apiCut: 'never' }],
  ] as const
  for (const [fault, broken, mended] of faults)
    test(fault, async (t) => {
      const app = await testApp(t, { own: true })
      for (const one of await openShops(app))
        await t.test(one.provider, async () => {
          await app.switches(broken)
          await outlives(app, one, fault, () => app.switches(mended))
        })
    })

  test('it answers too late, but does what was requested', async (t) => {
    const app = await testApp(t, { own: true })
    const shops = await openShops(app)
    // Its patience is ten seconds a call.
    await app.switches({ apiSlowMs: 11_000 })
    const heard = Promise.withResolvers<void>()
    let refused = 0
    // All have been refused before any of it is mended.
    const mend = async () => {
      refused += 1
      if (refused === shops.length) heard.resolve(app.switches({ apiSlowMs: 0 }))
      await heard.promise
    }
    await Promise.all(shops.map((one) => outlives(app, one, 'slow', mend)))
  })
})

test('a sandbox elsewhere that does not run causes 502 gateway_unavailable in every route that calls it', async (t) => {
  const app = await testApp(t)
  const port = await ownPort()
  const client = await secondClient(t, app, { FAREBOX_SANDBOX_URL: `http://127.0.0.1:${port}` })
  const requests = [
    [deposits, body('card')],
    [deposits, body('crypto')],
    ['/api/v1/orders', { product_id: 'residential-premium', quantity: 5, method: 'card' }],
    ['/api/v1/wallet/auto-topup/card', {}],
  ] as const
  for (const [path, json] of requests) {
    const { status, body: answer } = await client.post(path, json, { key: app.demo.buyer.key })
    assert.deepEqual([path, status, answer.code], [path, 502, 'gateway_unavailable'])
  }
})

test('a provider that disconnects while its callbacks are verified is called again, and each payment is credited once', async (t) => {
  const app = await testApp(t, { own: true })
  const shops = await openShops(app)
  const made = await Promise.all(
    shops.map(({ provider, method, reseller }) =>
      app.openDeposit(reseller.key, body(method), asCustomer(provider, provider)),
    ),
  )
  await app.switches({ apiCut: 'after' })
  for (const { deposit_id: id } of made) await app.act(id, 'pay', 1500)
  const { pool } = app.core
  await until(async () => {
    const { rows } = await pool.query(
      'select 1 from work.gateway_inbox where attempts > 0 and finished_at is null',
    )
    return rows.length >= shops.length
  })
  for (const [n, { reseller }] of shops.entries())
    assert.equal((await app.readDeposit(reseller.key, made[n].deposit_id)).credited_cents, 0)
  await app.switches({ apiCut: 'never' })
  for (const [n, { provider, reseller }] of shops.entries()) {
    await app.untilDeposit(reseller.key, made[n].deposit_id, { status: 'paid', credited_cents: 1500 })
    assert.equal(await app.customerCredit(reseller.accountId, provider), 1500)
  }
})

test("a hanging provider does not delay other providers' payments, however many of its callbacks wait", async (t) => {
  const app = await testApp(t, { own: true })
  const [stripe, , nowpayments] = await openShops(app)
  const waiting = await Promise.all(
    Array.from({ length: 12 }, (_, n) =>
      app.openDeposit(nowpayments.reseller.key, body('crypto'), asCustomer(`n-${n}`, `n-${n}`)),
    ),
  )
  const card = await app.openDeposit(stripe.reseller.key, body('card'), asCustomer('c', 'c'))
  await app.switches({ apiOf: 'nowpayments', apiSlowMs: 9_000 })
  // Each payment is reported twice, and again after the next one of its invoice: more than are processed
  // concurrently.
  for (const { deposit_id: id } of waiting)
    for (const cents of [100, 200, 300]) await app.act(id, 'pay', cents)
  const { pool } = app.core
  await until(async () => {
    const { rows } = await pool.query('select 1 from work.gateway_inbox where finished_at is null')
    return rows.length >= 36
  })
  await app.act(card.deposit_id, 'pay', 1500)
  const paidAt = machineMs()
  await app.untilDeposit(stripe.reseller.key, card.deposit_id, { status: 'paid', credited_cents: 1500 })
  assert.ok(machineMs() - paidAt < 8_000, 'it waited for the one that hangs')
  await app.switches({ apiSlowMs: 0 })
  for (const { deposit_id: id } of waiting)
    await app.untilDeposit(nowpayments.reseller.key, id, { credited_cents: 600 })
})

test('repeated requests for one invoice wait while its provider hangs, and another gateway answers', async (t) => {
  const app = await testApp(t, { own: true })
  const [stripe, btcpay] = await openShops(app)
  await app.switches({ apiOf: 'btcpay', apiSlowMs: 2_000 })
  const again = Array.from({ length: 3 }, () =>
    app.openDeposit(btcpay.reseller.key, body('crypto'), asCustomer('again', 'again')),
  )
  await app.openDeposit(stripe.reseller.key, body('card'), asCustomer('card', 'card'))
  const made = await Promise.all(again)
  assert.equal(new Set(made.map(({ deposit_id: id }) => id)).size, 1)
})

test('a limited number of requests of a gateway wait for one invoice, and a further one is refused at once', async (t) => {
  const { pool } = (await testApp(t)).core
  const claim = createClaim(pool, 2)
  const depositId = newId('dep') as DepositId
  await claim(depositId, 'gw_one')
  const claims = Array.from({ length: 3 }, () => claim(depositId, 'gw_one'))
  const ofAnother = claim(depositId, 'gw_two')
  await assert.rejects(Promise.race([...claims, ofAnother]), /many requests wait for this gateway/)
  const release = () => releaseDeposit(pool, depositId)
  await release()
  const ends = await Promise.allSettled([...claims, ofAnother].map((waiting) => waiting.then(release)))
  assert.deepEqual(ends.map(({ status }) => status).sort(), [
    'fulfilled',
    'fulfilled',
    'fulfilled',
    'rejected',
  ])
})
