import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideCreation } from '../../../src/domain/accounts/decide.ts'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import type { DepositDetails } from '../../../src/domain/deposits/events.ts'
import type { Reversal } from '../../../src/domain/payments/payments.ts'
import { bookReversal } from '../../../src/features/deposits/reversals.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { AccountId, CustomerId, DepositId } from '../../../src/kernel/ids.ts'
import { accountStream } from '../../../src/kernel/streams.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'

const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
const accountId = 'acc_shop' as AccountId
const ann = 'cus_ann' as CustomerId

const detailsOf = (customerId: CustomerId | null): DepositDetails => ({
  depositId: 'dep_1' as DepositId,
  accountId,
  customerId,
  rail: 'card',
  amountCents: 1_000,
  gatewayId: 'gateway',
  provider: 'stripe',
  merchantName: 'Shop',
  fingerprint: 'f',
  pending: null,
})

/**
 * A reseller with money in its wallet and a customer with credit, so that a chargeback above the deposit is
 * visible.
 */
const setUp = async (heldCents: number) => {
  const log = createMemoryLog()
  const runner = runnerOver(log)
  const wallets = createWallets({ runner })
  await runner.run({
    name: 'open-account',
    streams: { account: { stream: accountStream(accountId), fold: accountFold } },
    decide: ({ account }) => {
      const decision = decideCreation(account, { accountId, reseller: true, emailCommitment: '0'.repeat(64) })
      const events = decision.outcome === 'decided' ? decision.events : []
      return { appends: [{ stream: accountStream(accountId), events }], answer: null }
    },
    ...cause,
  })
  if (heldCents > 0) {
    await wallets.credit({ accountId, amountCents: heldCents, reference: 'start' }, cause)
    const payment = { reason: 'payment', gateway: null, reference: 'start', amountCents: heldCents } as const
    await wallets.adjustCustomer({ accountId, customerId: ann, ...payment }, cause)
  }
  return {
    wallets,
    close: () => runner.close(),
    /** What moved money by adjustments, in the order of the log. */
    adjusted: async (): Promise<readonly Record<string, unknown>[]> =>
      (await log.readAll(0, 1_000))
        .filter(({ type }) => type === 'WalletAdjusted' || type === 'CustomerAdjusted')
        .map(({ data }) => JSON.parse(data)),
    /** The owner's money less its debt, in cents. */
    net: async (customerId: CustomerId | null): Promise<number> => {
      if (customerId === null) {
        const { availableMicros, receivableMicros } = await wallets.read(accountId, cause)
        return (availableMicros - receivableMicros) / 10_000
      }
      const { availableMicros, receivableMicros } = (await wallets.customerCredit(accountId, cause))(
        customerId,
      )
      return (availableMicros - receivableMicros) / 10_000
    },
  }
}

/** A dispute with the movements of the provider's balance, micro-dollars. */
const dispute = (...amounts: readonly number[]): Reversal => ({
  reason: 'chargeback',
  reversalId: 'dp_1',
  movements: amounts.map((amountMicros, n) => ({
    transactionId: `txn_${n}`,
    currency: 'usd',
    amountMicros,
    feeMicros: 0,
    at: '2026-11-20T00:00:00.000Z',
  })),
})

test('a dispute takes at most the credited amount, once, and returns exactly that when it is won', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(null, ann),
      fc.integer({ min: 0, max: 3_000 }),
      fc.integer({ min: 0, max: 20_000_000 }),
      fc.integer({ min: 1, max: 40_000_000 }),
      fc.array(fc.constantFrom('withdrawn' as const, 'reinstated' as const), { minLength: 1, maxLength: 5 }),
      async (customerId, heldCents, creditedMicros, disputedMicros, states) => {
        const { wallets, net, close } = await setUp(heldCents)
        const deposit = { details: detailsOf(customerId), creditedMicros }
        const before = await net(customerId)
        const takesMicros = Math.min(creditedMicros, disputedMicros)
        let won = false
        for (const state of states) {
          const movements =
            state === 'withdrawn' ? [0 - disputedMicros] : [0 - disputedMicros, disputedMicros]
          const booked = await bookReversal(wallets, deposit, dispute(...movements), cause)
          assert.equal(booked.refused, null)
          if (state === 'withdrawn') assert.equal(booked.uncoveredMicros, takesMicros - disputedMicros)
          else assert.ok(booked.uncoveredMicros === 0)
          won ||= state === 'reinstated'
          assert.equal(await net(customerId), won ? before : (before * 10_000 - takesMicros) / 10_000)
        }
        // The other side is as it was.
        assert.equal(await net(customerId === null ? ann : null), heldCents)
        await close()
      },
    ),
    { numRuns: runs(100, 3_000) },
  )
})

test('the net of all movements of a dispute is booked: a part that returns, a second withdrawal, a second return', async () => {
  const { wallets, net, adjusted, close } = await setUp(0)
  const deposit = { details: detailsOf(ann), creditedMicros: 10_000_000 }
  const amounts = [-10_000_000, 4_000_000, -4_000_000, 10_000_000]
  const nets = [-1_000, -600, -1_000, 0]
  for (const [n, cents] of nets.entries()) {
    for (const _ of ['once', 'again'])
      assert.deepEqual(await bookReversal(wallets, deposit, dispute(...amounts.slice(0, n + 1)), cause), {
        refused: null,
        uncoveredMicros: 0,
      })
    assert.equal(await net(ann), cents)
  }
  assert.deepEqual(
    (await adjusted()).map(({ reference }) => reference),
    ['stripe dp_1 txn_0', 'stripe dp_1 txn_1', 'stripe dp_1 txn_2', 'stripe dp_1 txn_3'],
  )
  await close()
})

