import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { paymentPoints } from '../../src/crash.ts'
import { memoryRecords } from '../../src/sandbox/records.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { demoEnv } from '../support/demo-env.ts'
import { call, dataDirectory, type FareboxProcess, farebox, startFarebox } from '../support/farebox.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const randomKills = soak ? 60 : 3
const payers = 6
const found = { kills: 0, invoices: 0, payments: 0, cents: 0, answers: 0, unanswered: 0 }

after(() => {
  process.stdout.write(`# payment chaos: ${JSON.stringify(found)}\n`)
})

type Party = {
  readonly accountId: string
  readonly key: string
  readonly customers: readonly (string | null)[]
}
type Asked = {
  readonly party: Party
  readonly customer: string | null
  readonly name: string
  readonly body: { readonly amount_cents: number; readonly method: string }
  depositId: string | null
}
type World = {
  readonly env: NodeJS.ProcessEnv
  readonly sandbox: string
  readonly parties: readonly Party[]
  readonly startCents: ReadonlyMap<string, number>
  readonly asked: Asked[]
}

/** A port that stays the same over the kills, so that callbacks find whoever runs. */
const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })

const json = async (method: string, url: string, body?: unknown) => {
  const response = await fetch(url, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: what the stand-in shows
  return { status: response.status, body: (await response.json()) as any }
}

const balanceOf = async (baseUrl: string, key: string): Promise<number> =>
  (await call(`${baseUrl}/api/v1/wallet`, key)).body.balanceCents

const setUp = async (t: TestContext): Promise<World> => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const { url } = await emptyDatabase(t)
  const dataDir = await dataDirectory(t)
  const env = {
    ...demoEnv(url, dataDir),
    FAREBOX_SANDBOX_URL: sandbox.baseUrl,
    FAREBOX_DEPOSIT_LOOK_MS: '500',
    PORT: String(await freePort()),
  }
  const first = await startFarebox(t, env)
  const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const gateway = ['reseller', 'gateway', '--account', demo.reseller.accountId, '--sandbox', '--rail']
  for (const rail of [
    ['card', '--provider', 'stripe'],
    ['crypto', '--provider', 'nowpayments'],
  ]) {
    const set = await farebox(t, [...gateway, ...rail], env)
    assert.equal(set.code, 0, set.err)
  }
  const parties = [
    { ...demo.buyer, customers: [null] },
    { ...demo.reseller, customers: [null, 'ann', 'bob'] },
  ]
  const startCents = new Map<string, number>()
  for (const { key } of parties) startCents.set(key, await balanceOf(first.baseUrl, key))
  await first.stop()
  return { env, sandbox: sandbox.baseUrl, parties, startCents, asked: [] }
}

/** Asks for the deposit; one key is one deposit, whenever and however often it is asked for. */
const ask = async (asked: Asked, baseUrl: string): Promise<boolean> => {
  const { party, customer, name, body } = asked
  const { status, body: answer } = await call(`${baseUrl}/api/v1/deposits`, party.key, {
    body,
    headers: {
      'Idempotency-Key': name,
      ...(customer === null ? {} : { 'X-Reseller-Customer-Id': customer }),
    },
  })
  if (status !== 200) {
    assert.ok([502, 503].includes(status), JSON.stringify(answer))
    return false
  }
  asked.depositId ??= answer.deposit_id
  found.answers += 1
  return true
}

const act = (world: World, id: string, deed: string, cents?: number) =>
  json(
    'POST',
    `${world.sandbox}/_sandbox/invoices/${id}/${deed}`,
    cents === undefined ? {} : { amount_cents: cents },
  )

/** What payers do: pay at once, in parts, too much, twice, late, or not at all. */
const pay = async (world: World, { depositId, body }: Asked): Promise<void> => {
  const id = depositId as string
  const due = Math.max(body.amount_cents, body.method === 'card' ? 1000 : 300)
  const deeds: readonly (readonly [string, number?])[] = (
    [
      [['pay', due]],
      [['pay', due + 111]],
      [
        ['pay', 123],
        ['pay', due - 123],
      ],
      [
        ['pay', due],
        ['pay', 77],
      ],
      [['pay', 55], ['expire']],
      [['expire'], ['pay', due]],
      [['process'], ['pay', due]],
      [['expire']],
    ] as const
  )[randomInt(8)] as readonly (readonly [string, number?])[]
  for (const [deed, cents] of deeds) await act(world, id, deed, cents)
}

const switches = () => ({
  lost: Math.random() * 0.5,
  repeats: randomInt(3),
  reorderMs: randomInt(200),
  forged: Math.random() < 0.3,
  lying: Math.random() < 0.3,
})

