import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideCustomerAdjustment,
  decideCustomerCharge,
  decideCustomerCredit,
  decideCustomerRefund,
} from '../../../src/domain/ledger/decide-customer.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { customerPurse, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import type { CustomerId, OrderId } from '../../../src/kernel/ids.ts'
import fc from '../../support/fast-check.ts'
import { capOfCommand, credited, ledgerAfter, orderOf, play, startMs, steps } from './support.ts'

const customerId = 'cus_a' as CustomerId
const cent = 10_000

const payment = (reference: string, cents: number, customer: string = customerId) => ({
  customerId: customer,
  reference,
  gateway: 'stripe',
  depositId: `dep_${reference}`,
  amountMicros: cents * cent,
})
const order = (amountCents: number, costCents: number, orderId = 'ord_1') => ({
  ...orderOf({ orderId: orderId as OrderId, amountCents }),
  customerId,
  costCents,
})
const eventOf = (decision: { outcome: string; events?: readonly LedgerEvent[] }): LedgerEvent => {
  assert.equal(decision.outcome, 'decided', JSON.stringify(decision))
  return decision.events![0]!
}
const refusalOf = <Refusal>(
  decision: { readonly outcome: 'decided' } | { readonly outcome: 'refused'; readonly refusal: Refusal },
): Refusal => {
  if (decision.outcome !== 'refused') throw new assert.AssertionError({ message: 'it was not refused' })
  return decision.refusal
}
const paid = (cents: number) => eventOf(decideCustomerCredit(ledgerFold.initial, payment('pi_0', cents)))
const charge = (
  state: typeof ledgerFold.initial,
  of: ReturnType<typeof order>,
  capCents: number | null = null,
) => decideCustomerCharge(state, { order: of, cap: capOfCommand({ capCents }) }, startMs)

test('an order for a customer debits the price from the credit and the cost from the wallet, in one event', () => {
  const wallet = credited(10_000_000)
  const credit = {
    ...paid(700),
    data: { ...paid(700).data, availableAfterMicros: 10_000_000 },
  } as LedgerEvent
  const event = eventOf(charge(ledgerAfter(wallet, credit), order(650, 500)))
  assert.ok(event.type === 'CustomerCharged')
  assert.deepEqual([event.data.creditAfterMicros, event.data.availableAfterMicros], [50 * cent, 500 * cent])
})

test('a short wallet is reported before short credit, and short credit states the missing amount', () => {
  const poor = ledgerFold.initial
  assert.equal(refusalOf(charge(poor, order(650, 500))).code, 'insufficient_balance')
  const rich = ledgerAfter(credited(10_000_000))
  assert.deepEqual(refusalOf(charge(rich, order(650, 500))), {
    code: 'customer_credit_insufficient',
    balanceCents: 0,
    amountCents: 650,
    shortfallCents: 650,
  })
})

test("the key's cap counts what leaves the wallet, not what the customer pays", () => {
  const state = ledgerAfter(credited(10_000_000))
  assert.equal(refusalOf(charge(state, order(9_000, 501), 500)).code, 'spend_cap_reached')
  assert.equal(refusalOf(charge(state, order(9_000, 500), 500)).code, 'customer_credit_insufficient')
})

test("a customer never spends another customer's credit", () => {
  const other = eventOf(
    decideCustomerCredit(ledgerAfter(credited(10_000_000)), payment('pi_1', 5_000, 'cus_b')),
  )
  const state = ledgerAfter(credited(10_000_000), other)
  assert.equal(refusalOf(charge(state, order(650, 500))).code, 'customer_credit_insufficient')
})

test('a payment is credited once, also if it is reported again for another customer', () => {
  const state = ledgerAfter(paid(700))
  assert.deepEqual(refusalOf(decideCustomerCredit(state, payment('pi_0', 900, 'cus_b'))), {
    code: 'already_applied',
    amountMicros: 700 * cent,
    availableAfterMicros: 700 * cent,
    revision: 0,
  })
})

test("a chargeback takes the credit, the rest becomes the customer's debt, and later credits pay it first", () => {
  const chargeback = { customerId, reference: 'cb', reason: 'chargeback', gateway: 'stripe' } as const
  const taken = eventOf(
    decideCustomerAdjustment(ledgerAfter(paid(300)), { ...chargeback, amountMicros: -500 * cent }),
  )
  const owing = ledgerAfter(paid(300), taken)
  assert.deepEqual(customerPurse(owing, customerId), { availableMicros: 0, receivableMicros: 200 * cent })
  const next = eventOf(decideCustomerCredit(owing, payment('pi_2', 250)))
  assert.deepEqual(customerPurse(ledgerAfter(paid(300), taken, next), customerId), {
    availableMicros: 50 * cent,
    receivableMicros: 0,
  })
})