/** Movements in micro-dollars by their ids. */
const disputeOf = (
  movements: readonly (readonly [transactionId: string, amountMicros: number])[],
): Reversal => ({
  ...dispute(),
  movements: movements.map(([transactionId, amountMicros]) => ({
    ...dispute(amountMicros).movements[0]!,
    transactionId,
  })),
})

for (const { name, seen, cents } of [
  { name: 'a part that returned is seen late', seen: [['-2500'], ['500', '-2500']], cents: -2_000 },
  {
    name: 'a second withdrawal is seen late',
    seen: [
      ['-2500', '2500'],
      ['-500', '-2500', '2500'],
    ],
    cents: -500,
  },
  { name: 'a won dispute is listed by its return', seen: [['2500', '-2500']], cents: 0 },
  { name: 'a dispute is won before it is seen whole', seen: [['-2500'], ['2500', '-2500']], cents: 0 },
])
  test(`the sum of a dispute is booked: ${name}`, async () => {
    const { wallets, net, close } = await setUp(0)
    const deposit = { details: detailsOf(null), creditedMicros: 25_000_000 }
    for (const amounts of seen) {
      const movements = amounts.map((id) => [id, Number(id) * 10_000] as const)
      await bookReversal(wallets, deposit, disputeOf(movements), cause)
    }
    assert.equal(await net(null), cents)
    await close()
  })

test('any number of movements, seen in any order: the capped sum of those that were seen is booked', async () => {
  const amount = fc.integer({ min: -30_000_000, max: 30_000_000 })
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(null, ann),
      fc.integer({ min: 0, max: 20_000_000 }),
      fc.array(amount, { minLength: 1, maxLength: 6 }),
      // The movements of each poll. The last one has all of them.
      fc.array(fc.array(fc.nat(5), { minLength: 1, maxLength: 6 }), { maxLength: 4 }),
      async (customerId, creditedMicros, amounts, polls) => {
        const { wallets, net, close } = await setUp(0)
        const deposit = { details: detailsOf(customerId), creditedMicros }
        const all = amounts.map((_, n) => n)
        const seen = new Set<number>()
        for (const poll of [...polls, all]) {
          for (const n of poll) if (n < amounts.length) seen.add(n)
          const order = [...seen].sort((one, other) => poll.indexOf(one) - poll.indexOf(other))
          const booked = await bookReversal(
            wallets,
            deposit,
            disputeOf(order.map((n) => [`txn_${n}`, amounts[n]!])),
            cause,
          )
          const sum = order.reduce((total, n) => total + amounts[n]!, 0)
          const capped = Math.max(Math.min(sum, 0), 0 - creditedMicros)
          assert.deepEqual(booked, { refused: null, uncoveredMicros: sum - capped })
          assert.equal(await net(customerId), capped / 10_000)
        }
        await close()
      },
    ),
    { numRuns: runs(60, 2_000) },
  )
})

test('a dispute that grew before it was won returns what it took', async () => {
  const { wallets, net, close } = await setUp(0)
  const deposit = { details: detailsOf(ann), creditedMicros: 10_000_000 }
  await bookReversal(wallets, deposit, dispute(-4_000_000), cause)
  assert.equal(await net(ann), -400)
  await bookReversal(wallets, deposit, dispute(-4_000_000, -5_000_000), cause)
  assert.equal(await net(ann), -900)
  await bookReversal(wallets, deposit, dispute(-4_000_000, -5_000_000, 9_000_000), cause)
  assert.equal(await net(ann), 0)
  await close()
})

for (const [whose, customerId] of [
  ['of a wallet', null],
  ["of a customer's credit", ann],
] as const)
  test(`a chargeback ${whose} names its deposit, once, and so does its return; a manual one names none`, async () => {
    const { wallets, adjusted, close } = await setUp(0)
    const deposit = { details: detailsOf(customerId), creditedMicros: 10_000_000 }
    for (const movements of [[-4_000_000], [-4_000_000], [-4_000_000, 4_000_000], [-4_000_000, 4_000_000]])
      await bookReversal(wallets, deposit, dispute(...movements), cause)
    const byHand = {
      accountId,
      amountCents: 5,
      reference: 'thanks',
      reason: 'goodwill',
      gateway: null,
    } as const
    await (customerId === null
      ? wallets.adjust(byHand, cause)
      : wallets.adjustCustomer({ ...byHand, customerId }, cause))
    assert.deepEqual(
      (await adjusted()).map((data) => [data.reference, data.depositId, Object.hasOwn(data, 'depositId')]),
      [
        ['stripe dp_1 txn_0', 'dep_1', true],
        ['stripe dp_1 txn_1', 'dep_1', true],
        ['thanks', undefined, false],
      ],
    )
    await close()
  })

test('a movement that an operator booked under its name is not booked again', async () => {
  const { wallets, adjusted, net, close } = await setUp(2_000)
  const before = { reason: 'chargeback', gateway: 'stripe', reference: 'stripe dp_1 txn_0' } as const
  await wallets.adjust({ accountId, amountCents: -400, ...before }, cause)
  const standing = await adjusted()
  const deposit = { details: detailsOf(null), creditedMicros: 10_000_000 }
  const booked = await bookReversal(wallets, deposit, dispute(-4_000_000), cause)
  assert.deepEqual(booked, { refused: null, uncoveredMicros: 0 })
  assert.equal(await net(null), 1_600)
  assert.deepEqual(await adjusted(), standing)
  await close()
})
