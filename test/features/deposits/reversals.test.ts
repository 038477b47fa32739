import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideCreation } from '../../../src/domain/accounts/decide.ts'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import { decideInvoice, decideOpen } from '../../../src/domain/deposits/decide.ts'
import { decideRefundRequest } from '../../../src/domain/deposits/decide-refund.ts'
import type { DepositDetails } from '../../../src/domain/deposits/events.ts'
import { createEntryStream } from '../../../src/domain/finance/entries.ts'
import { ledgerRef } from '../../../src/domain/ledger/fold.ts'
import { makeDepositRefund } from '../../../src/features/deposits/refund-deposit.ts'
import { createDepositSettlement, depositRef } from '../../../src/features/deposits/settle-deposit.ts'
import { takeCallback } from '../../../src/features/deposits/take-callbacks.ts'
import { UnreadableAnswer } from '../../../src/features/payments/index.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { CrashHooks } from '../../../src/kernel/crash-points.ts'
import type { AccountId, CustomerId, DepositId } from '../../../src/kernel/ids.ts'
import { accountStream } from '../../../src/kernel/streams.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { silent } from '../../platform/projections/engine.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { prefixLog } from '../../support/prefix-log.ts'
import { createStripeAccount } from './stripe-account.ts'

const cause = { actor: { kind: 'system', name: 'test' }, correlationId: 'test' } as const
const accountId = 'acc_shop' as AccountId
const depositId = 'dep_1' as DepositId
const gatewayId = 'gw_1'
const ann = 'cus_ann' as CustomerId

const detailsOf = (customerId: CustomerId | null, amountCents: number): DepositDetails => ({
  depositId,
  accountId,
  customerId,
  rail: 'card',
  amountCents,
  gatewayId,
  provider: 'stripe',
  merchantName: 'Shop',
  fingerprint: 'f',
  pending: null,
})

type StripeAccount = ReturnType<typeof createStripeAccount>

/** The part of a process that takes callbacks. */
const createProcess = (
  runner: CommandRunner,
  { gateway }: StripeAccount,
  hooks: CrashHooks = { at: () => undefined },
) => {
  const wallets = createWallets({ runner })
  const live = { gatewayId, owner: null, provider: 'stripe', merchantName: 'Shop', gateway } as const
  const gateways = { byId: async () => live }
  const deposits = createDepositSettlement({
    runner,
    gateways,
    orderable: async () => true,
    clock: Date.now,
    logger: silent,
  })
  const dependencies = { gateways, deposits, wallets, runner, hooks, logger: silent }
  return {
    wallets,
    deposits,
    take: (reference: string) => takeCallback(dependencies, { gateway_id: gatewayId, reference }),
    makeRefund: (refundId: string) => makeDepositRefund(dependencies, { depositId, refundId }),
  }
}

/** An account and a deposit with an unpaid invoice. */
const setUp = async (runner: CommandRunner, details: DepositDetails): Promise<void> => {
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
  await runner.run({
    name: 'open',
    streams: depositRef(depositId),
    decide: ({ deposit }, { nowMs }) => decideOpen(deposit, details, nowMs),
    ...cause,
  })
  const far = '2099-01-01T00:00:00.000Z'
  await runner.run({
    name: 'invoice',
    streams: depositRef(depositId),
    decide: ({ deposit }, { nowMs }) =>
      decideInvoice(deposit, { invoiceId: 'cs_1', expiresAt: far, watchUntil: far }, nowMs),
    ...cause,
  })
}

/** The debit balances of all accounts of the books, in cents: `{book} {account}`. */
const booksOf = async (log: EventLog): Promise<ReadonlyMap<string, number>> => {
  const entries = createEntryStream()
  const balances = new Map<string, number>()
  for (const stored of await log.readAll(0, 100_000))
    for (const { book, account, debitMicros, creditMicros } of entries.next(decode(stored))?.postings ?? []) {
      const name = `${book} ${account}`
      balances.set(name, (balances.get(name) ?? 0) + (debitMicros - creditMicros) / 10_000)
    }
  return balances
}

