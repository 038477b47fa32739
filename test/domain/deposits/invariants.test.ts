import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import {
  creditingOf,
  decideFailure,
  decideInvoice,
  decideOpen,
  decideReceipt,
} from '../../../src/domain/deposits/decide.ts'
import type { DepositDetails } from '../../../src/domain/deposits/events.ts'
import { type Deposit, depositFold } from '../../../src/domain/deposits/fold.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { customerPurse, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { movementKey, recallMovement } from '../../../src/domain/ledger/movements.ts'
import { decideCompletion } from '../../../src/domain/orders/decide-completion.ts'
import type { Appends, CommandDecision } from '../../../src/kernel/decider.ts'
import type { CustomerId, DepositId } from '../../../src/kernel/ids.ts'
import { rememberedMs } from '../../../src/kernel/recent-ids.ts'
import { accountStream, depositStream, ledgerStream } from '../../../src/kernel/streams.ts'
import fc from '../../support/fast-check.ts'
import {
  addressOrder,
  appendTo,
  buyer,
  credit,
  customer,
  customerCredit,
  emptyWorld,
  forCustomer,
  stateOf,
  statesFor,
  stock,
  type World,
} from '../../support/world.ts'
import { type Deed, endOf, type Said, said } from './provider-model.ts'

const start = 1_800_000_000_000
const startCents = 2_000
const bob = 'cus_bob' as CustomerId

/** The orders that two of the deposits were raised by: one's own, and one for a customer. */
const ownOrder = addressOrder('ord_own', { method: 'card', quantity: 1, amountCents: 700 })
const forAlice = forCustomer(addressOrder('ord_alice', { method: 'card', quantity: 1 }))

const detailsOf = (n: number, over: Partial<DepositDetails>): DepositDetails => ({
  depositId: `dep_${n}` as DepositId,
  accountId: buyer,
  customerId: null,
  rail: 'crypto',
  amountCents: 1_000,
  gatewayId: 'gateway',
  provider: 'btcpay',
  merchantName: 'Shop',
  fingerprint: `fingerprint-${n}`,
  pending: null,
  ...over,
})

/** One wallet and two customers of it, so that what goes astray is seen. */
const deposits: readonly DepositDetails[] = [
  detailsOf(0, {}),
  detailsOf(1, { amountCents: 300 }),
  detailsOf(2, { customerId: customer }),
  detailsOf(3, { customerId: bob, amountCents: 700 }),
  detailsOf(4, { pending: { order: ownOrder }, amountCents: 700 }),
  detailsOf(5, { customerId: customer, pending: { order: forAlice }, amountCents: 650 }),
]

type Step =
  | { readonly kind: 'deed'; readonly at: number; readonly deed: Deed }
  /** Hears what the provider said after its first `age` deeds, without the payments of the mask, and loses the end. */
  | {
      readonly kind: 'hear'
      readonly at: number
      readonly age: number
      readonly missing: number
      readonly cutAt: number
      readonly orderable: boolean
    }
  | { readonly kind: 'open'; readonly at: number; readonly same: boolean }
  | { readonly kind: 'invoice'; readonly at: number; readonly invoiceId: string }
  | { readonly kind: 'abandon'; readonly at: number }
  /** What the reactors do in between: a debit that stands is fulfilled. */
  | { readonly kind: 'complete' }
  | { readonly kind: 'wait'; readonly minutes: number }

const at = fc.nat({ max: deposits.length - 1 })
/** From a part of a cent to twice the invoice. */
const micros = fc.oneof(
  fc.integer({ min: 1, max: 20_000_000 }),
  fc.constantFrom(1, 9_999, 3_000_000, 6_500_000, 7_000_000, 9_999_999, 10_000_000),
)
const deed: fc.Arbitrary<Deed> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('pay' as const), micros }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom('process' as const, 'expire', 'fail', 'settle') }),
  },
)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('deed' as const), at, deed }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('hear' as const),
      at,
      age: fc.nat({ max: 8 }),
      missing: fc.oneof(
        { weight: 3, arbitrary: fc.constant(0) },
        { weight: 1, arbitrary: fc.nat({ max: 7 }) },
      ),
      cutAt: fc.oneof(
        { weight: 2, arbitrary: fc.constant(99) },
        { weight: 1, arbitrary: fc.nat({ max: 4 }) },
      ),
      orderable: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('open' as const), at, same: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('invoice' as const), at, invoiceId: fc.constantFrom('a', 'b') }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('abandon' as const), at }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'complete' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), minutes: fc.nat({ max: 600 }) }) },
)

