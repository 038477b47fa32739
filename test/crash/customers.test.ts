import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { call, dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

const points = ['before-append', 'after-append', 'before-answer'] as const
const passes = process.env.FAREBOX_SOAK === '1' ? [1, 2, 3, 5, 8, 13, 21] : [2]
const inFlight = 4
const orderWait = { timeoutMs: 60_000, everyMs: 50 }
const orders = '/api/v1/orders'
const card = { product_id: 'residential-premium', quantity: 1, method: 'card' }

test('a server that is killed around the payment of a customer places its order once, with one charge on both sides', async (t) => {
  const env = { ...(await seededDatabase(t, await dataDirectory(t))), FAREBOX_DEPOSIT_LOOK_MS: '300' }
  let running = await startFarebox(t, env)
  const demo = await readDemoFile(env.FAREBOX_DATA)
  assert.ok(demo)
  const { accountId, key } = demo.reseller
  for (const args of [
    ['reseller', 'set', '--account', accountId, '--markup', '1.30'],
    // The demo's wallet would not last: a fast machine places more orders than it pays for.
    [
      ...['wallet', 'credit', '--kind=payment', '--account', accountId],
      ...['--cents', '100000000', '--reference', 'crash'],
    ],
    ['reseller', 'gateway', '--account', accountId, '--rail', 'card', '--provider', 'stripe', '--sandbox'],
  ]) {
    const ran = await operate(args, env)
    assert.equal(ran.code, 0, ran.err)
  }
  const price = '/api/v1/products/residential-premium/price?quantity=1'
  const quote = await until(async () => {
    const { body } = await call(`${running.baseUrl}${price}`, key)
    return body.marginCents > 0 && body
  })
  const startCents = (await call(`${running.baseUrl}/api/v1/wallet`, key)).body.balanceCents
  const ask = ({ baseUrl }: FareboxProcess, n: number) =>
    call(`${baseUrl}${orders}`, key, {
      body: card,
      headers: { 'Idempotency-Key': `key ${n}`, 'X-Reseller-Customer-Id': `customer ${n}` },
    })
  const pay = async (depositId: string): Promise<void> => {
    const sandbox = (await readDemoFile(env.FAREBOX_DATA))?.sandbox
    const answer = await fetch(`${sandbox}/_sandbox/invoices/${depositId}/pay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    // 409: the retry of a payment that was taken before.
    assert.ok(answer.ok || answer.status === 409, `the stand-in answers ${answer.status}`)
  }

  let requestCount = 0
  const paid = new Set<string>()
  /** Orders and payments until the process is gone. */
  const load = async (victim: FareboxProcess): Promise<void> => {
    let over = false
    void victim.ended.then(() => {
      over = true
    })
    const client = async (): Promise<void> => {
      while (!over) {
        const n = requestCount
        requestCount += 1
        try {
          const short = await ask(victim, n)
          if (short.status !== 402) continue
          assert.equal(short.body.code, 'customer_credit_insufficient')
          await pay(short.body.depositId)
          await ask(victim, n)
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error
        }
      }
    }
    await Promise.all(Array.from({ length: inFlight }, client))
  }
  await running.stop()
  for (const point of points)
    for (const pass of passes) {
      running = await startFarebox(t, { ...env, FAREBOX_CRASH_AT: `${point}:${pass * 10}` })
      const timer = setTimeout(() => void running.kill(), 15_000)
      await Promise.all([load(running), running.ended])
      clearTimeout(timer)
    }
  running = await startFarebox(t, env)

  // Interrupted requests are repeated and paid until they succeed.
  let next = 0
  const settle = async (): Promise<void> => {
    for (let n = next; n < requestCount; n = next) {
      next += 1
      await until(async () => {
        const answer = await ask(running, n)
        if (answer.status === 402) {
          if (!paid.has(answer.body.depositId)) await pay(answer.body.depositId)
          paid.add(answer.body.depositId)
        }
        return (answer.status === 200 || answer.status === 201) && answer.body.status === 'completed'
        // A deposit whose invoice was being made at the kill is free again after 20 s.
      }, orderWait)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, settle))
  const client = new pg.Client({ connectionString: env.DATABASE_URL })
  await client.connect()
  const { rows } = await client.query<{ what: string; total: string }>(
    `select case type when 'CustomerCharged' then 'charged' else 'fulfilled' end as what, count(*)::bigint as total
       from log.events where type in ('CustomerCharged', 'OrderCompleted', 'OrderFulfilled') group by what`,
  )
  await client.end()
  assert.deepEqual(Object.fromEntries(rows.map(({ what, total }) => [what, Number(total)])), {
    charged: requestCount,
    fulfilled: requestCount,
  })
  const { body: wallet } = await call(`${running.baseUrl}/api/v1/wallet`, key)
  assert.equal(wallet.balanceCents, startCents - requestCount * quote.yourCostCents)
  assert.equal((await operate(['ledger', 'seal'], env)).code, 0)
  const verified = await operate(['ledger', 'verify', '--json'], env)
  assert.equal(verified.code, 0, verified.out.slice(0, 2_000))
  await running.stop()
})
