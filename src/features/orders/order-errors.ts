import type { PlacementRefusal } from '../../domain/orders/decide-placement.ts'
import { type Order, waitsFor } from '../../domain/orders/fold.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import { refuseForPayment, shortfallText } from '../wallet/index.ts'

const allocationRefusalMessages = {
  out_of_stock: 'fewer addresses are free than were ordered',
  rental_ended: 'one of these rentals has ended and cannot be extended',
  too_far_ahead: 'a rental ends at most ten years from now; other extensions of it were placed meanwhile',
  plan_expired: 'the plan has expired; order the product again with POST /api/v1/orders',
} as const

const freeText = (free: number): string => {
  const count = free === 0 ? 'no address is' : free === 1 ? '1 address is' : `${free} addresses are`
  return `${count} free for this order, fewer than were ordered; GET /api/v1/products/{id}/options shows what is in stock`
}

/** The pay page for a customer's missing credit. */
export type PayPage = {
  readonly payUrl: string
  readonly depositId: string
  readonly chargeCents: number
}

/**
 * The answer for a refused order: nothing is charged (docs/reference/api.md, "Errors").
 * @param waiting the order that waits under the key; null: none, and the key stays unused
 */
export const refuseForPlacement = (
  refusal: PlacementRefusal,
  waiting: Order | null,
  page?: PayPage,
): ApiError => {
  const orderId = waiting && { orderId: waiting.details.orderId }
  switch (refusal.code) {
    case 'insufficient_balance': {
      if (waiting === null) return refuseForPayment(refusal, 'order')
      const { code, ...figures } = refusal
      const paidByCustomer = waitsFor(waiting) === 'wallet'
      const message = `your wallet is short by ${shortfallText(refusal)}`
      return refuse(
        code,
        paidByCustomer
          ? `the customer has paid, and ${message}; credit it, and the order is placed`
          : message,
        { ...figures, ...orderId, paidByCustomer },
      )
    }
    case 'spend_cap_reached':
      return refuseForPayment(refusal, 'order')
    case 'customer_credit_insufficient': {
      const { code, balanceCents: creditCents, ...figures } = refusal
      return refuse(code, `the customer's credit is short by ${shortfallText(refusal)}`, {
        creditCents,
        ...figures,
        ...orderId,
        ...page,
      })
    }
    case 'refused_by_arbiter': {
      const message = allocationRefusalMessages[refusal.reason]
      if (refusal.reason === 'plan_expired') return refuse('product_unavailable', message)
      if (refusal.reason === 'too_far_ahead') return refuse('invalid_period', message)
      if (refusal.free === undefined) return refuse('out_of_stock', message)
      return refuse('out_of_stock', freeText(refusal.free), { availableQuantity: refusal.free })
    }
    default: {
      const unreachable: never = refusal
      throw new Error(`unknown refusal ${JSON.stringify(unreachable)}`)
    }
  }
}