const depositIn = (world: World, { depositId }: DepositDetails): Deposit =>
  stateOf(world, depositStream(depositId), depositFold)!

const ledgerIn = (world: World): readonly LedgerEvent[] =>
  (world.get(ledgerStream(buyer)) ?? []).map(({ event }) => event as LedgerEvent)

/** The ledger's payments of a deposit: a duplicate payment throws. */
const creditedIn = (world: World, { depositId }: DepositDetails): ReadonlyMap<string, number> => {
  const found = new Map<string, number>()
  for (const event of ledgerIn(world)) {
    if (event.type !== 'WalletCredited' && event.type !== 'CustomerCredited') continue
    const { depositId: of, reference, amountMicros } = event.data
    if (of !== depositId) continue
    assert.ok(!found.has(reference), `${reference} is in the ledger twice`)
    found.set(reference, amountMicros)
  }
  return found
}

const sum = (amounts: Iterable<number>): number => [...amounts].reduce((total, amount) => total + amount, 0)

/** A world in which every deposit is open and has an invoice. */
const opened = (): World => {
  const funded = stock(credit(emptyWorld, startCents, start), ['198.18.0.1'], start)
  const account = appendTo(
    funded,
    [
      {
        stream: accountStream(buyer),
        events: [
          { type: 'AccountCreated', data: { accountId: buyer, reseller: true } },
          {
            type: 'KeyIssued',
            data: { keyId: 'key_one', scopes: ['buy'], dailyCapCents: null, displayPrefix: 'fbx_' },
          },
        ],
      },
    ],
    start,
  )
  return deposits.reduce(
    (world, details) => appendTo(world, decideOpen(null, details, start).appends, start),
    account,
  )
}

const hear = (world: World, details: DepositDetails, report: Said, nowMs: number, orderable = true) => {
  const crediting = creditingOf(details, orderable)
  const states = {
    ...(details.pending ? statesFor(world, details.pending.order) : {}),
    ledger: stateOf(world, ledgerStream(buyer), ledgerFold),
    account: stateOf(world, accountStream(buyer), accountFold),
    deposit: depositIn(world, details),
  }
  const payments = report.payments.map(({ id, micros: amountMicros }) => ({ paymentId: id, amountMicros }))
  return decideReceipt(states, { status: report.status, payments }, crediting, nowMs)
}

const orders = [ownOrder, forAlice]

/** The work of the reactor of open orders: every debited order is fulfilled or refunded. */
const completed = (world: World, nowMs: number): World =>
  orders.reduce((before, order) => {
    const states = statesFor(before, order)
    const debit = recallMovement(states.ledger, movementKey.debit(order.orderId))
    if (debit === undefined) return before
    const { availableAfterMicros } = debit
    return appendTo(before, decideCompletion(states, { order, availableAfterMicros }, nowMs).appends, nowMs)
  }, world)

const closed = ['paid', 'partially_paid', 'expired', 'failed']

