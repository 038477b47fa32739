import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { createNotices } from '../../../src/features/notices/notice-service.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { NoticeId, OrderId, PlanId } from '../../../src/kernel/ids.ts'
import { asCustomer, done } from '../../support/app-actions.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { storeUse } from '../traffic-budgets/use.ts'
import { hookTo, path } from './deliveries.ts'
import { describedBy } from './described.ts'
import { type Received, startReceiver } from './receiver.ts'

const dayMs = 86_400_000
const gb = 1_000_000_000
/** Every event of docs/reference/api.md, "Webhooks and notices". */
const names = [
  'order.fulfilled',
  'order.failed',
  'order.refunded',
  'order.wallet_short',
  'order.canceled',
  'subscription.canceled',
  'subscription.expired',
  'plan.low_traffic',
  'wallet.low_balance',
  'key.cap_reached',
  'announcement.published',
  'scrape.batch.finished',
  'deposit.reversed',
  'deposit.late_payment',
  'wallet.topup_failed',
  'wallet.topup_paused',
  'traffic.budget_reached',
  'customer.traffic',
  'ping',
] as const

test('each of the nineteen events reaches a receiver as specified, and its data can be read then', async (t) => {
  const app = await testApp(t, { own: true })
  const { client } = app
  const { core, projecting } = app.farebox
  const customer = await app.customer({ cents: 100_000, reseller: true, scopes: ['buy', 'scrape'] })
  const { key } = customer
  const read = async (at: string) => (await done(client.get(at, { key }))).body
  const described = describedBy(app.document)
  assert.deepEqual(described.names, names)

  // The receiver calls the API before it answers: its read is stored with the received data.
  const receiver = await startReceiver(t)
  const reads = new Map<Received, Promise<unknown>>()
  const placeOf = ({ json: { event, resource } }: Received): string => {
    const [kind] = event.split('.')
    if (kind === 'order') return `/api/v1/orders/${resource}`
    if (kind === 'subscription') return `/api/v1/subscriptions/${resource}`
    if (kind === 'traffic' || kind === 'customer') return `/api/v1/traffic-budgets/${resource.split('.')[0]}`
    if (kind === 'plan') return `/api/v1/plans/${resource}`
    if (kind === 'wallet' || kind === 'deposit') return '/api/v1/wallet/transactions'
    if (kind === 'key') return '/api/v1/me'
    if (kind === 'scrape') return `/v1/scrape/batch/${resource}`
    return kind === 'announcement' ? '/api/v1/announcements' : path
  }
  receiver.answer((response, received) => {
    const answer = read(placeOf(received))
    reads.set(received, answer)
    void answer.finally(() => response.end('ok'))
  })
  const hook = await hookTo(app, receiver.url, names, customer)

  const receivedEvent = async (event: string, resource?: string) => {
    const received = await until(
      () =>
        receiver.received.find(
          ({ json }) => json.event === event && (resource === undefined || json.resource === resource),
        ),
      { timeoutMs: 20_000, what: event },
    )
    const { json, body, headers } = received
    described.check(event, json)
    described.check(event, described.exampleOf(event))
    assert.deepEqual(Object.keys(json), ['event', 'created', 'resource', 'data'])
    assert.deepEqual(Object.keys(described.exampleOf(event)), Object.keys(json))
    assert.deepEqual(Object.keys(described.exampleOf(event).data), Object.keys(json.data))
    for (const name of described.headersOf(event))
      assert.ok(name in headers || name === 'x-service-signature-previous', `${event} without ${name}`)
    assert.equal(headers['x-service-event'], event)
    // Signed at the service's time, which may be months away from that of the verifying library.
    if (app.clock.aheadMs === 0) new Webhook(hook.secret).verify(body, headers as Record<string, string>)
    // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
    return { json, data: json.data, found: (await reads.get(received)) as any }
  }
  const once = () => ({ 'Idempotency-Key': randomUUID() })
  const buy = async (body: object, by = key) =>
    (await done(client.post('/api/v1/orders', body, { key: by, headers: once() }))).body
  // biome-ignore lint/suspicious/noExplicitAny: an order as the API shows it
  const ofOrder = (order: any) => ({
    orderId: order.orderId,
    status: order.status,
    productId: order.productId,
    quantity: order.quantity,
    amountCents: order.amountCents,
    currency: 'USD',
    createdAt: order.createdAt,
    fulfilledAt: order.fulfilledAt,
  })

  const bought = await buy({ product_id: 'residential-basic', quantity: 1 })
  const fulfilled = await receivedEvent('order.fulfilled', bought.orderId)
  assert.deepEqual(fulfilled.data, ofOrder(bought))
  assert.deepEqual([fulfilled.data.status, fulfilled.found.status], ['completed', 'completed'])

  const plan = await read(`/api/v1/plans/${bought.planId}`)
  // From half to zero: it is sent once, with the state of that moment.
  for (const reportId of ['half', 'rest'])
    await createMeter(core).reportOnce({ planId: bought.planId as PlanId, reportId, bytes: 0.5 * gb })
  const low = await receivedEvent('plan.low_traffic', bought.planId)
  assert.deepEqual(low.data, {
    planId: bought.planId,
    label: '',
    product: 'Basic residential',
    dataGbTotal: 1,
    dataGbRemaining: 0,
    thresholdPct: 10,
    expiresAt: plan.expiresAt,
  })
  assert.deepEqual([low.found.dataGbRemaining, low.found.status], [0, 'depleted'])

  const returned = await buy({ product_id: 'residential-basic', quantity: 1 })
  const orderId = returned.orderId as OrderId
  await app.refund(orderId)
  const refunded = await receivedEvent('order.refunded', orderId)
  const { refundedAt } = refunded.found
  assert.deepEqual(refunded.data, {
    ...ofOrder({ ...returned, status: 'refunded' }),
    refundedAt,
    refundCents: returned.amountCents,
  })
  assert.equal(refunded.found.status, 'refunded')

  // Paid after the product was closed: the money stays in the wallet, and the order fails.
  const awaited = await buy({ product_id: 'residential-unlimited', quantity: 1, method: 'card' })
  const { deposits } = await read('/api/v1/deposits')
  const parked = { productId: 'residential-unlimited', state: 'parked', successorId: null } as const
  await createCatalogService(core.runner).setState(parked, operator)
  assert.ok(await projecting.caughtUp(10_000))
  await until(async () => (await read('/api/v1/products/residential-unlimited')).state === 'parked')
  await app.act(deposits[0].deposit_id, 'pay', awaited.amountCents)
  const failed = await receivedEvent('order.failed', awaited.orderId)
  assert.deepEqual(failed.data, {
    ...ofOrder({ ...awaited, status: 'failed', fulfilledAt: null }),
    failureReason: 'product_unavailable',
  })
  assert.deepEqual([failed.found.status, failed.found.failureReason], ['failed', failed.data.failureReason])

  // The customer pays while the wallet is empty: the order waits until the wallet has the cost.
  const ofAccount = ['--account', customer.accountId]
  await app.run('reseller', 'gateway', ...ofAccount, '--sandbox', '--rail', 'card', '--provider', 'stripe')
  const forAcme = { key, headers: asCustomer('acme-7', 'short') }
  const toPay = { product_id: 'residential-basic', quantity: 1, method: 'card' }
  const page = await until(async () => {
    const answer = await client.post('/api/v1/orders', toPay, forAcme)
    return answer.status === 402 && answer.body.depositId && answer.body
  })
  const walletCents = await app.balance(key)
  await app.run('wallet', 'adjust', ...ofAccount, '--cents', String(-walletCents), '--reference', 'drained')
  await app.act(page.depositId, 'pay', page.chargeCents)
  const shortage = await receivedEvent('order.wallet_short', page.orderId)
  const { waitsFor, waitsUntil, walletShortfallCents, customerId: acme } = shortage.found
  assert.deepEqual([waitsFor, walletShortfallCents], ['wallet', shortage.found.yourCostCents])
  assert.deepEqual(shortage.data, {
    ...ofOrder(shortage.found),
    customerId: acme,
    walletShortfallCents,
    waitsUntil,
  })
  await app.credit(customer.accountId, walletCents)
  await app.untilOrder(key, page.orderId, 'completed')

  const byCoins = await buy({ product_id: 'residential-basic', quantity: 1, method: 'crypto' })
  await done(client.post(`/api/v1/orders/${byCoins.orderId}/cancel`, undefined, { key }))
  const canceledOrder = await receivedEvent('order.canceled', byCoins.orderId)
  const { canceledAt } = canceledOrder.found
  assert.deepEqual(canceledOrder.data, {
    ...ofOrder({ ...byCoins, status: 'canceled' }),
    customerId: null,
    canceledAt,
    cancelReason: 'requested',
  })
  const ofLate = byCoins.depositId
  await app.act(ofLate, 'pay', byCoins.chargeCents)
  const late = await receivedEvent('deposit.late_payment')
  const { creditedAt, ...latePayment } = late.data
  assert.deepEqual(latePayment, {
    depositId: ofLate,
    customerId: null,
    orderId: byCoins.orderId,
    amountCents: byCoins.chargeCents,
    amountMicros: byCoins.chargeCents * 10_000,
    currency: 'USD',
  })
  assert.equal(creditedAt, late.found.transactions[0].createdAt)

  const noticeId = `ntc_${randomUUID().replaceAll('-', '')}` as NoticeId
  const notice = { title: 'Maintenance on Sunday', kind: 'MAINTENANCE', audience: 'DEVELOPERS' } as const
  await createNotices(core).publish(
    { noticeId, ...notice, body: 'Ten minutes.', expiresAt: null, linkHref: null, linkLabel: null },
    operator,
  )
  const published = await receivedEvent('announcement.published', noticeId)
  assert.deepEqual(published.data, { announcementId: noticeId, ...notice })
  assert.deepEqual(
    published.found.announcements.map(({ id, body }: { id: string; body: string }) => [id, body]),
    [[noticeId, 'Ten minutes.']],
  )

  await done(client.post(`${path}/${hook.id}/test`, undefined, { key }))
  const ping = await receivedEvent('ping')
  assert.deepEqual(ping.data, {
    webhookId: hook.id,
    message: 'This is a test of your webhook endpoint.',
  })
  assert.match(ping.json.resource, /^ping_/)

  const inputs = [{ subreddit: 'node' }, { subreddit: 'missing-7' }]
  const batch = (
    await done(
      client.post('/v1/scrape/batch', { platform: 'reddit', operation: 'subreddit', inputs }, { key }),
    )
  ).body
  const batched = await receivedEvent('scrape.batch.finished', batch.batchId)
  assert.deepEqual(batched.data, {
    batchId: batch.batchId,
    status: 'finished',
    platform: 'reddit',
    operation: 'subreddit',
    inputs: 2,
    found: 1,
    empty: 0,
    notFound: 1,
    restricted: 0,
    failed: 0,
    canceledCalls: 0,
    chargedUsd: '0.0060',
  })
  assert.deepEqual([batched.found.done, batched.found.chargedUsd], [2, '0.0060'])

  // One order takes the balance below the threshold, and its key above 80 % of its cap.
  const balanceCents = await app.balance(key)
  await done(
    client.call('PUT', '/api/v1/wallet/low-balance', { key, json: { thresholdCents: balanceCents } }),
  )
  const capCents = Math.ceil(bought.amountCents / 0.85)
  const capped = await app.issueKey(customer.accountId, capCents)
  await buy({ product_id: 'residential-basic', quantity: 1 }, capped)
  const lowBalance = await receivedEvent('wallet.low_balance')
  const [transaction] = lowBalance.found.transactions
  assert.deepEqual(lowBalance.data, {
    transactionId: transaction.transactionId,
    thresholdCents: balanceCents,
    balanceCents: transaction.balanceAfterCents,
    currency: 'USD',
  })
  assert.equal(lowBalance.json.resource, transaction.transactionId)
  // The deposit below raises the balance above the threshold again.
  await done(client.call('PUT', '/api/v1/wallet/low-balance', { key, json: { thresholdCents: null } }))
  const { data: reached } = await receivedEvent('key.cap_reached')
  assert.deepEqual(
    [reached.levelPct, reached.capCents, reached.capCovers, reached.spentCents],
    [80, capCents, 'orders', bought.amountCents],
  )

  const { url } = (await done(client.post('/api/v1/wallet/auto-topup/card', undefined, { key }))).body
  await fetch(url, { method: 'POST', body: new URLSearchParams({ card: 'declined' }), redirect: 'manual' })
  await until(async () => (await read('/api/v1/wallet/auto-topup')).card)
  const topup = { thresholdCents: 500_000, amountCents: 1_000, monthlyMaxCents: 1_000 }
  await done(client.call('PUT', '/api/v1/wallet/auto-topup', { key, json: topup }))
  const topupFailed = await receivedEvent('wallet.topup_failed')
  assert.deepEqual(topupFailed.data, {
    topupId: topupFailed.json.resource,
    amountCents: 1_000,
    currency: 'USD',
    reason: 'card_declined',
    failures: 1,
    turnedOff: false,
  })
  await app.run('accounts', 'block', customer.accountId)
  await app.run('accounts', 'unblock', customer.accountId)
  const topupPaused = await receivedEvent('wallet.topup_paused')
  assert.deepEqual(topupPaused.data, {
    pauseId: topupPaused.json.resource,
    reason: 'account_blocked',
    until: null,
    owedCents: 0,
    currency: 'USD',
  })
  await done(client.call('DELETE', '/api/v1/wallet/auto-topup', { key }))

  // A budget of a plan, and one of all plans of a customer: 85 % of each is used.
  const setBudget = async (of: object, headers = {}) =>
    (
      await done(
        client.call('PUT', '/api/v1/traffic-budgets', {
          key,
          json: { ...of, period: 'month', limitBytes: 10 * gb },
          headers,
        }),
      )
    ).body
  const useBudget = async (budget: { id: string; countedFrom: string; resetsAt: string }) => {
    const countedFromMs = Date.parse(budget.countedFrom)
    await storeUse(core.pool, {
      budgetId: budget.id,
      countedFromMs,
      usedBytes: 8.5 * gb,
      limitBytes: 10 * gb,
    })
    const { countedFrom, resetsAt } = budget
    const use = { period: 'month', percent: 80, usedBytes: 8.5 * gb, limitBytes: 10 * gb }
    return { budgetId: budget.id, lineSet: null, whitelistEntryId: null, ...use, countedFrom, resetsAt }
  }
  const ofPlan = await useBudget(await setBudget({ planId: bought.planId }))
  const used = await receivedEvent('traffic.budget_reached')
  assert.deepEqual(used.data, { ...ofPlan, scope: 'plan', planId: bought.planId })
  assert.equal(used.found.usedBytes, 8.5 * gb)
  const budgetOfCustomer = await setBudget({}, asCustomer('acme-7'))
  const { customerId } = budgetOfCustomer
  const ofCustomer = await useBudget(budgetOfCustomer)
  const { data: usedByCustomer } = await receivedEvent('customer.traffic')
  const whose = { scope: 'customer', planId: null, customerId, customer: 'acme-7' }
  assert.deepEqual(usedByCustomer, { ...ofCustomer, ...whose })

  const deposit = await app.openDeposit(key, { amount_cents: 1_000, method: 'card' })
  await app.act(deposit.deposit_id, 'pay', 1_000)
  await app.untilDeposit(key, deposit.deposit_id, { status: 'paid' })
  await app.act(deposit.deposit_id, 'refund', 400)
  const reversed = await receivedEvent('deposit.reversed')
  const { reference, ...reversal } = reversed.data
  assert.deepEqual(reversal, {
    depositId: deposit.deposit_id,
    customerId: null,
    reason: 'deposit_refund',
    amountCents: -400,
    amountMicros: -4_000_000,
    owedCents: 0,
  })
  const [refund] = reversed.found.transactions
  assert.deepEqual([refund.transactionId, refund.reference], [reversed.json.resource, reference])

  const subscribe = async () =>
    (
      await done(
        client.post(
          '/api/v1/subscriptions',
          { product_id: 'residential-premium', quantity: 1, interval: 'month' },
          { key, headers: once() },
        ),
      )
    ).body
  const [stopped, lapsing] = [await subscribe(), await subscribe()]
  await done(client.call('DELETE', `/api/v1/subscriptions/${stopped.subscriptionId}`, { key }))
  const all = ['--cents', String(-(await app.balance(key)))]
  const taken = ['--account', customer.accountId, '--reason', 'correction', '--reference', 'all', ...all]
  await app.run('wallet', 'adjust', ...taken)
  app.ahead(Date.parse(stopped.currentPeriodEnd) - Date.now() + 1)
  const ofSubscription = ({ subscriptionId, productId, planId, currentPeriodEnd }: typeof stopped) => ({
    subscriptionId,
    productId,
    planId,
    currentPeriodEnd,
  })
  const canceled = await receivedEvent('subscription.canceled', stopped.subscriptionId)
  assert.deepEqual(canceled.data, {
    ...ofSubscription(stopped),
    status: 'canceled',
    reason: 'requested',
  })
  assert.deepEqual([canceled.found.status, canceled.found.reason], ['canceled', 'requested'])
  await until(
    async () => (await read(`/api/v1/subscriptions/${lapsing.subscriptionId}`)).status === 'past_due',
  )

  app.wait(3 * dayMs)
  const expired = await receivedEvent('subscription.expired', lapsing.subscriptionId)
  assert.deepEqual(expired.data, {
    ...ofSubscription(lapsing),
    status: 'expired',
    reason: 'insufficient_balance',
  })
  assert.deepEqual([expired.found.status, expired.found.reason], ['expired', 'insufficient_balance'])

  // One of each, and an order.fulfilled for each order that was delivered.
  const counts = new Map<string, number>()
  for (const { json } of receiver.received) counts.set(json.event, (counts.get(json.event) ?? 0) + 1)
  const placed = (await read('/api/v1/orders?limit=100')).orders.filter(
    ({ fulfilledAt }: { fulfilledAt: string | null }) => fulfilledAt !== null,
  ).length
  for (const name of names) assert.equal(counts.get(name), name === 'order.fulfilled' ? placed : 1, name)
})
