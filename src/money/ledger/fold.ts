import type { Fold } from '../../platform/eventstore/fold.ts'
import { forget, remember } from '../../platform/eventstore/remembered.ts'
import { assertSafe } from '../../terms/money.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { CustomerEvent } from './customer-events.ts'
import { customerMovementId, customerMovementOf } from './customer-movement.ts'
import type { LedgerEvent } from './events.ts'
import { movementOf } from './movement.ts'
import { ledgerSnapshot } from './snapshot.ts'
import { capKeyOf, forgetSpend, recordSpend, type Spend } from './spend.ts'
import { creditId, customerCreditOf, emptyLedger, type LedgerState } from './state.ts'

export type { LedgerState } from './state.ts'

const notNegative = (value: number, what: string): number => {
  if (assertSafe(value, what) < 0) throw new RangeError(`${what} would be ${value}`)
  return value
}

/** The customers after an event of one of them. @throws when its figures do not add up */
const customersAfter = (before: LedgerState, event: CustomerEvent & { readonly revision: number }) => {
  const { customerId, creditAfterMicros } = event.data
  const credit = customerCreditOf(before, customerId)
  const moved = customerMovementOf(event)
  const creditMicros = notNegative(credit.creditMicros + moved.creditMicros, "the customer's credit")
  if (creditMicros !== creditAfterMicros)
    throw new Error(
      `${event.type} at revision ${event.revision} says ${creditAfterMicros} micro-dollars of credit are left, the fold says ${creditMicros}`,
    )
  const receivableMicros = notNegative(
    credit.receivableMicros + moved.receivableMicros,
    "the customer's debt",
  )
  return before.customers.set(customerId, { creditMicros, receivableMicros })
}

const spendAfter = ({ spend }: LedgerState, order: OrderDetails, micros: number, atMs: number): Spend => {
  const keyId = capKeyOf(order)
  return keyId === null ? spend : recordSpend(spend, keyId, micros, atMs)
}

const evolve: Fold<LedgerState, LedgerEvent>['evolve'] = (before, event) => {
  const atMs = event.recordedAtMs
  const movement = movementOf(event)
  const availableMicros = notNegative(
    before.availableMicros + movement.availableMicros,
    'the available balance',
  )
  if (availableMicros !== event.data.availableAfterMicros)
    throw new Error(
      `${event.type} at revision ${event.revision} says ${event.data.availableAfterMicros} micro-dollars are left, the fold says ${availableMicros}`,
    )
  const state: LedgerState = {
    availableMicros,
    heldMicros: notNegative(before.heldMicros + movement.heldMicros, 'the sum of holds'),
    receivableMicros: notNegative(before.receivableMicros + movement.receivableMicros, 'the receivable'),
    holds: before.holds,
    credits: forget(before.credits, atMs),
    adjustments: forget(before.adjustments, atMs),
    debits: forget(before.debits, atMs),
    resolvedHolds: forget(before.resolvedHolds, atMs),
    spend: forgetSpend(before.spend, atMs),
    customers: before.customers,
    customerMovements: forget(before.customerMovements, atMs),
  }
  switch (event.type) {
    case 'WalletCredited': {
      const applied = { amountMicros: event.data.amountMicros, availableAfterMicros: availableMicros }
      return { ...state, credits: remember(state.credits, creditId(event.data), applied, atMs) }
    }
    case 'WalletAdjusted': {
      const applied = { amountMicros: event.data.amountMicros, availableAfterMicros: availableMicros }
      return { ...state, adjustments: remember(state.adjustments, event.data.reference, applied, atMs) }
    }
    case 'WalletDebited': {
      const { order, amountMicros } = event.data
      const debit = { amountMicros, availableAfterMicros: availableMicros, revision: event.revision }
      const debits = remember(state.debits, order.orderId, debit, atMs)
      return { ...state, debits, spend: spendAfter(state, order, amountMicros, atMs) }
    }
    case 'FundsHeld': {
      const { holdId, amountMicros, platform } = event.data
      if (state.holds.has(holdId)) throw new Error(`hold ${holdId} was opened twice`)
      return { ...state, holds: state.holds.set(holdId, { amountMicros, platform }) }
    }
    case 'HoldCaptured':
    case 'HoldReleased': {
      const { holdId, amountMicros } = event.data
      if (state.holds.get(holdId)?.amountMicros !== amountMicros)
        throw new Error(`${event.type} does not match an open hold ${holdId}`)
      const resolution = event.type === 'HoldCaptured' ? 'captured' : 'released'
      return {
        ...state,
        holds: state.holds.delete(holdId),
        resolvedHolds: remember(state.resolvedHolds, holdId, resolution, atMs),
      }
    }
    case 'CustomerCharged': {
      const { order, costMicros } = event.data
      const debit = {
        amountMicros: costMicros,
        availableAfterMicros: availableMicros,
        revision: event.revision,
      }
      return {
        ...state,
        customers: customersAfter(state, event),
        debits: remember(state.debits, order.orderId, debit, atMs),
        spend: spendAfter(state, order, costMicros, atMs),
      }
    }
    case 'CustomerCredited':
    case 'CustomerRefunded':
    case 'CustomerAdjusted': {
      const { amountMicros, creditAfterMicros } = event.data
      const applied = { amountMicros, creditAfterMicros }
      const id = customerMovementId(event)
      return {
        ...state,
        customers: customersAfter(state, event),
        customerMovements: remember(state.customerMovements, id, applied, atMs),
      }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The wallet of a `ledger-{account}` stream. `evolve` throws on what no decision can have written: a negative balance, a
 * figure that does not add up, an id twice. A wallet like that must not be decided on.
 */
export const ledgerFold: Fold<LedgerState, LedgerEvent> = {
  name: 'ledger',
  version: 2,
  initial: emptyLedger,
  evolve,
  snapshot: ledgerSnapshot,
}
