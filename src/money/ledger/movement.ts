import type { CustomerEvent } from './customer-events.ts'
import { debtChangeOfAdjustment, debtChangeOfCredit, walletDebtChangeOf } from './debt-change.ts'
import type { LedgerEvent } from './events.ts'
import type { Purse } from './purse.ts'

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
