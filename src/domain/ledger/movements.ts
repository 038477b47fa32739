import { compactUuid } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { dropExpired, findRemembered, type Remembered, remember } from '../../kernel/recent-ids.ts'
import { type AdjustmentReason, type CustomerAdjustmentReason, isAtGateway } from './adjustment-reasons.ts'
import type { CustomerEvent, LedgerEvent } from './events.ts'

/** What an event changes, micro-dollars: the wallet's available part, the open holds, the account's debt. */
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
      const { amountMicros, debtChangeMicros: receivableMicros = 0 } = event.data
      const availableMicros = amountMicros + receivableMicros
      return { availableMicros, heldMicros: -amountMicros, receivableMicros }
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

/** The id of the transaction of an event: `GET /wallet/transactions`. */
export const transactionIdOf = (eventId: string): string => `txn_${compactUuid(eventId)}`

/**
 * Whether an event takes the available balance from the threshold or above it to below it. Only the next rise to the
 * threshold makes another such fall possible.
 */
export const fallsBelow = (event: LedgerEvent, thresholdMicros: number): boolean => {
  // The end of the hold and the booking of the refund are one append, and that is a fall of its own.
  if (event.type === 'FundsHeld' && event.data.depositId !== undefined) return false
  const { availableAfterMicros: after } = event.data
  return after < thresholdMicros && after - movementOf(event).availableMicros >= thresholdMicros
}

/** The parts of a key's daily cap, percent, that are notified once a day. */
const capLevels = [80, 100] as const
export type CapLevel = (typeof capLevels)[number]

/** The highest notified part of a cap that the spending has reached; null: none. */
export const reachedCapLevel = ({
  capCents,
  spentMicros,
}: {
  readonly capCents: number
  readonly spentMicros: number
}): CapLevel | null =>
  capLevels.findLast((level) => spentMicros >= (centsToMicros(capCents) / 100) * level) ?? null

/** What an event changes in a customer's credit and in its debt to the reseller, micro-dollars. */
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

/** An applied movement. The ledger state has it for seven days. */
export type Movement = {
  /**
   * Micro-dollars. Signed for an adjustment. For an order for a customer it is the cost, which left the reseller's
   * wallet.
   */
  readonly amountMicros: number
  /**
   * What it left in the wallet; for a customer's payment, refund or adjustment, what it left in the customer's purse.
   */
  readonly availableAfterMicros: number
  /** The revision of its event in the ledger. The event of a debit has the whole order. */
  readonly revision: number
}

/** Tuples instead of objects: a busy wallet has a million movements, and property names would be half of each. */
export type Movements = Remembered<
  readonly [amountMicros: number, availableAfterMicros: number, revision: number]
>

/** The key that makes a movement unique: its kind and its reference within that kind. */
export const movementKey = {
  /** With the gateway, because two providers may use the same payment id. */
  credit: (credit: {
    readonly source: string
    readonly gateway: string | null
    readonly reference: string
  }): string => `credit:${JSON.stringify([credit.source, credit.gateway, credit.reference])}`,
  adjustment: ({ reference }: { readonly reference: string }): string => `adjustment:${reference}`,
  /** Also for an order for a customer. */
  debit: (orderId: string): string => `debit:${orderId}`,
  capture: (holdId: string): string => `capture:${holdId}`,
  release: (holdId: string): string => `release:${holdId}`,
  /** Without the customer, because a payment belongs to one customer and must not be credited to a second one. */
  customerCredit: (payment: { readonly gateway: string; readonly reference: string }): string =>
    `customer-credit:${JSON.stringify([payment.gateway, payment.reference])}`,
  customerRefund: ({ reference }: { readonly reference: string }): string => `customer-refund:${reference}`,
  customerAdjustment: (adjustment: { readonly customerId: string; readonly reference: string }): string =>
    `customer-adjustment:${JSON.stringify([adjustment.customerId, adjustment.reference])}`,
}

