import { dropExpired, findRemembered, type Remembered, remember } from '../../kernel/recent-ids.ts'
import type { CustomerEvent, LedgerEvent } from './events.ts'
import { debtChangeOfAdjustment, debtChangeOfCredit, type Purse, walletDebtChangeOf } from './purse.ts'

/** How much each event moves: the wallet's available part, the open holds, the account's debt. */
export const movementOf = (event: LedgerEvent): Purse & { readonly heldMicros: number } => {
  switch (event.type) {
    case 'WalletCredited': {
      const receivableMicros = debtChangeOfCredit(event.data)
      const availableMicros = event.data.amountMicros + receivableMicros
      return { availableMicros, heldMicros: 0, receivableMicros }
    }
    case 'WalletAdjusted': {
      const receivableMicros = debtChangeOfAdjustment(event.data)
      const availableMicros = event.data.amountMicros + receivableMicros
      return { availableMicros, heldMicros: 0, receivableMicros }
    }
    case 'WalletDebited':
      return { availableMicros: -event.data.amountMicros, heldMicros: 0, receivableMicros: 0 }
    case 'FundsHeld': {
      const { amountMicros } = event.data
      return { availableMicros: -amountMicros, heldMicros: amountMicros, receivableMicros: 0 }
    }
    case 'HoldCaptured':
      return { availableMicros: 0, heldMicros: -event.data.amountMicros, receivableMicros: 0 }
    case 'HoldReleased': {
      const { amountMicros } = event.data
      return { availableMicros: amountMicros, heldMicros: -amountMicros, receivableMicros: 0 }
    }
    case 'CustomerCharged':
      return { availableMicros: 0 - event.data.costMicros, heldMicros: 0, receivableMicros: 0 }
    case 'CustomerRefunded': {
      const receivableMicros = walletDebtChangeOf(event.data)
      const availableMicros = event.data.costMicros + receivableMicros
      return { availableMicros, heldMicros: 0, receivableMicros }
    }
    case 'CustomerCredited':
    case 'CustomerAdjusted':
      return { availableMicros: 0, heldMicros: 0, receivableMicros: 0 }
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

/** How much an event moves a customer's credit and its debt to the reseller. */
export const customerMovementOf = (event: CustomerEvent): Purse => {
  const { amountMicros } = event.data
  switch (event.type) {
    case 'CustomerCredited':
    case 'CustomerRefunded': {
      const receivableMicros = debtChangeOfCredit(event.data)
      return { availableMicros: amountMicros + receivableMicros, receivableMicros }
    }
    case 'CustomerCharged':
      return { availableMicros: 0 - amountMicros, receivableMicros: 0 }
    case 'CustomerAdjusted': {
      const receivableMicros = debtChangeOfAdjustment(event.data)
      return { availableMicros: amountMicros + receivableMicros, receivableMicros }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown customer event ${JSON.stringify(unknown)}`)
    }
  }
}

/** A movement that landed, as the ledger remembers it for seven days. */
export type Movement = {
  /** Signed for an adjustment. Of an order for a customer it is the cost, which left the reseller's wallet. */
  readonly amountMicros: number
  /** What it left in the wallet; in the customer's purse where it is a customer's payment, refund or adjustment. */
  readonly availableAfterMicros: number
  /** The place of its event in the ledger; a debit's carries the whole order. */
  readonly revision: number
}

/** Lists in place of objects: a busy wallet remembers a million movements, and names would be half of each. */
export type Movements = Remembered<
  readonly [amountMicros: number, availableAfterMicros: number, revision: number]
>

/** What makes a movement happen once: its kind, and what names it among those of its kind. */
export const movementKey = {
  /** Two providers may use one payment id. */
  credit: (credit: {
    readonly source: string
    readonly gateway: string | null
    readonly reference: string
  }): string => `credit:${JSON.stringify([credit.source, credit.gateway, credit.reference])}`,
  adjustment: ({ reference }: { readonly reference: string }): string => `adjustment:${reference}`,
  /** Also of an order for a customer. */
  debit: (orderId: string): string => `debit:${orderId}`,
  capture: (holdId: string): string => `capture:${holdId}`,
  release: (holdId: string): string => `release:${holdId}`,
  /** Without the customer: a payment belongs to one of them, and is never credited to a second one. */
  customerCredit: (payment: { readonly gateway: string; readonly reference: string }): string =>
    `customer-credit:${JSON.stringify([payment.gateway, payment.reference])}`,
  customerRefund: ({ reference }: { readonly reference: string }): string => `customer-refund:${reference}`,
  customerAdjustment: (adjustment: { readonly customerId: string; readonly reference: string }): string =>
    `customer-adjustment:${JSON.stringify([adjustment.customerId, adjustment.reference])}`,
}

/** The key that an event spends, and what it moved. Null for a hold: it is known while it is open. */
const spentBy = (
  event: LedgerEvent,
): readonly [key: string, amountMicros: number, afterMicros: number] | null => {
  const { availableAfterMicros } = event.data
  switch (event.type) {
    case 'WalletCredited':
      return [movementKey.credit(event.data), event.data.amountMicros, availableAfterMicros]
    case 'WalletAdjusted':
      return [movementKey.adjustment(event.data), event.data.amountMicros, availableAfterMicros]
    case 'WalletDebited':
      return [movementKey.debit(event.data.order.orderId), event.data.amountMicros, availableAfterMicros]
    case 'FundsHeld':
      return null
    case 'HoldCaptured':
      return [movementKey.capture(event.data.holdId), event.data.amountMicros, availableAfterMicros]
    case 'HoldReleased':
      return [movementKey.release(event.data.holdId), event.data.amountMicros, availableAfterMicros]
    case 'CustomerCharged':
      return [movementKey.debit(event.data.order.orderId), event.data.costMicros, availableAfterMicros]
    case 'CustomerCredited':
      return [movementKey.customerCredit(event.data), event.data.amountMicros, event.data.creditAfterMicros]
    case 'CustomerRefunded':
      return [movementKey.customerRefund(event.data), event.data.amountMicros, event.data.creditAfterMicros]
    case 'CustomerAdjusted':
      return [
        movementKey.customerAdjustment(event.data),
        event.data.amountMicros,
        event.data.creditAfterMicros,
      ]
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

/** @throws when the event spends a key that was spent before */
export const movementsAfter = (
  movements: Movements,
  event: LedgerEvent & { readonly revision: number; readonly recordedAtMs: number },
): Movements => {
  const { revision, recordedAtMs } = event
  const left = dropExpired(movements, recordedAtMs)
  const spent = spentBy(event)
  if (spent === null) return left
  const [key, amountMicros, afterMicros] = spent
  return remember(left, key, [amountMicros, afterMicros, revision], recordedAtMs)
}

/** The movement under a key of `movementKey`; undefined when it did not happen in the last seven days. */
export const recallMovement = (
  { movements }: { readonly movements: Movements },
  key: string,
): Movement | undefined => {
  const found = findRemembered(movements, key)
  return found && { amountMicros: found[0], availableAfterMicros: found[1], revision: found[2] }
}