/** Requests refunds here, and makes them in processes that end at a chosen point. */
const createRefunds = (log: EventLog, runner: CommandRunner, stripe: StripeAccount) => {
  const requested: string[] = []
  const request = async (amountCents: number): Promise<void> => {
    const refundId = `ref_${requested.length}`
    const { answer } = await runner.run({
      name: 'request',
      streams: { ...depositRef(depositId), ledger: ledgerRef(accountId) },
      decide: (states) =>
        decideRefundRequest(states, {
          refundId,
          amountCents,
          reference: refundId,
          reversedMicros: 0 - stripe.movedCents() * 10_000,
          ownGatewayIds: [gatewayId],
        }),
      ...cause,
    })
    if (answer.outcome === 'requested') requested.push(refundId)
  }
  const make = async (refundId: string, ends: number | 'called' | null): Promise<void> => {
    let count = 0
    const isOver = () => typeof ends === 'number' && count++ >= ends
    const dying = runnerOver(prefixLog(log, () => (isOver() ? { kind: 'unavailable' } : null)))
    const hooks = {
      at: (point: string) => {
        if (point === 'refund-made' && ends === 'called') throw new Error('the process ended')
      },
    }
    await createProcess(dying, stripe, hooks)
      .makeRefund(refundId)
      .catch((error) => assert.notEqual(ends, null, error))
    await dying.close()
  }
  return { requested, request, make }
}

type Step =
  | { readonly kind: 'refund'; readonly cents: number; readonly fee: number; readonly pending: boolean }
  | {
      readonly kind: 'end'
      readonly n: number
      readonly status: 'succeeded' | 'failed' | 'canceled'
      readonly cents: number
    }
  | { readonly kind: 'dispute' }
  | { readonly kind: 'move-disputed'; readonly n: number; readonly cents: number; readonly fee: number }
  | { readonly kind: 'spend'; readonly cents: number }
  /** An operator requests a refund to the payer. */
  | { readonly kind: 'request'; readonly cents: number }
  /**
   * The worker makes the n-th requested refund, in two processes at once or in one. The process ends after this many
   * appends, or between the call and the first append (`called`); null: it does not end.
   */
  | {
      readonly kind: 'make'
      readonly n: number
      readonly twice: boolean
      readonly ends: number | 'called' | null
    }
  | { readonly kind: 'forget-keys' }
  /** Stripe makes the next requested refunds late, or at once. */
  | { readonly kind: 'delay'; readonly isDelayed: boolean }
  /** A callback arrives, and the process ends after this many appends; null: it does not end. */
  | { readonly kind: 'callback'; readonly n: number; readonly appends: number | null }

const cents = fc.integer({ min: 1, max: 3_000 })
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('refund' as const),
    cents,
    fee: fc.constantFrom(0, 0, 25),
    pending: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('end' as const),
    n: fc.nat(5),
    status: fc.constantFrom('succeeded' as const, 'failed' as const, 'canceled' as const),
    cents,
  }),
  fc.record({ kind: fc.constant('dispute' as const) }),
  fc.record({
    kind: fc.constant('move-disputed' as const),
    n: fc.nat(5),
    cents: fc.integer({ min: -3_000, max: 3_000 }),
    fee: fc.constantFrom(0, 1_500, -1_500),
  }),
  fc.record({ kind: fc.constant('spend' as const), cents }),
  fc.record({ kind: fc.constant('request' as const), cents }),
  fc.record({
    kind: fc.constant('make' as const),
    n: fc.nat(5),
    twice: fc.boolean(),
    ends: fc.option(fc.oneof(fc.nat(6), fc.constant('called' as const))),
  }),
  fc.record({ kind: fc.constant('forget-keys' as const) }),
  fc.record({ kind: fc.constant('delay' as const), isDelayed: fc.boolean() }),
  fc.record({
    kind: fc.constant('callback' as const),
    n: fc.nat(20),
    appends: fc.option(fc.nat(6)),
  }),
)

/**
 * The invariant, for an account that settles in dollars: when all callbacks arrived, the balance less the debt is what
 * was paid, plus all movements of the provider's balance, less what was spent. The gateway's account in the books is
 * the provider's balance. A refund that was requested here is made once, or not at all if it was refused. If the account settles in another currency, nothing moves and the refunds and disputes are open items.
 */
