import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { groups } from '../../../projections/groups.ts'
import { decideCreation } from '../../../src/domain/accounts/decide.ts'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import type { Provider } from '../../../src/domain/payments/payments.ts'
import type { DepositRequest } from '../../../src/features/deposits/deposit-service.ts'
import type { AccountId, CustomerId } from '../../../src/kernel/ids.ts'
import { accountStream, ledgerStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { startSandbox } from '../../../src/sandbox/sandbox-server.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { startEngine } from '../../platform/projections/engine.ts'
import { memoryRecords } from '../../support/memory-records.ts'
import { testDatabase } from '../../support/postgres.ts'
import { prefixLog, type Stop } from '../../support/prefix-log.ts'
import { until } from '../../support/until.ts'
import { assertVerified } from '../../support/verify.ts'
import { type Installation, openDepositProcess, openReceiver } from './prefix-process.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const depositsEach = soak ? 400 : 12
const payers = 5
/** One append in this many is stopped. */
const oneIn = 8

const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
const shop = 'acc_shop' as AccountId
const other = 'acc_other' as AccountId
const customers = ['cus_ann', 'cus_bob'] as unknown as readonly CustomerId[]

const stops: readonly Stop[] = [
  { kind: 'unavailable' },
  { kind: 'unknown', written: true },
  { kind: 'unknown', written: false },
  { kind: 'crash', written: true },
  { kind: 'crash', written: false },
]

type Entry = DepositRequest & { payUrl: string | null; depositId: string | null }

test('two processes over a log without atomic appends, stopped at any append: each payment is credited once, and the books pass verification', {
  timeout: soak ? 1_800_000 : 240_000,
}, async (t) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  await startEngine(t, pool, log, groups)
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const receiver = await openReceiver(t, pool)
  const stored = (owner: AccountId | null, provider: Provider) => ({
    gatewayId: `gw-${owner}-${provider}`,
    owner,
    merchantName: 'Shop',
    credentials: { provider, sandbox: true as const },
  })
  const installation: Installation = {
    pool,
    master: masterKey(Buffer.alloc(32, 7)),
    sandboxUrl: sandbox.baseUrl,
    publicUrl: receiver.url,
    gateways: [
      stored(shop, 'stripe'),
      stored(shop, 'nowpayments'),
      stored(other, 'stripe'),
      stored(other, 'btcpay'),
    ],
  }
  receiver.open(installation)
  const runner = runnerOver(log)
  for (const accountId of [shop, other])
    await runner.run({
      name: 'open-account',
      streams: { account: { stream: accountStream(accountId), fold: accountFold } },
      decide: ({ account }) => {
        const decision = decideCreation(account, {
          accountId,
          reseller: true,
          emailCommitment: '0'.repeat(64),
        })
        const events = decision.outcome === 'decided' ? decision.events : []
        return { appends: [{ stream: accountStream(accountId), events }], answer: null }
      },
      ...cause,
    })
  await runner.close()

  const seen = { stops: 0, crashes: 0, outages: 0 }
  let calm = false
  const open = () =>
    openDepositProcess(
      installation,
      prefixLog(log, () => {
        if (calm || randomInt(oneIn) > 0) return null
        seen.stops += 1
        return stops[randomInt(stops.length)] as Stop
      }),
    )
  const processes = [open(), open()]
  const keepers = processes.map(async (_, at) => {
    while (!calm) {
      const process = processes[at]!
      await Promise.race([process.died, sleep(50)])
      if (!process.dead()) continue
      seen.crashes += 1
      await process.bury()
      processes[at] = open()
    }
  })
  const sandboxDoes = async (path: string, body: object, method = 'POST'): Promise<void> => {
    const headers = { 'content-type': 'application/json' }
    await fetch(`${sandbox.baseUrl}/_sandbox/${path}`, { method, headers, body: JSON.stringify(body) })
  }

  const all: Entry[] = []
  const ask = async (entry: Entry): Promise<boolean> => {
    const process = processes[randomInt(2)]!
    const { payUrl: _a, depositId: _b, ...request } = entry
    const opening = process.deposits.open(request, cause).then(
      (opened) => opened,
      (error: Error) => {
        seen.outages += 1
        assert.ok(['ApiError', 'CommandOverload', 'Crash'].includes(error.name), error.stack)
        return null
      },
    )
    const opened = await Promise.race([opening, process.died.then(() => null)])
    if (!opened) return false
    const { depositId } = opened.deposit.details
    assert.equal(depositId, entry.depositId ?? depositId, 'one key gave two deposits')
    assert.equal(opened.payUrl, entry.payUrl ?? opened.payUrl, 'one deposit gave two pay pages')
    entry.depositId = depositId
    entry.payUrl = opened.payUrl
    return true
  }
  /**
   * A storm with enough requests: requests to a dead process fail at once, so that a storm can end too soon.
   */
  const stormy = () => seen.crashes > 3 && seen.stops > 10
  const payer = async (who: number): Promise<void> => {
    for (let n = 0; n < depositsEach || (!stormy() && n < 10 * depositsEach); n += 1) {
      const entry: Entry = {
        accountId: randomInt(2) === 0 ? shop : other,
        customerId: customers[randomInt(customers.length)] as CustomerId,
        idempotencyKey: `${who}-${n}`,
        fingerprint: 'f',
        amountCents: 300 + randomInt(3_000),
        rail: randomInt(2) === 0 ? 'card' : 'crypto',
        returnUrl: 'https://a.example/',
        pending: null,
        payUrl: null,
        depositId: null,
      }
      all.push(entry)
      const apiCut = ['never', 'before', 'after'][randomInt(3)]
      const chaos = { lost: Math.random() * 0.5, repeats: randomInt(3), reorderMs: randomInt(100), apiCut }
      await sandboxDoes('switches', { ...chaos, apiCutShare: 0.1, lying: randomInt(3) === 0 }, 'PUT')
      if (!(await ask(entry))) continue
      const due = Math.max(entry.amountCents, entry.rail === 'card' ? 1_000 : 300)
      const ways: readonly (readonly (readonly [string, number?])[])[] = [
        [['pay', due]],
        [
          ['pay', 111],
          ['pay', due],
        ],
        [['expire'], ['pay', due]],
        [['pay', 77], ['expire']],
        [['expire']],
      ]
      for (const [deed, cents] of ways[randomInt(ways.length)] ?? [])
        await sandboxDoes(
          `invoices/${entry.payUrl?.split('/').at(-1)}/${deed}`,
          cents === undefined ? {} : { amount_cents: cents },
        )
    }
  }
  await Promise.all(Array.from({ length: payers }, (_, who) => payer(who)))

  // After the storm interrupted requests are repeated, and payments are polled.
  calm = true
  await Promise.all(keepers)
  for (const [at, process] of processes.entries())
    if (process.dead()) {
      await process.bury()
      processes[at] = open()
    }
  t.after(() => Promise.all(processes.map((process) => process.close())))
  await sandboxDoes('switches', {}, 'DELETE')
  for (const entry of all)
    if (entry.payUrl === null) await until(() => ask(entry), { timeoutMs: 40_000, what: 'an answer' })
  const { invoices } = (await (await fetch(`${sandbox.baseUrl}/_sandbox/invoices`)).json()) as {
    invoices: readonly { deposit_id: string; provider: string; paid_cents: number; payments: unknown[] }[]
  }
  const paid = new Map<string, number>()
  for (const { deposit_id, paid_cents } of invoices)
    paid.set(deposit_id, (paid.get(deposit_id) ?? 0) + paid_cents)
  const { deposits } = processes[0]!
  for (const { depositId } of all)
    await until(
      async () => {
        const deposit = await deposits.read(depositId as never, cause)
        return deposit?.creditedMicros === (paid.get(depositId ?? '') ?? 0) * 10_000
      },
      { timeoutMs: 40_000, what: `${depositId} to have what was paid, ${paid.get(depositId ?? '')}` },
    )
  const entryOf = new Map(all.map((entry) => [entry.depositId, entry]))
  let credits = 0
  for (const accountId of [shop, other]) {
    const inLedger = new Map<string, number>()
    for await (const one of log.readStream(ledgerStream(accountId))) {
      const event = decode(one) as unknown as LedgerEvent
      assert.equal(event.type, 'CustomerCredited')
      if (event.type !== 'CustomerCredited') continue
      const { depositId, customerId, amountMicros } = event.data
      const entry = entryOf.get(depositId)
      assert.deepEqual([entry?.accountId, entry?.customerId], [accountId, customerId], 'it is its own')
      inLedger.set(depositId ?? '', (inLedger.get(depositId ?? '') ?? 0) + amountMicros)
      credits += 1
    }
    for (const [depositId, micros] of inLedger)
      assert.equal(micros, (paid.get(depositId) ?? 0) * 10_000, `${depositId} is credited once`)
  }
  const payments = invoices.reduce((sum, one) => sum + one.payments.length, 0)
  assert.equal(credits, payments)
  await assertVerified({ pool, log })
  assert.ok(stormy(), JSON.stringify(seen))
  const cents = [...paid.values()].reduce((sum, one) => sum + one, 0)
  const { taken, refused } = receiver.found
  t.diagnostic(
    JSON.stringify({
      deposits: all.length,
      invoices: invoices.length,
      payments,
      cents,
      ...seen,
      taken,
      refused,
    }),
  )
})