/** Payers at work until the process is gone. */
const trade = async (world: World, running: FareboxProcess): Promise<void> => {
  let over = false
  void running.ended.then(() => {
    over = true
  })
  const payer = async (): Promise<void> => {
    for (let n = 0; !over && n < 200; n += 1) {
      const party = world.parties[randomInt(world.parties.length)] as Party
      const customer = party.customers[randomInt(party.customers.length)] ?? null
      const method = ['card', 'crypto'][randomInt(2)] as string
      const body = { amount_cents: 1 + randomInt(5_000), method }
      const asked: Asked = { party, customer, name: randomBytes(6).toString('hex'), body, depositId: null }
      world.asked.push(asked)
      await json('PUT', `${world.sandbox}/_sandbox/switches`, switches())
      try {
        if (await ask(asked, running.baseUrl)) await pay(world, asked)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        found.unanswered += 1
      }
    }
  }
  await Promise.all(Array.from({ length: payers }, payer))
}

type Invoice = {
  readonly deposit_id: string
  readonly provider: string
  readonly paid_cents: number
  readonly payments: unknown[]
}

/** Everything that the stand-in says was paid is credited once, to whom it is owed, and nothing else is. */
const audit = async (world: World, baseUrl: string): Promise<void> => {
  await json('DELETE', `${world.sandbox}/_sandbox/switches`)
  // What was not answered is asked for again, so that no deposit is left between two steps.
  for (const asked of world.asked.filter(({ depositId }) => depositId === null))
    await until(() => ask(asked, baseUrl), { timeoutMs: 30_000, what: 'an answer to a retry' })
  const { invoices } = (await json('GET', `${world.sandbox}/_sandbox/invoices`)).body as {
    invoices: Invoice[]
  }
  const paid = new Map<string, number>()
  for (const { deposit_id, paid_cents } of invoices)
    paid.set(deposit_id, (paid.get(deposit_id) ?? 0) + paid_cents)
  const partyOf = new Map(world.asked.map((asked) => [asked.depositId, asked]))
  const expected = new Map(world.startCents)
  const credits = new Map<string, number>()
  for (const [depositId, cents] of paid) {
    const asked = partyOf.get(depositId)
    assert.ok(asked, 'an invoice for a deposit that nobody was told of')
    if (asked.customer === null) expected.set(asked.party.key, (expected.get(asked.party.key) ?? 0) + cents)
    else credits.set(asked.customer, (credits.get(asked.customer) ?? 0) + cents)
    const read = () => call(`${baseUrl}/api/v1/deposits/${depositId}`, asked.party.key)
    try {
      await until(async () => (await read()).body.credited_cents === cents, { timeoutMs: 30_000 })
    } catch {
      assert.fail(`${depositId} was paid ${cents} and reads ${JSON.stringify((await read()).body)}`)
    }
  }
  for (const { key } of world.parties) assert.equal(await balanceOf(baseUrl, key), expected.get(key))
  const { key } = world.parties[1] as Party
  const { customers } = (await call(`${baseUrl}/api/v1/reseller/customers`, key)).body
  for (const { customer, creditCents } of customers) assert.equal(creditCents, credits.get(customer) ?? 0)
  // Stripe's keys and BTCPay's search hold over a kill; NOWPayments has neither, and its second invoice nobody knows.
  const counted = invoices.filter(({ provider }) => provider !== 'nowpayments')
  assert.equal(
    new Set(counted.map(({ deposit_id }) => deposit_id)).size,
    counted.length,
    'two invoices of one deposit',
  )
  found.invoices = invoices.length
  found.payments = invoices.reduce((sum, { payments }) => sum + payments.length, 0)
  found.cents = [...paid.values()].reduce((sum, cents) => sum + cents, 0)
}

describe('payments through a server that is killed', () => {
  test('are credited once each, whatever callbacks do and wherever it dies', {
    timeout: 600_000,
  }, async (t) => {
    const world = await setUp(t)
    for (const point of paymentPoints) {
      const env = { ...world.env, FAREBOX_CRASH_AT: `${point}:${4 + randomInt(12)}` }
      // What waits in the inbox may bring it to the point before it is ready: that is a kill like another.
      const running = await startFarebox(t, env).catch((error: Error) => {
        assert.match(error.message, /^Farebox ended/)
        return null
      })
      found.kills += 1
      if (running === null) continue
      const trading = trade(world, running)
      const timer = setTimeout(() => void running.kill(), 20_000)
      await Promise.all([trading, running.ended])
      clearTimeout(timer)
    }
    for (let kill = 0; kill < randomKills; kill += 1) {
      const running = await startFarebox(t, world.env)
      const trading = trade(world, running)
      await new Promise((resolve) => setTimeout(resolve, 200 + randomInt(1_500)))
      await running.kill()
      await trading
      found.kills += 1
    }
    const last = await startFarebox(t, world.env)
    await audit(world, last.baseUrl)
    const verified = await farebox(t, ['ledger', 'verify'], world.env)
    assert.equal(verified.code, 0, verified.out + verified.err)
    await last.stop()
  })
})