test('refunds and disputes of any order, number and outcome: wallet, books and the balance of Stripe agree in the end', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(null, ann),
      fc.constantFrom('usd' as const, 'usd' as const, 'eur' as const),
      fc.array(step, { maxLength: 30 }),
      async (customerId, settles, steps) => {
        const paidCents = 3_000
        const log = createMemoryLog()
        const runner = runnerOver(log)
        const stripe = createStripeAccount({ depositId, paidCents, settles })
        const { wallets, deposits, take } = createProcess(runner, stripe)
        await setUp(runner, detailsOf(customerId, paidCents))
        let spentCents = 0
        const purse = async () => {
          if (customerId === null) return wallets.read(accountId, cause)
          return (await wallets.customerCredit(accountId, cause))(customerId)
        }
        const spend = async (wanted: number): Promise<void> => {
          const amountCents = Math.min(wanted, (await purse()).availableMicros / 10_000)
          if (amountCents === 0) return
          const movement = {
            accountId,
            amountCents: 0 - amountCents,
            reference: `spent ${spentCents} ${amountCents}`,
            reason: 'correction',
            gateway: null,
          } as const
          await (customerId === null
            ? wallets.adjust(movement, cause)
            : wallets.adjustCustomer({ ...movement, customerId }, cause))
          spentCents += amountCents
        }
        const takeInDyingProcess = async (reference: string, appends: number): Promise<void> => {
          let count = 0
          const dying = runnerOver(prefixLog(log, () => (count++ < appends ? null : { kind: 'unavailable' })))
          await createProcess(dying, stripe)
            .take(reference)
            .catch(() => undefined)
          await dying.close()
        }
        const { requested, request, make } = createRefunds(log, runner, stripe)
        for (const action of steps) {
          if (action.kind === 'refund')
            stripe.refund(Math.min(action.cents, paidCents), action.fee, action.pending)
          else if (action.kind === 'end') stripe.end(action.n, action.status, action.cents)
          else if (action.kind === 'dispute') stripe.dispute()
          else if (action.kind === 'move-disputed') stripe.moveDisputed(action.n, action.cents, action.fee)
          else if (action.kind === 'spend') await spend(action.cents)
          else if (action.kind === 'forget-keys') stripe.forgetKeys()
          else if (action.kind === 'delay') stripe.delayRefunds(action.isDelayed)
          else if (action.kind === 'request') await request(action.cents)
          else if (action.kind === 'make') {
            const refundId = requested[action.n % Math.max(requested.length, 1)]
            if (refundId === undefined) continue
            const times = action.twice ? [1, 2] : [1]
            await Promise.all(times.map(() => make(refundId, action.ends)))
          } else {
            const references = stripe.references()
            const reference = references[action.n % references.length]!
            if (action.appends === null) await take(reference)
            else await takeInDyingProcess(reference, action.appends)
          }
        }
        for (const refundId of requested) await make(refundId, null)
        // Each of them arrives at last, because the inbox keeps a callback until it is finished.
        for (const reference of [...stripe.references(), ...stripe.references()]) await take(reference)

        const { availableMicros, receivableMicros } = await purse()
        // What is requested is held until it is booked or refused.
        const heldCents = (await wallets.read(accountId, cause)).heldMicros / 10_000
        assert.equal(heldCents, stripe.pendingCents())
        assert.equal(Math.min(availableMicros, receivableMicros), 0)
        const movedCents = settles === 'usd' ? stripe.movedCents() : 0
        const feeCents = settles === 'usd' && customerId === null ? stripe.feeCents() : 0
        assert.equal(
          (availableMicros - receivableMicros) / 10_000 + heldCents,
          paidCents + movedCents - spentCents,
        )
        const books = await booksOf(log)
        const gateway =
          customerId === null
            ? 'service assets:gateway:stripe'
            : `reseller:${accountId} assets:gateway:${gatewayId}`
        assert.equal(books.get(gateway) ?? 0, paidCents + movedCents - feeCents)
        assert.equal(books.get('service expenses:gateway-fees:stripe') ?? 0, feeCents)
        const deposit = await deposits.read(depositId, cause)
        for (const refundId of requested) {
          const { status, providerRefundId } = deposit?.refunds.get(refundId) ?? {}
          const about = `refund ${refundId} is ${status}`
          assert.equal(stripe.countOf(refundId), providerRefundId === undefined ? 0 : 1, about)
          const isMade = stripe.countOf(refundId) === 1 && !stripe.isCanceled(refundId)
          assert.equal(status, isMade ? 'made' : 'refused', about)
        }
        const hasMoved = stripe.movedCents() !== 0 || stripe.feeCents() !== 0
        if (settles === 'usd') {
          const open = deposit?.changes.filter(({ change }) => change !== 'refund_refused')
          assert.deepEqual(open, [])
        } else if (hasMoved) assert.ok(deposit?.changes.some(({ change }) => change === 'other_currency'))
        await runner.close()
      },
    ),
    { numRuns: runs(60, 2_000) },
  )
})

