import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decideCreation } from '../../../src/domain/accounts/decide.ts'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { createCompletion } from '../../../src/features/orders/complete-orders.ts'
import { readOrder, refundIdOf, refundOrder } from '../../../src/features/orders/refund-order.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { CustomerId, OrderId } from '../../../src/kernel/ids.ts'
import { rememberedMs } from '../../../src/kernel/recent-ids.ts'
import { accountStream, ledgerStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import type { Caller } from '../../../src/platform/http/auth.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { createPlaceQuoted } from '../../support/place-quoted.ts'
import { testDatabase } from '../../support/postgres.ts'
import { prefixLog, type StopAt } from '../../support/prefix-log.ts'
import { buyer, forCustomer, planOrder } from '../../support/world.ts'

const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
const start = Date.parse('2026-11-21T00:00:00.000Z')
const ledger = ledgerStream(buyer)
const caller = {
  accountId: buyer,
  keyId: 'key_one',
  capKeyId: 'key_one',
  cap: null,
  reseller: true,
} as Caller

/** Orders and refunds of a process that has just started, at a given time, on a log without atomic items. */
const processAt = (real: EventLog, nowMs: number, stopAt?: StopAt) => {
  const log = prefixLog(real, stopAt)
  const limits = { resendFirstMs: 1, resendMaxMs: 4, unknownOutcomeWaitMs: 200, closeMs: 20 }
  const runner = runnerOver(log, { clock: () => nowMs, limits })
  const complete = createCompletion({ log, runner })
  const placeQuoted = createPlaceQuoted({ log, runner })
  const wallets = createWallets({ runner })
  return {
    wallets,
    complete,
    openAccount: () =>
      runner.run({
        name: 'open-account',
        streams: { account: { stream: accountStream(buyer), fold: accountFold } },
        decide: ({ account }) => {
          const decision = decideCreation(account, {
            accountId: buyer,
            reseller: true,
            emailCommitment: '0'.repeat(64),
          })
          const events = decision.outcome === 'decided' ? decision.events : []
          return { appends: [{ stream: accountStream(buyer), events }], answer: null }
        },
        ...cause,
      }),
    order: (customer: boolean) =>
      placeQuoted({ caller, requestId: 'test', idempotencyKey: 'one', fingerprint: 'one' }, (orderId) => {
        const order = planOrder(orderId, { renewal: 'repurchase' })
        const { createdAt: _, ...draft } = customer ? forCustomer(order) : order
        return draft
      }),
    refund: (orderId: OrderId) =>
      refundOrder(
        { log, runner, settleTraffic: async () => undefined },
        { orderId, refundId: refundIdOf(orderId, 'one'), request: { kind: 'whole' }, ...cause },
      ),
    end: () => runner.close(),
  }
}
type Process = ReturnType<typeof processAt>

/** The log is gone from there on: before the money of the refund moves, or right after it. */
const stopsAtMoney = (moved: boolean): StopAt => {
  let paid = false
  let gone = false
  return ({ append }) => {
    const money = append.stream === ledger
    gone ||= money ? !moved : paid
    paid ||= money
    return gone ? { kind: 'unavailable' } : null
  }
}

const finishes = {
  'the same refund, repeated': async (process: Process, orderId: OrderId) => {
    const answer = await process.refund(orderId)
    assert.ok(answer?.kind === 'refunded' || answer?.kind === 'already_applied', JSON.stringify(answer))
  },
  'the completion of open orders': async (process: Process, orderId: OrderId) => {
    await process.complete(orderId, null)
  },
}

describe('a refund that a crash interrupted and that is completed after the wallet no longer remembers it', () => {
  for (const customer of [false, true])
    for (const moved of [false, true])
      for (const [how, finish] of Object.entries(finishes)) {
        const whose = customer ? "of a customer's order" : "of one's own order"
        test(`${whose} ${moved ? 'is not paid twice' : 'is paid'}, by ${how}`, async (t) => {
          const { url } = await testDatabase(t)
          const log = await openLog(url)
          t.after(() => log.close())
          const at = async <Value>(
            ms: number,
            work: (process: Process) => Promise<Value>,
            stopAt?: StopAt,
          ) => {
            const process = processAt(log, start + ms, stopAt)
            try {
              return await work(process)
            } finally {
              await process.end()
            }
          }
          const customerId = forCustomer(planOrder('ord_any')).customerId as CustomerId
          /** Credits on both sides, which make the wallet drop movements older than seven days. */
          const pay = (reference: string) => async (process: Process) => {
            const movement = { accountId: buyer, amountCents: 10_000, reference } as const
            await process.wallets.credit(movement, cause)
            await process.wallets.adjustCustomer(
              { ...movement, customerId, reason: 'payment', gateway: null },
              cause,
            )
          }
          const standing = (process: Process) =>
            Promise.all([
              process.wallets.read(buyer, cause),
              process.wallets.customerCredit(buyer, cause).then((creditOf) => creditOf(customerId)),
            ])
          await at(0, (process) => process.openAccount())
          await at(0, pay('first'))
          const before = await at(0, standing)
          const { order } = await at(1, (process) => process.order(customer))
          const { orderId } = order.details
          await at(2, (process) => assert.rejects(process.refund(orderId)), stopsAtMoney(moved))
          const left = await readOrder(log, orderId)
          assert.deepEqual([left?.refunds.length, left?.refundedCents], [1, 0], 'decided, and not landed')
          await at(3, pay('second'))
          for (const n of [1, 2, 3]) await at(rememberedMs + 10 * n, pay(`later ${n}`))

          const late = 2 * rememberedMs
          for (const _ of [1, 2]) await at(late, (process) => finish(process, orderId))

          const types: string[] = []
          for await (const stored of log.readStream(ledger)) {
            const { type, data } = decode(stored) as LedgerEvent
            if (type === 'CustomerRefunded' || (type === 'WalletCredited' && data.source === 'refund'))
              types.push(type)
          }
          assert.deepEqual(types, [customer ? 'CustomerRefunded' : 'WalletCredited'])
          assert.equal((await readOrder(log, orderId))?.status, 'refunded')
          const [wallet, credit] = await at(late, standing)
          const paidMicros = 4 * 10_000 * 10_000
          assert.equal(wallet.availableMicros, before[0].availableMicros + paidMicros)
          assert.equal(credit.availableMicros, before[1].availableMicros + paidMicros)
        })
      }
})