/** What holds in every state, also between two appends of one decision. */
const assertSafe = (world: World, before: World, deeds: readonly (readonly Deed[])[]): void => {
  for (const [n, details] of deposits.entries()) {
    const now = depositIn(world, details)
    const was = depositIn(before, details)
    const inLedger = creditedIn(world, details)
    const provider = new Map(
      said(deeds[n]!, details.depositId, details.amountCents * 10_000).payments.map(({ id, micros }) => [
        id,
        micros,
      ]),
    )
    for (const [id, micros] of inLedger) {
      assert.equal(micros, provider.get(id), `${id} is credited as the provider says`)
      assert.equal(now.payments.get(id)?.amountMicros, micros, `${id} was recorded before it moved`)
    }
    for (const [id, { credited }] of now.payments)
      if (credited) assert.ok(inLedger.has(id), `${id} is marked and not in the ledger`)
    assert.ok(now.creditedMicros <= sum(inLedger.values()))
    assert.ok(now.creditedMicros >= was.creditedMicros, 'what is credited stays')
    if (closed.includes(was.status))
      assert.ok(closed.includes(now.status), `${was.status} became ${now.status}`)
    if (was.status === 'paid') assert.equal(now.status, 'paid')
    if (now.status === 'paid') assert.ok(now.creditedMicros >= details.amountCents * 10_000)
    if (now.status === 'partially_paid') assert.ok(now.creditedMicros > 0)
    if (was.invoice) assert.deepEqual(now.invoice, was.invoice, 'the first invoice stands')
  }
  let availableMicros = startCents * 10_000
  const charged = new Map<string, number>()
  for (const event of ledgerIn(world).slice(1)) {
    if (event.type === 'WalletCredited') availableMicros += event.data.amountMicros
    if (event.type === 'WalletDebited') availableMicros -= event.data.amountMicros
    if (event.type === 'CustomerCharged') availableMicros -= event.data.costMicros
    if (event.type === 'CustomerRefunded') availableMicros += event.data.costMicros
    if (event.type !== 'WalletDebited' && event.type !== 'CustomerCharged') continue
    const { orderId } = event.data.order
    charged.set(orderId, (charged.get(orderId) ?? 0) + 1)
    assert.equal(charged.get(orderId), 1, `${orderId} is charged twice`)
  }
  const ledger = stateOf(world, ledgerStream(buyer), ledgerFold)
  assert.equal(ledger.availableMicros, availableMicros, 'the wallet is what moved it')
  assert.ok(availableMicros >= 0)
  for (const who of [customer, bob]) {
    const paid = sum(
      deposits
        .filter(({ customerId }) => customerId === who)
        .flatMap((one) => [...creditedIn(world, one).values()]),
    )
    const moved = ledgerIn(world).map((event) => {
      if (event.type === 'CustomerCharged' && event.data.customerId === who)
        return 0 - event.data.amountMicros
      return event.type === 'CustomerRefunded' && event.data.customerId === who ? event.data.amountMicros : 0
    })
    assert.equal(customerPurse(ledger, who).availableMicros, paid + sum(moved), `the credit of ${who}`)
  }
}

test('each payment is credited once, as its provider states it and to its owner, for any order, repetition and loss of messages', () => {
  const seen = { steps: 0, cuts: 0, credits: 0, orders: 0, ends: new Map<string, number>() }
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 50, size: 'max' }), (steps) => {
      let world = opened()
      let nowMs = start
      const deeds: Deed[][] = deposits.map(() => [])
      const abandoned = new Set<number>()
      const take = (appends: Appends, cutAt = 99): void => {
        const before = world
        if (cutAt < appends.length) seen.cuts += 1
        world = appendTo(world, appends.slice(0, cutAt), nowMs)
        assertSafe(world, before, deeds)
      }
      const reportOf = (n: number, age = deeds[n]!.length): Said => {
        const { depositId, amountCents } = deposits[n]!
        return said(deeds[n]!.slice(0, age), depositId, amountCents * 10_000)
      }
      for (const one of steps) {
        seen.steps += 1
        nowMs += 1_000
        if (one.kind === 'wait') {
          nowMs += one.minutes * 60_000
          continue
        }
        if (one.kind === 'complete') {
          world = completed(world, nowMs)
          continue
        }
        const details = deposits[one.at]!
        const deposit = depositIn(world, details)
        switch (one.kind) {
          case 'deed':
            deeds[one.at]!.push(one.deed)
            break
          case 'hear': {
            const report = reportOf(one.at, one.age)
            const payments = report.payments.filter((_, n) => (one.missing & (1 << n)) === 0)
            const decision = hear(world, details, { ...report, payments }, nowMs, one.orderable)
            take(decision.appends, one.cutAt)
            break
          }
          case 'open': {
            const fingerprint = one.same ? details.fingerprint : 'another'
            const decision = decideOpen(deposit, { ...details, fingerprint }, nowMs)
            assert.deepEqual(
              [decision.appends, decision.answer.kind],
              [[], one.same ? 'standing' : 'conflict'],
            )
            break
          }
          case 'invoice': {
            const times = { expiresAt: '2027-01-01T00:00:00.000Z', watchUntil: '2027-01-02T00:00:00.000Z' }
            take(decideInvoice(deposit, { invoiceId: one.invoiceId, ...times }, nowMs).appends)
            break
          }
          case 'abandon': {
            const { appends } = decideFailure(deposit, 'no_invoice', nowMs)
            if (appends.length > 0) abandoned.add(one.at)
            if (deposit.payments.size > 0) assert.deepEqual(appends, [], 'money is never abandoned')
            if (closed.includes(deposit.status))
              assert.deepEqual(appends, [], 'what is closed is closed once')
            take(appends)
            break
          }
          default:
            assert.fail(one satisfies never)
        }
      }
      // At the end all messages are received, and interrupted work is finished.
      for (const [n, details] of deposits.entries()) {
        const report = reportOf(n)
        for (let looks = 0; ; looks += 1) {
          assert.ok(looks < 100, 'hearing never ends')
          nowMs += 1_000
          world = completed(world, nowMs)
          const { appends } = hear(world, details, report, nowMs)
          if (appends.length === 0) break
          take(appends)
        }
        const deposit = depositIn(world, details)
        const wholeMicros = details.amountCents * 10_000
        const owed = sum(report.payments.map((payment) => payment.micros))
        assert.equal(sum(creditedIn(world, details).values()), owed, `${details.depositId} has what was paid`)
        assert.equal(deposit.creditedMicros, owed)
        const ends = endOf(report, wholeMicros, abandoned.has(n))
        assert.ok(
          ends.includes(deposit.status),
          `${details.depositId} is ${deposit.status}, not ${ends.join(' or ')}`,
        )
        seen.ends.set(deposit.status, (seen.ends.get(deposit.status) ?? 0) + 1)
        seen.credits += report.payments.length
      }
      for (const order of orders)
        if (recallMovement(stateOf(world, ledgerStream(buyer), ledgerFold), movementKey.debit(order.orderId)))
          seen.orders += 1
    }),
    { numRuns: process.env.FAREBOX_SOAK === '1' ? 20_000 : 400 },
  )
  assert.equal(seen.ends.size, 6, `every end is met: ${[...seen.ends.keys()].join(', ')}`)
  assert.ok(seen.cuts > 50 && seen.credits > 100 && seen.orders > 20, JSON.stringify(seen))
})

