import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import { waitsFor } from '../../domain/orders/fold.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import { keyConflict } from '../../platform/http/route.ts'
import { createRequireOrderable } from '../catalog/index.ts'
import { type AwaitedOrderStatus, type CustomerInvoices, chargeOf } from './customer-invoices.ts'
import { refuseForPlacement } from './order-errors.ts'
import {
  type AppendOrder,
  type AppendOrderDependencies,
  actorOf,
  answerForExistingOrder,
  finishOrder,
  type KeyedOrder,
  type PayPages,
  type PlacedOrder,
} from './place-order.ts'
import { orderedBy } from './prepare-order.ts'

/** @throws ApiError the refusal */
const draftOf = (quoted: OrderDraft | ApiError): OrderDraft => {
  if (quoted instanceof ApiError) throw quoted
  return quoted
}

const causeOf = ({ request }: KeyedOrder) => ({
  actor: actorOf(request),
  correlationId: request.requestId,
})

export const createPayPages = (
  dependencies: AppendOrderDependencies & {
    readonly customerInvoices: CustomerInvoices
    readonly appendOrder: AppendOrder
  },
): PayPages => {
  const { customerInvoices, appendOrder } = dependencies
  const requireOrderable = createRequireOrderable(dependencies.runner)

  const refused: PayPages['refused'] = async (keyed, draft, refusal, waiting) => {
    const { method, customerId, accountId } = draft
    const missingCents = refusal.code === 'customer_credit_insufficient' ? refusal.shortfallCents : null
    if (missingCents === null || method === 'wallet' || customerId === null)
      throw refuseForPlacement(refusal, waiting ?? null)
    const payable =
      chargeOf(method, missingCents) !== null && (await customerInvoices.takes(method, accountId))
    if (!payable) throw refuseForPlacement(refusal, waiting ?? null)
    const {
      order,
      position,
      created: _,
      ...page
    } = await customerInvoices.invoice(draft, missingCents, causeOf(keyed), keyed.request.customerRef)
    if (order.status === 'awaiting_payment') throw refuseForPlacement(refusal, order, page)
    return { ...answerForExistingOrder(keyed, order), position }
  }

  /** Pays an awaited order if other payments or credits are enough by now. */
  const payAwaited = async (
    keyed: KeyedOrder,
    { order, open }: AwaitedOrderStatus,
    quoted: OrderDraft | ApiError,
  ): Promise<PlacedOrder> => {
    const { caller } = keyed.request
    // The price is fixed while the invoice is open, and for the day that a payment waits for the reseller's wallet.
    const isFixed = open !== null || (order.awaiting?.heldUntil ?? null) !== null
    if (isFixed) await requireOrderable(order.details, causeOf(keyed))
    // The key of this request pays, under its own cap, even if another key placed the order.
    const { capKeyId: _, ...asPriced } = order.details
    const payable = isFixed ? { ...asPriced, ...orderedBy(caller) } : draftOf(quoted)
    const { answer, draft, position } = await appendOrder(keyed.request, payable, 'pay-awaited')
    switch (answer.kind) {
      case 'placed':
      case 'known':
        return { ...answerForExistingOrder(keyed, answer.order), position }
      case 'partially-appended':
        return finishOrder(dependencies, keyed, answer.debitRevision)
      case 'conflict':
        throw keyConflict()
      case 'expired-key':
        throw new Error(`${keyed.orderId} awaits its payment and was fulfilled before`)
      case 'refused': {
        const isShort = answer.refusal.code === 'customer_credit_insufficient'
        if (isShort && open) throw refuseForPlacement(answer.refusal, order, open)
        if (waitsFor(order) === 'wallet') throw refuseForPlacement(answer.refusal, order)
        return refused(keyed, draft, answer.refusal, order)
      }
      default:
        return answer satisfies never
    }
  }

  const again: PayPages['again'] = async (keyed, order, quoted) => {
    const current = await customerInvoices.statusOf(order, causeOf(keyed))
    const settled = current.order.status !== 'awaiting_payment' || current.order.details.customerId === null
    if (!settled) return payAwaited(keyed, current, quoted)
    return { ...answerForExistingOrder(keyed, current.order), invoice: current.invoice }
  }

  return {
    liveRails: customerInvoices.liveRails,
    refused,
    again,
    invoiceOwn: async (keyed, draft) => {
      const { answer, draft: payable } = await appendOrder(keyed.request, draft, 'dry-run')
      let owedCents = 0
      switch (answer.kind) {
        case 'conflict':
          throw keyConflict()
        case 'known':
          return answer.order.status === 'awaiting_payment'
            ? again(keyed, answer.order, draft)
            : answerForExistingOrder(keyed, answer.order)
        case 'partially-appended':
          return finishOrder(dependencies, keyed, answer.debitRevision)
        case 'refused':
          // The payment covers the missing money.
          if (answer.refusal.code !== 'insufficient_balance') throw refuseForPlacement(answer.refusal, null)
          owedCents = answer.refusal.owedCents ?? 0
          break
        case 'expired-key':
          throw new Error(`${keyed.orderId} was fulfilled, but neither its debit nor its order is known`)
        case 'placed':
          break
        default:
          answer satisfies never
      }
      const { method } = payable
      // The payment pays the debt first.
      const amountCents = payable.amountCents + owedCents
      if (method === 'wallet') throw new Error('a wallet has no pay page')
      if (chargeOf(method, amountCents) === null)
        throw refuse('invalid_amount', 'one invoice is at most $5,000: order less, or pay from the wallet')
      const invoiced = await customerInvoices.invoice(payable, amountCents, causeOf(keyed))
      const { order, created, position, payUrl, chargeCents } = invoiced
      const { idempotencyKey } = keyed
      return {
        order,
        replayed: !created,
        idempotencyKey,
        position,
        invoice: { payUrl, chargeCents, owedCents, walletShortfallCents: 0 },
      }
    },
  }
}
