import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { call } from '../support/farebox.ts'
import { compareWithLog } from '../support/fold-compare.ts'
import { until } from '../support/until.ts'
import { counted, logOf, openTwo } from './two-shops.ts'

const meetings = process.env.FAREBOX_SOAK === '1' ? 1_000 : 8
const atOnce = 4
const orders = '/api/v1/orders'
const traffic = { product_id: 'residential-premium', quantity: 1, method: 'card' }

test(`the retry, the callback and the poller meet ${meetings} times over two services: one order, one charge, one message`, async (t) => {
  const two = await openTwo(t, { FAREBOX_DEPOSIT_LOOK_MS: '300' })
  const { shops, demo, pool, env } = two
  const { sandbox } = demo
  const { accountId, key } = demo.reseller
  const run = async (...args: readonly string[]) => {
    const { code, json } = await two.operator(...args)
    assert.equal(code, 0, JSON.stringify(json))
  }
  const bot = join(env.FAREBOX_DATA!, 'bot.json')
  await writeFile(bot, JSON.stringify({ token: '123456:AbC', apiUrl: sandbox }))
  await run('reseller', 'set', '--account', accountId, '--markup', '1.30', '--bot', bot)
  await run(
    ...['reseller', 'gateway', '--account', accountId],
    ...['--rail', 'card', '--provider', 'stripe', '--sandbox'],
  )
  await run(
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', '10000000', '--reference', 'meetings'],
  )
  const price = '/api/v1/products/residential-premium/price?quantity=1'
  for (const { baseUrl } of shops)
    await until(async () => (await call(`${baseUrl}${price}`, key)).body.marginCents > 0)
  const { amountCents, yourCostCents } = (await call(`${shops[0].baseUrl}${price}`, key)).body
  const startCents = (await call(`${shops[0].baseUrl}/api/v1/wallet`, key)).body.balanceCents as number

  const ask = (shop: number, n: number) =>
    call(`${shops[shop]!.baseUrl}${orders}`, key, {
      body: traffic,
      headers: { 'Idempotency-Key': `key ${n}`, 'X-Reseller-Customer-Id': `customer ${n}` },
    })
  const answers: { status: number; body: { code?: string; orderId?: string; depositId?: string } }[] = []
  const chargeCents: number[] = []

  const meet = async (n: number): Promise<void> => {
    const short = await ask(n % 2, n)
    assert.equal(short.body.code, 'customer_credit_insufficient', JSON.stringify(short.body))
    chargeCents.push(short.body.chargeCents)
    const { rows } = await pool.query('select customer_id from vault.customers where ref = $1::text', [
      `customer ${n}`,
    ])
    const customer = `${shops[0].baseUrl}/api/v1/reseller/customers/${rows[0].customer_id}`
    await call(customer, key, { method: 'PATCH', body: { bot_chat_id: String(n + 1) } })
    const waitMs = randomBytes(1)[0]! / 4
    const retry = async (shop: number) => {
      await new Promise((resolve) => setTimeout(resolve, (waitMs * (shop + 1)) % 60))
      const answer = await ask(shop, n)
      if (answer.status === 402)
        assert.equal(answer.body.depositId, short.body.depositId, JSON.stringify(answer.body))
      answers.push(answer)
    }
    const pay = fetch(`${sandbox}/_sandbox/invoices/${short.body.depositId}/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    const [paid] = await Promise.all([pay, retry(0), retry(1), retry(0), retry(1)])
    assert.equal(paid.status, 200)
    await until(async () => {
      const answer = await ask(n % 2, n)
      answers.push(answer)
      return answer.status === 200 && answer.body.status === 'completed'
    })
  }
  const waiting = Array.from({ length: meetings }, (_, n) => n)
  const client = async (): Promise<void> => {
    for (let n = waiting.pop(); n !== undefined; n = waiting.pop()) await meet(n)
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  process.stdout.write(`# paid orders: ${JSON.stringify({ meetings, ...counted(answers) })}\n`)

  const count = async (type: string): Promise<{ total: number; each: number }> => {
    const { rows } = await pool.query(
      `select count(*)::bigint as total,
              count(distinct coalesce(data::jsonb->'order'->>'orderId', data::jsonb->>'depositId', data::jsonb->>'orderId'))::bigint as each
         from log.events where type = $1::text`,
      [type],
    )
    return rows[0]
  }
  for (const type of ['CustomerCredited', 'CustomerCharged', 'OrderPaid', 'OrderFulfilled', 'PlanActivated'])
    assert.deepEqual(await count(type), { total: meetings, each: meetings }, type)
  const placed = new Set(answers.filter(({ status }) => status === 200).map(({ body }) => body.orderId))
  assert.equal(placed.size, meetings)
  const { body: wallet } = await call(`${shops[1].baseUrl}/api/v1/wallet`, key)
  assert.equal(wallet.balanceCents, startCents - meetings * yourCostCents)
  const { rows } = await pool.query('select sum(credit_micros)::bigint as left from read.customers')
  const paidCents = chargeCents.reduce((sum, cents) => sum + cents, 0)
  assert.equal(rows[0].left, (paidCents - meetings * amountCents) * 10_000)

  const sent = async () =>
    (
      (await (await fetch(`${sandbox}/_sandbox/telegram/messages`)).json()) as {
        messages: { chat_id: number; text: string }[]
      }
    ).messages
  await until(async () => (await sent()).length >= meetings, { timeoutMs: 60_000, what: 'all messages' })
  await until(async () => {
    const open = await pool.query('select 1 from work.messages where finished_at is null')
    return open.rowCount === 0
  })
  const messages = await sent()
  assert.equal(messages.length, meetings)
  assert.equal(new Set(messages.map(({ chat_id: chat }) => chat)).size, meetings)
  const { differences } = await compareWithLog(pool, await logOf(t, two))
  assert.deepEqual(differences, [])
})