test('a process that ends between the call of Stripe and its note refunds once, even after Stripe forgot the key', async () => {
  const log = createMemoryLog()
  const runner = runnerOver(log)
  const stripe = createStripeAccount({ depositId, paidCents: 3_000, settles: 'usd' })
  const { wallets, deposits, take } = createProcess(runner, stripe)
  await setUp(runner, detailsOf(null, 3_000))
  await take('session:cs_1')
  const { request, make } = createRefunds(log, runner, stripe)
  const state = async () => {
    const refund = (await deposits.read(depositId, cause))?.refunds.get('ref_0')
    const { availableMicros } = await wallets.read(accountId, cause)
    return [refund?.status, stripe.countOf('ref_0'), availableMicros / 10_000]
  }
  await request(1_000)
  assert.deepEqual(await state(), ['requested', 0, 2_000])
  await make('ref_0', 'called')
  assert.deepEqual(await state(), ['requested', 1, 2_000])
  stripe.forgetKeys()
  await make('ref_0', 2)
  await make('ref_0', null)
  await make('ref_0', null)
  assert.deepEqual(await state(), ['made', 1, 2_000])
  await take('charge:ch_1')
  assert.deepEqual(await state(), ['made', 1, 2_000])
  await runner.close()
})

/** A paid deposit of $30 in a wallet. */
const paidDeposit = async (settles: 'usd' | 'eur' = 'usd') => {
  const log = createMemoryLog()
  const runner = runnerOver(log)
  const stripe = createStripeAccount({ depositId, paidCents: 3_000, settles })
  const { wallets, deposits, take } = createProcess(runner, stripe)
  await setUp(runner, detailsOf(null, 3_000))
  await take('session:cs_1')
  const spend = async (cents: number): Promise<string> => {
    const spending = { reference: `spent ${cents}`, reason: 'correction', gateway: null } as const
    const answer = await wallets.adjust({ accountId, amountCents: 0 - cents, ...spending }, cause)
    return answer.outcome === 'refused' ? answer.refusal.code : answer.outcome
  }
  return {
    ...{ log, stripe, take, spend, close: () => runner.close() },
    settle: () => deposits.settle(depositId, cause),
    refunds: createRefunds(log, runner, stripe),
    /** What the wallet has, holds and owes, in cents, and the state of the first requested refund. */
    state: async () => {
      const { availableMicros, heldMicros, receivableMicros } = await wallets.read(accountId, cause)
      const deposit = await deposits.read(depositId, cause)
      return [
        ...[availableMicros, heldMicros, receivableMicros].map((micros) => micros / 10_000),
        deposit?.refunds.get('ref_0')?.status,
      ]
    },
    changes: async () =>
      (await deposits.read(depositId, cause))?.changes.map(({ change, reference, amount }) => [
        change,
        reference,
        amount,
      ]),
  }
}

test('a requested refund holds its amount until it is booked: nothing else can spend it', async () => {
  const { refunds, spend, state, close } = await paidDeposit()
  await refunds.request(2_000)
  assert.deepEqual(await state(), [1_000, 2_000, 0, 'requested'])
  assert.equal(await spend(1_001), 'insufficient_balance')
  assert.equal(await spend(1_000), 'applied')
  await refunds.make('ref_0', 'called')
  assert.deepEqual(await state(), [0, 2_000, 0, 'requested'])
  await refunds.make('ref_0', null)
  assert.deepEqual(await state(), [0, 0, 0, 'made'])
  await close()
})

