import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { Writable } from 'node:stream'
import { describe, test } from 'node:test'
import Stripe from 'stripe'
import { deriveKey } from '../../../src/platform/vault/keys.ts'
import { asCustomer } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const stripe = new Stripe('sk_test_unused')

/** The signing secret of a stand-in's account, as the service derives it. */
const secretOf = (app: TestApp, gatewayId: string): string =>
  createHmac('sha256', deriveKey(app.core.keys.master, 'sandbox gateways v1'))
    .update(JSON.stringify([gatewayId, 'webhook']))
    .digest('hex')

const send = async (app: TestApp, gateway: string, body: string, headers: Record<string, string>) => {
  const response = await fetch(`${app.baseUrl}/callbacks/${gateway}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  return { status: response.status, text: await response.text() }
}

const stripeHeader = (app: TestApp, payload: string, over: { ageS?: number; secret?: string } = {}) => ({
  'stripe-signature': stripe.webhooks.generateTestHeaderString({
    payload,
    secret: over.secret ?? `whsec_${secretOf(app, 'sandbox-stripe')}`,
    timestamp: Math.floor(Date.now() / 1000) - (over.ageS ?? 0),
  }),
})

const inbox = async ({ farebox }: TestApp) =>
  (
    await farebox.core.pool.query<{ event_id: string; result: string | null; done: boolean }>(
      'select event_id, result, finished_at is not null as done from work.gateway_inbox order by event_id',
    )
  ).rows

describe('a payment callback', () => {
  test('that is forged or stale is 401, is logged, and moves nothing', async (t) => {
    const lines: string[] = []
    const logTo = new Writable({
      write: (chunk, _encoding, written) => {
        lines.push(String(chunk))
        written()
      },
    })
    const app = await testApp(t, { own: true, settings: { LOG_LEVEL: 'info' }, logTo })
    const { key } = await app.customer({ cents: 0 })
    const card = await app.openDeposit(key, { amount_cents: 2500 })
    const crypto = await app.openDeposit(key, { amount_cents: 2500, method: 'crypto' })
    const invoiceOf = async (id: string) =>
      ((await (await fetch(`${app.sandbox}/_sandbox/invoices/${id}`)).json()) as { id: string }).id
    const session = await invoiceOf(card.deposit_id)
    const event = JSON.stringify({
      id: 'evt_forged',
      object: 'event',
      type: 'checkout.session.completed',
      data: {
        object: {
          id: session,
          object: 'checkout.session',
          payment_status: 'paid',
          amount_total: 2500,
          currency: 'usd',
        },
      },
    })
    const btcpay = JSON.stringify({
      deliveryId: 'forged',
      type: 'InvoiceSettled',
      timestamp: Math.floor(Date.now() / 1000),
      invoiceId: await invoiceOf(crypto.deposit_id),
    })
    const sign = (secret: string, body: string) => ({
      'btcpay-sig': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    })
    const before = await app.core.log.head()
    const forged = [
      await send(app, 'sandbox-stripe', event, stripeHeader(app, event, { secret: 'whsec_wrong' })),
      await send(app, 'sandbox-stripe', event, stripeHeader(app, event, { ageS: 301 })),
      await send(app, 'sandbox-stripe', event, stripeHeader(app, event, { ageS: -301 })),
      await send(app, 'sandbox-stripe', `${event} `, stripeHeader(app, event)),
      await send(app, 'sandbox-stripe', event, {}),
      // Of the other gateway's secret.
      await send(
        app,
        'sandbox-stripe',
        event,
        stripeHeader(app, event, { secret: `whsec_${secretOf(app, 'sandbox-btcpay')}` }),
      ),
      await send(app, 'sandbox-btcpay', btcpay, sign('wrong', btcpay)),
      await send(app, 'sandbox-btcpay', `${btcpay}\n`, sign(secretOf(app, 'sandbox-btcpay'), btcpay)),
    ]
    for (const { status, text } of forged)
      assert.deepEqual([status, JSON.parse(text).code], [401, 'unauthorized'], text)
    assert.equal((await send(app, 'unknown', event, {})).status, 404)
    assert.deepEqual(await inbox(app), [])
    assert.equal(await app.core.log.head(), before)
    assert.equal(lines.filter((line) => line.includes('a callback was refused')).length, forged.length)
  })

  test('that is correctly signed but wrong moves only what the provider confirms', async (t) => {
    const app = await testApp(t, { own: true })
    const victim = await app.customer({ cents: 0 })
    const thief = await app.customer({ cents: 0 })
    const owed = await app.openDeposit(victim.key, { amount_cents: 2500 })
    const own = await app.openDeposit(thief.key, { amount_cents: 1000 })
    const session = (
      (await (await fetch(`${app.sandbox}/_sandbox/invoices/${owed.deposit_id}`)).json()) as {
        id: string
      }
    ).id
    const state = async (n: number, object: object) => {
      const event = JSON.stringify({
        id: `evt_lie_${n}`,
        object: 'event',
        type: 'checkout.session.completed',
        data: {
          object: { object: 'checkout.session', payment_status: 'paid', status: 'complete', ...object },
        },
      })
      const { status } = await send(app, 'sandbox-stripe', event, stripeHeader(app, event))
      assert.equal(status, 200)
    }
    // Unpaid at the provider: for any claim nothing is credited.
    await state(1, { id: session, amount_total: 2500, currency: 'usd', client_reference_id: owed.deposit_id })
    await state(2, {
      id: session,
      amount_total: 99_999_900,
      currency: 'usd',
      client_reference_id: own.deposit_id,
    })
    await state(3, {
      id: 'cs_test_unknown',
      amount_total: 1,
      currency: 'usd',
      client_reference_id: own.deposit_id,
    })
    await until(async () => (await inbox(app)).filter(({ done }) => done).length === 3)
    assert.deepEqual([await app.balance(victim.key), await app.balance(thief.key)], [0, 0])
    // Paid: its own account, its own amount, however often and for whomever it is stated.
    await app.act(owed.deposit_id, 'pay', 2500)
    await app.untilDeposit(victim.key, owed.deposit_id, { status: 'paid' })
    await state(4, {
      id: session,
      amount_total: 1,
      currency: 'jpy',
      metadata: { deposit_id: own.deposit_id },
    })
    await state(5, { id: session, amount_total: 5_000_00, currency: 'usd' })
    await until(async () => (await inbox(app)).every(({ done }) => done))
    assert.deepEqual([await app.balance(victim.key), await app.balance(thief.key)], [2500, 0])
  })

  test('that is lost, repeated, reordered, slow or mixed with forged ones credits each payment once', async (t) => {
    const app = await testApp(t, { own: true })
    const { key } = await app.customer({ cents: 0 })
    let expected = 0
    for (const change of [
      { repeats: 5 },
      { repeats: 3, reorderMs: 150 },
      { slowMs: 200 },
      { forged: true, lying: true },
      { apiSlowMs: 300 },
    ]) {
      await app.switches({
        repeats: 0,
        reorderMs: 0,
        slowMs: 0,
        forged: false,
        lying: false,
        apiSlowMs: 0,
        ...change,
      })
      for (const [method, cents] of [
        ['card', 1000],
        ['crypto', 700],
      ] as const) {
        const made = await app.openDeposit(key, { amount_cents: cents, method })
        await app.act(made.deposit_id, 'pay', cents)
        await app.untilDeposit(key, made.deposit_id, { status: 'paid', credited_cents: cents })
        expected += cents
      }
    }
    await until(async () => (await inbox(app)).every(({ done }) => done), { timeoutMs: 20_000 })
    assert.equal(await app.balance(key), expected)
  })

  test('that never arrives is replaced by polling the provider', async (t) => {
    const app = await testApp(t, { own: true, settings: { FAREBOX_DEPOSIT_LOOK_MS: '300' } })
    await app.switches({ lost: 1 })
    const { key } = await app.customer({ cents: 0 })
    for (const [method, cents] of [
      ['card', 1000],
      ['crypto', 700],
    ] as const) {
      const made = await app.openDeposit(key, { amount_cents: cents, method })
      await app.act(made.deposit_id, 'pay', cents)
      await app.untilDeposit(key, made.deposit_id, { status: 'paid', credited_cents: cents })
      const shut = await app.openDeposit(key, { amount_cents: cents, method })
      await app.act(shut.deposit_id, 'expire')
      await app.untilDeposit(key, shut.deposit_id, { status: 'expired', credited_cents: 0 })
    }
    assert.deepEqual(await inbox(app), [])
    assert.equal(await app.balance(key), 1700)
  })

  test('of a dispute that never arrives is replaced by polling, and one that arrived moves nothing again', async (t) => {
    const app = await testApp(t, { own: true, settings: { FAREBOX_DEPOSIT_LOOK_MS: '300' } })
    const reseller = await app.resellerWithGateways('Acme', 'btcpay')
    const own = await app.customer({ cents: 0 })
    const disputed = await app.customer({ cents: 0 })
    const paid = async (key: string, headers = {}) => {
      const { deposit_id } = await app.openDeposit(key, { amount_cents: 1000 }, headers)
      await app.act(deposit_id, 'pay', 1000)
      await app.untilDeposit(key, deposit_id, { status: 'paid' })
      return deposit_id
    }
    const ids = [await paid(own.key), await paid(reseller.key, asCustomer('ann', 'ann'))]
    const heard = await paid(disputed.key)
    await app.act(heard, 'dispute')
    await app.untilBalance(disputed.key, 0)
    await app.switches({ lost: 1 })
    for (const id of ids) await app.act(id, 'dispute')
    app.ahead(61 * 60_000)
    await app.untilBalance(own.key, 0)
    await until(async () => (await app.customerCredit(reseller.accountId, 'ann')) === 0)
    // Each gateway is polled again, and the reported dispute is found with the other two.
    app.ahead(122 * 60_000)
    const found = async () => (await inbox(app)).filter(({ event_id }) => event_id.startsWith('found dp_'))
    await until(async () => (await found()).length === 3 && (await found()).every(({ done }) => done))
    for (const { accountId } of [own, disputed]) {
      const { availableMicros, receivableMicros } = await app.wallets.read(accountId, operator)
      assert.deepEqual([availableMicros, receivableMicros], [0, 0])
    }
    assert.equal((await app.customerWallet(reseller.accountId, 'ann')).receivableMicros, 0)
  })

  test('waits in the inbox while the provider is down, and is processed later', async (t) => {
    const app = await testApp(t, { own: true })
    const { key } = await app.customer({ cents: 0 })
    const made = await app.openDeposit(key, { amount_cents: 1000 })
    await app.switches({ down: true })
    await app.act(made.deposit_id, 'pay', 1000)
    await until(async () => (await inbox(app)).some(({ result, done }) => result !== null && !done))
    assert.equal((await app.readDeposit(key, made.deposit_id)).status, 'awaiting_payment')
    await app.switches({ down: false })
    await app.untilDeposit(key, made.deposit_id, { status: 'paid' })
    assert.equal((await inbox(app)).length, 1)
    const stored = JSON.stringify(await app.core.pool.query('select * from work.gateway_inbox'))
    assert.ok(!stored.includes('amount'), 'of a callback only the ids to look up are stored')
  })
})
