import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import pg from 'pg'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { call, dataDirectory, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

/** Orders, customers, and requests at once. */
const orderCount = process.env.FAREBOX_SOAK === '1' ? 1_000 : 160
const customerCount = 20
const inFlight = 8
const wait = { timeoutMs: 120_000, everyMs: 100 }

type Answer = Awaited<ReturnType<typeof call>>
type Page = { readonly depositId: string; readonly chargeCents: number }

test('a shop with disputes, expired invoices, short wallets and kills: log, API and the books of the shop agree', async (t) => {
  const env = { ...(await seededDatabase(t, await dataDirectory(t))), FAREBOX_DEPOSIT_LOOK_MS: '300' }
  let running = await startFarebox(t, env)
  const demo = await readDemoFile(env.FAREBOX_DATA)
  assert.ok(demo)
  const { accountId, key } = demo.reseller
  const ofShop = ['--account', accountId]
  const run = async (...args: readonly string[]) => {
    const ran = await operate([...args, '--json'], env)
    assert.equal(ran.code, 0, ran.err)
  }
  await run('reseller', 'set', ...ofShop, '--markup', '1.30')
  for (const [rail, provider] of [
    ['card', 'stripe'],
    ['crypto', 'btcpay'],
  ] as const)
    await run('reseller', 'gateway', ...ofShop, '--rail', rail, '--provider', provider, '--sandbox')

  /** Repeats a request until the service answers it: it may be killed, or busy. */
  const send = async (path: string, options: Parameters<typeof call>[2] = {}): Promise<Answer> =>
    until(async () => {
      const answer = await call(`${running.baseUrl}/api/v1/${path}`, key, options).catch(() => null)
      return answer !== null && answer.status < 500 && answer.status !== 429 ? answer : null
    }, wait)
  await until(async () => {
    const { body } = await send('products/residential-premium/price?quantity=1')
    return body.marginCents > 0
  })
  const sandboxUrl = async () => (await readDemoFile(env.FAREBOX_DATA))?.sandbox
  const act = (depositId: string, action: string, cents?: number): Promise<unknown> =>
    until(async () => {
      const url = `${await sandboxUrl()}/_sandbox/invoices/${depositId}/${action}`
      const body = JSON.stringify(cents === undefined ? {} : { amount_cents: cents })
      const headers = { 'content-type': 'application/json' }
      return fetch(url, { method: 'POST', headers, body }).catch(() => null)
    }, wait)
  const paidAtProvider = async (depositId: string): Promise<number> => {
    const answer = await fetch(`${await sandboxUrl()}/_sandbox/invoices/${depositId}`)
    return ((await answer.json()) as { paid_cents: number }).paid_cents
  }

  // The books of the shop: what it moved by hand, and every page that it was given.
  const movedCents = new Map<string, number>()
  const pages = new Map<string, string>()
  const orderIds = new Set<string>()
  const move = async (customer: string, cents: number, reason: string): Promise<void> => {
    const gateway = reason === 'chargeback' ? ['--gateway', 'stripe'] : []
    const named = ['--customer', customer, '--cents', String(cents), '--reference', randomUUID()]
    await run('customers', 'adjust', ...ofShop, ...named, '--reason', reason, ...gateway)
    movedCents.set(customer, (movedCents.get(customer) ?? 0) + cents)
  }
  const ask = async (customer: string, name: string, quantity: number, method: string) => {
    const headers = { 'Idempotency-Key': name, 'X-Reseller-Customer-Id': customer }
    const body = { product_id: 'residential-premium', quantity, method }
    const answer = await send('orders', { body, headers })
    const { orderId, depositId } = answer.body
    if (orderId !== undefined) orderIds.add(orderId)
    if (answer.status === 402 && depositId !== undefined) pages.set(depositId, customer)
    return answer
  }
  const pageOf = ({ status, body }: Answer): Page | null =>
    status === 402 && body.depositId !== undefined ? body : null
  const pay = ({ depositId, chargeCents }: Page) => act(depositId, 'pay', chargeCents)

  /** One order in one of nine ways. */
  const serve = async (n: number): Promise<void> => {
    const customer = `customer ${n % customerCount}`
    const [quantity, method, other] = [
      1 + (n % 3),
      ...(n % 2 === 0 ? ['card', 'crypto'] : ['crypto', 'card']),
    ] as const
    const order = (by: string = method as string) => ask(customer, `order ${n}`, quantity as number, by)
    const [first] = await Promise.all([order(), order()])
    const page = first && pageOf(first)
    if (!page) return
    const { orderId } = first.body
    switch (n % 9) {
      case 0:
        await act(page.depositId, 'expire')
        return void (await pay(page))
      case 1:
        await Promise.all([pay(page), send(`orders/${orderId}/cancel`, { method: 'POST' })])
        return
      case 2: {
        const next = pageOf(await order(other as string))
        await Promise.all([pay(page), next && pay(next)])
        return
      }
      case 3:
        await Promise.all([pay(page), pay(page)])
        return
      case 4: {
        await move(customer, -500, 'chargeback')
        const next = pageOf(await order())
        return void (next && (await pay(next)))
      }
      case 5:
        await move(customer, 3_000, 'payment')
        return void (await order())
      case 6:
        await Promise.all([pay(page), act(page.depositId, 'expire')])
        return
      default:
        await pay(page)
    }
  }

  const walletCents = async () => (await send('wallet')).body.balanceCents as number
  let fundedCents = await walletCents()
  const fund = async (cents: number): Promise<void> => {
    await run('wallet', 'adjust', ...ofShop, '--cents', String(cents), '--reference', randomUUID())
    fundedCents += cents
  }
  let next = 0
  const work = async (): Promise<void> => {
    while (next < orderCount) {
      const n = next
      next += 1
      await serve(n)
    }
  }
  /** Empties the wallet, and fills it again, while the orders are made. */
  const treasure = async (): Promise<void> => {
    while (next < orderCount) {
      const cents = await walletCents()
      const drained =
        cents > 0 &&
        (
          await operate(
            ['wallet', 'adjust', ...ofShop, '--cents', String(-cents), '--reference', randomUUID(), '--json'],
            env,
          )
        ).code === 0
      if (drained) fundedCents -= cents
      await until(() => next % 20 < 10 || next >= orderCount, wait)
      await fund(20_000)
      await until(() => next % 20 >= 10 || next >= orderCount, wait)
    }
  }
  const kill = async (): Promise<void> => {
    for (const at of [1 / 3, 2 / 3]) {
      await until(() => next > orderCount * at, wait)
      await running.kill()
      running = await startFarebox(t, env)
    }
  }
  await Promise.all([treasure(), kill(), ...Array.from({ length: inFlight }, work)])

  // The wallet is filled: what was paid is placed. What is left has no payment, and is canceled.
  await fund(10_000_000)
  const read = async (orderId: string) => (await send(`orders/${orderId}`)).body
  for (const orderId of orderIds) {
    const canBeCanceled = async () => {
      const { status, waitsFor } = await read(orderId)
      return status !== 'awaiting_payment' || waitsFor === 'payment'
    }
    await until(canBeCanceled, { timeoutMs: 10_000, everyMs: 200 }).catch(() => null)
    if ((await read(orderId)).status === 'awaiting_payment')
      await send(`orders/${orderId}/cancel`, { method: 'POST' })
  }
  const paidCents = new Map<string, number>()
  for (const [depositId, customer] of pages) {
    const cents = await paidAtProvider(depositId)
    paidCents.set(customer, (paidCents.get(customer) ?? 0) + cents)
    await until(async () => (await send(`deposits/${depositId}`)).body.credited_cents === cents, wait)
  }
  const ends = await Promise.all([...orderIds].map(read))
  const spentCents = new Map<string, number>()
  let costCents = 0
  for (const { status, cancelReason, failureReason, customer, amountCents, yourCostCents } of ends) {
    assert.equal(status === 'completed', (cancelReason ?? failureReason) === null, status)
    if (status !== 'completed') continue
    spentCents.set(customer, (spentCents.get(customer) ?? 0) + amountCents)
    costCents += yourCostCents
  }
  const of = (status: string) => ends.filter((end) => end.status === status).length
  t.diagnostic(
    `${ends.length} orders: ${of('completed')} completed, ${of('canceled')} canceled, ${of('failed')} failed`,
  )
  assert.ok(of('completed') > 0 && of('canceled') > 0)

  const bookOf = (customer: string): number =>
    (paidCents.get(customer) ?? 0) + (movedCents.get(customer) ?? 0) - (spentCents.get(customer) ?? 0)
  const { customers } = (await send('reseller/customers?limit=100')).body as {
    customers: readonly { customerId: string; customer: string; creditCents: number; owedCents: number }[]
  }
  const client = new pg.Client({ connectionString: env.DATABASE_URL })
  await client.connect()
  const { rows } = await client.query<{ customer_id: string; micros: string }>(
    `select data::jsonb ->> 'customerId' as customer_id,
            sum(case type when 'CustomerCharged' then -1 else 1 end * (data::jsonb ->> 'amountMicros')::bigint)::text as micros
       from log.events where stream = $1 and type like 'Customer%' group by 1`,
    [`ledger-${accountId}`],
  )
  await client.end()
  const inLog = new Map(rows.map((row) => [row.customer_id, Number(row.micros) / 10_000]))
  for (const { customerId, customer, creditCents, owedCents } of customers) {
    const book = bookOf(customer)
    assert.equal(creditCents - owedCents, book, `${customer}: the API and the shop`)
    assert.equal(inLog.get(customerId) ?? 0, book, `${customer}: the log and the shop`)
  }
  assert.equal(await walletCents(), fundedCents - costCents, 'the wallet')
  const { totals } = (await send('reseller/statement')).body
  const revenueCents = [...spentCents.values()].reduce((sum, cents) => sum + cents, 0)
  assert.deepEqual([totals.costCents, totals.revenueCents], [costCents, revenueCents], 'the statement')
  assert.equal((await operate(['ledger', 'seal'], env)).code, 0)
  const verified = await operate(['ledger', 'verify', '--json'], env)
  assert.equal(verified.code, 0, verified.out.slice(0, 2_000))
  await running.stop()
})
