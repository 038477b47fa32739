import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import Stripe from 'stripe'
import { deriveKey } from '../../../src/platform/vault/keys.ts'
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

/** The callbacks in the inbox, without those of earlier tests. */
const inbox = async ({ farebox }: TestApp, earlier: readonly string[] = []) =>
  (
    await farebox.core.pool.query<{ event_id: string; result: string | null; done: boolean }>(
      `select event_id, result, finished_at is not null as done from work.gateway_inbox
        where not event_id = any($1::text[]) order by event_id`,
      [earlier],
    )
  ).rows

test('a payment callback', async (t) => {
  const lines: string[] = []
  const logTo = new Writable({
    write: (chunk, _encoding, written) => {
      lines.push(String(chunk))
      written()
    },
  })
  const app = await testApp(t, { own: true, settings: { LOG_LEVEL: 'info' }, logTo })

  /** Ends the faults of an earlier test. Returns the callbacks that are in the inbox. */
  const begin = async (): Promise<readonly string[]> => {
    await fetch(`${app.sandbox}/_sandbox/switches`, { method: 'DELETE' })
    return (await inbox(app)).map(({ event_id }) => event_id)
  }

  await t.test('that is forged or stale is 401, is logged, and moves nothing', async () => {
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
      // 300 s are accepted, and a minute may pass before the service reads its clock.
      await send(app, 'sandbox-stripe', event, stripeHeader(app, event, { ageS: 301 })),
      await send(app, 'sandbox-stripe', event, stripeHeader(app, event, { ageS: -360 })),
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

  await t.test('that is correctly signed but wrong moves only what the provider confirms', async () => {
    const earlier = await begin()
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
    await until(async () => (await inbox(app, earlier)).filter(({ done }) => done).length === 3)
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
    await until(async () => (await inbox(app, earlier)).every(({ done }) => done))
    assert.deepEqual([await app.balance(victim.key), await app.balance(thief.key)], [2500, 0])
  })

  await t.test('waits in the inbox while the provider is down, and is processed later', async () => {
    const earlier = await begin()
    const { key } = await app.customer({ cents: 0 })
    const made = await app.openDeposit(key, { amount_cents: 1000 })
    await app.switches({ down: true })
    await app.act(made.deposit_id, 'pay', 1000)
    await until(async () => (await inbox(app, earlier)).some(({ result, done }) => result !== null && !done))
    assert.equal((await app.readDeposit(key, made.deposit_id)).status, 'awaiting_payment')
    await app.switches({ down: false })
    await app.untilDeposit(key, made.deposit_id, { status: 'paid' })
    assert.equal((await inbox(app, earlier)).length, 1)
    const stored = JSON.stringify(await app.core.pool.query('select * from work.gateway_inbox'))
    assert.ok(!stored.includes('amount'), 'of a callback only the ids to look up are stored')
  })

  await t.test(
    'that is lost, repeated, reordered, slow or mixed with forged ones credits each payment once',
    async () => {
      const earlier = await begin()
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
      await until(async () => (await inbox(app, earlier)).every(({ done }) => done), { timeoutMs: 20_000 })
      assert.equal(await app.balance(key), expected)
    },
  )

  // The last ones: the clock leaps.
  await t.test('that never arrives is replaced by polling the provider', async () => {
    const earlier = await begin()
    await app.switches({ lost: 1 })
    const { key } = await app.customer({ cents: 0 })
    const wanted: [string, object][] = []
    for (const [method, cents] of [
      ['card', 1000],
      ['crypto', 700],
    ] as const) {
      const made = await app.openDeposit(key, { amount_cents: cents, method })
      await app.act(made.deposit_id, 'pay', cents)
      wanted.push([made.deposit_id, { status: 'paid', credited_cents: cents }])
      const shut = await app.openDeposit(key, { amount_cents: cents, method })
      await app.act(shut.deposit_id, 'expire')
      wanted.push([shut.deposit_id, { status: 'expired', credited_cents: 0 }])
    }
    // The first poll of a deposit comes an hour after its opening.
    app.wait(3_600_000)
    for (const [id, deposit] of wanted) await app.untilDeposit(key, id, deposit)
    assert.deepEqual(await inbox(app, earlier), [])
    assert.equal(await app.balance(key), 1700)
  })

  await t.test(
    'that never arrives for a closed invoice: the key of its deposit does not return it again',
    async () => {
      await begin()
      const { key } = await app.customer({ cents: 0 })
      const made = await app.openDeposit(key, { amount_cents: 1500 }, { 'Idempotency-Key': 'lost' })
      await app.switches({ lost: 1 })
      await app.act(made.deposit_id, 'expire')
      await app.switches({ lost: 0 })
      app.wait(25 * 60 * 60 * 1000)
      const next = await app.openDeposit(key, { amount_cents: 1500 }, { 'Idempotency-Key': 'lost' })
      assert.notEqual(next.deposit_id, made.deposit_id)
    },
  )
})