test('the amount is held until Stripe moves it, and a refund that fails before that returns it', async () => {
  for (const [end, after, changed] of [
    ['succeeded', [1_000, 0, 0, 'made'], []],
    ['canceled', [3_000, 0, 0, 'refused'], [['refund_refused', 'ref_0 canceled_by_provider', '20.00 usd']]],
  ] as const) {
    const { refunds, stripe, take, state, changes, close } = await paidDeposit()
    stripe.delayRefunds(true)
    await refunds.request(2_000)
    await refunds.make('ref_0', null)
    await take('charge:ch_1')
    assert.deepEqual(await state(), [1_000, 2_000, 0, 'made'])
    stripe.end(0, end, 2_000)
    await take('charge:ch_1')
    await take('charge:ch_1')
    assert.deepEqual(await state(), after)
    assert.deepEqual(await changes(), changed)
    await close()
  }
})

test('a canceled refund pays the debt of a dispute that came meanwhile', async () => {
  const { refunds, stripe, take, spend, state, close } = await paidDeposit()
  stripe.delayRefunds(true)
  await refunds.request(2_000)
  await refunds.make('ref_0', null)
  stripe.dispute()
  stripe.moveDisputed(0, -2_500, 0)
  await take('dispute:dp_0')
  assert.deepEqual(await state(), [0, 2_000, 1_500, 'made'])
  stripe.end(0, 'canceled', 2_000)
  await take('charge:ch_1')
  assert.deepEqual(await state(), [500, 0, 0, 'refused'])
  assert.equal(await spend(501), 'insufficient_balance')
  await close()
})

test('a refund that Stripe refuses or settles in another currency ends its hold', async () => {
  const refused = await paidDeposit()
  await refused.refunds.request(3_000)
  refused.stripe.refund(1, 0, false)
  await refused.refunds.make('ref_0', null)
  assert.deepEqual(await refused.state(), [3_000, 0, 0, 'refused'])
  await refused.close()
  const euros = await paidDeposit('eur')
  await euros.refunds.request(3_000)
  await euros.refunds.make('ref_0', null)
  assert.deepEqual(await euros.state(), [3_000, 0, 0, 'made'])
  assert.deepEqual(await euros.changes(), [['other_currency', 're_0', '-30.00 eur']])
  await euros.close()
})

test('a request whose hold the log lost holds the amount before the call of Stripe, or is refused', async () => {
  for (const [spentCents, after] of [
    [1_000, [0, 0, 0, 'made']],
    [1_001, [1_999, 0, 0, 'refused']],
  ] as const) {
    const { log, stripe, spend, state, changes, close, refunds } = await paidDeposit()
    let count = 0
    const dying = runnerOver(prefixLog(log, () => (count++ < 1 ? null : { kind: 'unavailable' })))
    await createRefunds(log, dying, stripe)
      .request(2_000)
      .catch(() => undefined)
    await dying.close()
    assert.deepEqual(await state(), [3_000, 0, 0, 'requested'])
    assert.equal(await spend(spentCents), 'applied')
    await refunds.make('ref_0', null)
    assert.deepEqual(await state(), after)
    const refusals = [['refund_refused', 'ref_0 insufficient_balance', '20.00 usd']]
    assert.deepEqual(await changes(), after[3] === 'refused' ? refusals : [])
    await close()
  }
})

test('a refund, a dispute and a session that cannot be read are open items, once, and the other refunds of the charge are booked', async () => {
  const { log, stripe, take, settle, state, close } = await paidDeposit()
  for (const cents of [100, 200]) stripe.refund(cents, 0, false)
  stripe.dispute()
  stripe.moveDisputed(0, -500, 0)
  stripe.damage(0, true)
  stripe.damage(2, true)
  for (const reference of ['charge:ch_1', 'dispute:dp_0', 'charge:ch_1', 'dispute:dp_0'])
    await take(reference)
  assert.deepEqual((await state()).slice(0, 3), [2_800, 0, 0])
  const reported = (await log.readAll(0, 1_000))
    .filter(({ type }) => type === 'UnmatchedMovementReported')
    .map(({ data }) => JSON.parse(data))
  assert.deepEqual(
    reported.map(({ reference, amountMicros }) => [reference, amountMicros]),
    [
      ['stripe re_0', null],
      ['stripe dispute:dp_0', null],
    ],
  )
  stripe.damage(0, false)
  await take('charge:ch_1')
  assert.deepEqual((await state()).slice(0, 3), [2_700, 0, 0])
  stripe.damage('session', true)
  await assert.rejects(settle(), UnreadableAnswer)
  const last = (await log.readAll(0, 1_000)).at(-1)
  assert.equal(JSON.parse(last!.data).reference, 'stripe cs_1')
  await close()
})
