import type { CustomerEvent } from './customer-events.ts'

/** How much an event moves a customer's credit and its debt to the reseller. */
export const customerMovementOf = (
  event: CustomerEvent,
): { readonly creditMicros: number; readonly receivableMicros: number } => {
  const { amountMicros } = event.data
  switch (event.type) {
    case 'CustomerCredited':
    case 'CustomerRefunded': {
      const { receivableMicros } = event.data
      return { creditMicros: amountMicros - receivableMicros, receivableMicros: 0 - receivableMicros }
    }
    case 'CustomerCharged':
      return { creditMicros: 0 - amountMicros, receivableMicros: 0 }
    case 'CustomerAdjusted': {
      const { receivableMicros } = event.data
      return { creditMicros: amountMicros + receivableMicros, receivableMicros }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown customer event ${JSON.stringify(unknown)}`)
    }
  }
}

/** What makes a movement of customers' money happen once, as the fold remembers it. */
export const customerMovementId = (event: Exclude<CustomerEvent, { type: 'CustomerCharged' }>): string => {
  switch (event.type) {
    case 'CustomerCredited':
      return paymentId(event.data)
    case 'CustomerRefunded':
      return refundId(event.data)
    case 'CustomerAdjusted':
      return adjustmentId(event.data)
    default: {
      const unknown: never = event
      throw new Error(`unknown customer event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Without the customer: a payment belongs to one of them, and is never credited to a second one. */
export const paymentId = (payment: { readonly gateway: string; readonly reference: string }): string =>
  JSON.stringify(['payment', payment.gateway, payment.reference])
export const refundId = ({ reference }: { readonly reference: string }): string =>
  JSON.stringify(['refund', reference])
export const adjustmentId = (adjustment: {
  readonly customerId: string
  readonly reference: string
}): string => JSON.stringify(['adjustment', adjustment.customerId, adjustment.reference])