/** What deposits move: the wallet or a customer's credit, by itself or with the order that it was raised by. */
for (const [what, details, paidMicros] of [
  ['of a wallet', deposits[0]!, 10_000_000],
  ['of a customer', deposits[2]!, 10_000_000],
  ['for an own order', deposits[4]!, 7_000_000],
  ["for a customer's order", deposits[5]!, 6_500_000],
] as const) {
  const report: Said = { status: 'paid', payments: [{ id: 'p', micros: paidMicros }] }
  const weekLater = start + rememberedMs + 60_000
  const typesOf = ({ appends }: CommandDecision<unknown>) =>
    appends.flatMap(({ events }) => events.map(({ type }) => type))
  const credited = details.customerId === null ? 'WalletCredited' : 'CustomerCredited'
  /** Later movements that make the ledger drop the older ones. */
  const forgetting = (world: World): World =>
    [start + 1_000, weekLater, weekLater + 1].reduce(
      (now, atMs) => customerCredit(credit(now, 1, atMs), 1, atMs),
      world,
    )

  test(`a payment ${what} that was recorded but never moved, and that the ledger no longer remembers, is reported and moves nothing`, () => {
    const cut = appendTo(opened(), hear(opened(), details, report, start).appends.slice(0, 1), start)
    // Within the week the ledger knows that it has not moved.
    assert.ok(typesOf(hear(cut, details, report, start + rememberedMs - 60_000)).includes(credited))
    const forgot = forgetting(cut)
    const { appends, answer } = hear(forgot, details, report, weekLater)
    assert.deepEqual([appends, answer.unconfirmed, answer.more], [[], ['p'], false])
    // It holds nothing else up.
    const more: Said = { status: 'open', payments: [...report.payments, { id: 'q', micros: 5 }] }
    const next = hear(forgot, details, more, weekLater)
    assert.deepEqual(typesOf(next).slice(0, 2), ['DepositPaymentReceived', credited])
    assert.deepEqual(next.answer.unconfirmed, ['p'])
  })

  test(`a payment ${what} that is new is credited, whatever the ledger no longer remembers`, () => {
    const forgot = forgetting(opened())
    const { appends, answer } = hear(forgot, details, report, weekLater)
    assert.deepEqual(answer.unconfirmed, [])
    const after = appendTo(forgot, appends, weekLater)
    assert.deepEqual([...creditedIn(after, details)], [['p', paidMicros]])
    assert.equal(depositIn(after, details).status, 'paid')
  })
}
