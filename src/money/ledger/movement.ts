import type { LedgerEvent } from './events.ts'

/** How much each event moves: the wallet's available part, the open holds, the account's debt. */
export const movementOf = (
  event: LedgerEvent,
): { readonly availableMicros: number; readonly heldMicros: number; readonly receivableMicros: number } => {
  switch (event.type) {
    case 'WalletCredited': {
      const { amountMicros, receivableMicros } = event.data
      return {
        availableMicros: amountMicros - receivableMicros,
        heldMicros: 0,
        receivableMicros: -receivableMicros,
      }
    }
    case 'WalletAdjusted': {
      const { amountMicros, receivableMicros } = event.data
      return { availableMicros: amountMicros + receivableMicros, heldMicros: 0, receivableMicros }
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
      const { costMicros, walletReceivableMicros } = event.data
      return {
        availableMicros: costMicros - walletReceivableMicros,
        heldMicros: 0,
        receivableMicros: 0 - walletReceivableMicros,
      }
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