/** The key that an event uses, and its amounts. Null for a hold, which the state has as long as it is open. */
const movementEntryOf = (
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

/** @throws if the event uses a key that was used before */
export const movementsAfter = (
  movements: Movements,
  event: LedgerEvent & { readonly revision: number; readonly recordedAtMs: number },
): Movements => {
  const { revision, recordedAtMs } = event
  const remaining = dropExpired(movements, recordedAtMs)
  const entry = movementEntryOf(event)
  if (entry === null) return remaining
  const [key, amountMicros, afterMicros] = entry
  return remember(remaining, key, [amountMicros, afterMicros, revision], recordedAtMs)
}

/** The movement with a key of `movementKey`; undefined if it did not happen in the last seven days. */
export const recallMovement = (
  { movements }: { readonly movements: Movements },
  key: string,
): Movement | undefined => {
  const found = findRemembered(movements, key)
  return found && { amountMicros: found[0], availableAfterMicros: found[1], revision: found[2] }
}

/**
 * An event's change of a debt, from the new or the old field.
 * @param oldMicros the value of the old field, as a change
 * @throws if the event has both fields or none, because its change is then unknown
 */
const changeOf = (name: string, currentMicros: number | undefined, oldMicros: number | undefined): number => {
  if ((currentMicros === undefined) === (oldMicros === undefined))
    throw new Error(
      `a money event has ${currentMicros === undefined ? 'no' : 'both an old and a new'} ${name}`,
    )
  return (currentMicros ?? oldMicros) as number
}

const negated = (micros: number | undefined): number | undefined =>
  micros === undefined ? undefined : 0 - micros

type DebtChange = { readonly debtChangeMicros?: number; readonly receivableMicros?: number }

/** The change of the debt in a credit or a refund, micro-dollars. */
const debtChangeOfCredit = ({ debtChangeMicros, receivableMicros }: DebtChange): number =>
  changeOf('debtChangeMicros', debtChangeMicros, negated(receivableMicros))

/** The change of the debt in an adjustment, micro-dollars. */
const debtChangeOfAdjustment = ({ debtChangeMicros, receivableMicros }: DebtChange): number =>
  changeOf('debtChangeMicros', debtChangeMicros, receivableMicros)

/** The change of the wallet's debt in a refund of a customer's order, micro-dollars. */
const walletDebtChangeOf = (data: {
  readonly walletDebtChangeMicros?: number
  readonly walletReceivableMicros?: number
}): number =>
  changeOf('walletDebtChangeMicros', data.walletDebtChangeMicros, negated(data.walletReceivableMicros))

/**
 * A balance and a debt, micro-dollars, neither of them negative and at most one above zero: the wallet of an account, or
 * the credit of a customer with its reseller.
 */
export type Purse = {
  readonly availableMicros: number
  /** The debt after a chargeback or a refund at the provider that the balance did not cover. */
  readonly receivableMicros: number
}

export const emptyPurse: Purse = { availableMicros: 0, receivableMicros: 0 }

/** How a movement changes a purse. `debtChangeMicros` is added to the debt and is negative if a debt is paid. */
type PurseChange = { readonly debtChangeMicros: number; readonly afterMicros: number }

/** Adds money. It pays a debt first. */
export const credit = (purse: Purse, amountMicros: number): PurseChange => {
  const paidMicros = Math.min(purse.receivableMicros, amountMicros)
  return {
    debtChangeMicros: 0 - paidMicros,
    afterMicros: purse.availableMicros + amountMicros - paidMicros,
  }
}

/** Takes money out; null if there is not enough. */
export const take = (purse: Purse, amountMicros: number): { readonly afterMicros: number } | null =>
  amountMicros > purse.availableMicros ? null : { afterMicros: purse.availableMicros - amountMicros }

/**
 * Moves a signed amount. A positive amount pays a debt first. A chargeback or a refund at the provider has happened even
 * if the balance does not cover it, so the uncovered part becomes a debt. For any other reason the result is null if
 * the balance does not cover the amount.
 */
export const adjust = (
  purse: Purse,
  {
    amountMicros,
    reason,
  }: { readonly amountMicros: number; readonly reason: AdjustmentReason | CustomerAdjustmentReason },
): PurseChange | null => {
  if (amountMicros > 0) return credit(purse, amountMicros)
  const uncoveredMicros = Math.max(0 - amountMicros - purse.availableMicros, 0)
  if (uncoveredMicros > 0 && !isAtGateway(reason)) return null
  return {
    debtChangeMicros: uncoveredMicros,
    afterMicros: purse.availableMicros + amountMicros + uncoveredMicros,
  }
}