test("a customer's debt is part of the shortfall, because the next payment pays it first", () => {
  const chargeback = { customerId, reference: 'cb', reason: 'chargeback', gateway: 'stripe' } as const
  const owes = eventOf(
    decideCustomerAdjustment(ledgerFold.initial, { ...chargeback, amountMicros: -1_430 * cent }),
  )
  const wallet = credited(10_000_000)
  const owing = ledgerAfter(owes, wallet)
  assert.deepEqual(refusalOf(charge(owing, order(650, 500))), {
    code: 'customer_credit_insufficient',
    balanceCents: 0,
    amountCents: 650,
    owedCents: 1_430,
    shortfallCents: 2_080,
  })
  const paysAll = eventOf(decideCustomerCredit(owing, payment('pi_3', 2_080)))
  assert.equal(charge(ledgerAfter(owes, wallet, paysAll), order(650, 500)).outcome, 'decided')
})

test('a correction never takes more than the available credit', () => {
  const correction = { customerId, reference: 'fix', reason: 'correction', gateway: null } as const
  assert.equal(
    refusalOf(decideCustomerAdjustment(ledgerAfter(paid(300)), { ...correction, amountMicros: -301 * cent }))
      .code,
    'insufficient_balance',
  )
})

test('a refund returns both sides once', () => {
  const refund = {
    customerId,
    reference: 'ref_1',
    orderId: 'ord_1',
    family: 'isp',
    amountMicros: 650 * cent,
    costMicros: 500 * cent,
  }
  const back = eventOf(decideCustomerRefund(ledgerFold.initial, refund))
  const state = ledgerAfter(back)
  assert.equal(state.availableMicros, 500 * cent)
  assert.equal(customerPurse(state, customerId).availableMicros, 650 * cent)
  assert.equal(refusalOf(decideCustomerRefund(state, refund)).code, 'already_applied')
})

test('a charged order is not charged again, for the customer or from the wallet', () => {
  const free = eventOf(charge(ledgerFold.initial, order(0, 0)))
  const again = refusalOf(charge(ledgerAfter(free), order(0, 0)))
  assert.deepEqual(again, { code: 'already_debited', amountMicros: 0, availableAfterMicros: 0, revision: 0 })
})

test('invariant: no credit is ever below zero, and every customer has its payments less its purchases', () => {
  fc.assert(
    fc.property(steps, (list) => {
      const owned = new Map<string, bigint>()
      const move = (customer: string, micros: number) =>
        owned.set(customer, (owned.get(customer) ?? 0n) + BigInt(micros))
      for (const { events, after } of play(list)) {
        for (const event of events) {
          if (event.type === 'CustomerCharged') move(event.data.customerId, -event.data.amountMicros)
          else if ('customerId' in event.data) move(event.data.customerId, event.data.amountMicros)
        }
        for (const [customer, { availableMicros, receivableMicros }] of after.customers) {
          assert.ok(availableMicros >= 0 && receivableMicros >= 0)
          assert.equal(BigInt(availableMicros - receivableMicros), owned.get(customer))
        }
      }
    }),
  )
})

test('invariant: a refused charge exceeds the balance, and an accepted one fits on both sides', () => {
  fc.assert(
    fc.property(steps, (list) => {
      for (const { step, before, decision } of play(list)) {
        if (step.command.kind !== 'customer-charge') continue
        const { amountCents, costCents } = step.command
        const { availableMicros: creditMicros } = customerPurse(before, step.command.customerId)
        const walletFits = costCents * cent <= before.availableMicros
        const creditFits = amountCents * cent <= creditMicros
        if (decision.outcome === 'decided') assert.ok(walletFits && creditFits)
        else if (decision.refusal.code === 'insufficient_balance') assert.ok(!walletFits)
        else if (decision.refusal.code === 'customer_credit_insufficient') {
          assert.ok(walletFits && !creditFits)
          const { balanceCents, shortfallCents, owedCents = 0 } = decision.refusal
          assert.equal(balanceCents + shortfallCents, amountCents + owedCents)
          assert.ok(creditMicros + shortfallCents * cent >= amountCents * cent)
        }
      }
    }),
  )
})
