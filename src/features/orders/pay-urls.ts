import type { OrderDraft, PlacementRefusal } from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import { orderedBy } from '../../domain/shared/order-terms.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { RequireOrderable } from '../catalog/index.ts'
import {
  type AppendOrder,
  actorOf,
  answerForExistingOrder,
  type KeyedOrderRequest,
  keyConflict,
  type PlacedOrder,
} from './append-order.ts'
import { type AwaitedOrderStatus, type CustomerInvoices, chargeOf } from './customer-invoices.ts'
import { refuseForPlacement } from './order-errors.ts'

/** Orders that are paid on a pay page: one's own on a rail, and customers' that are short of credit. */
export type PayPages = {
  /** An own order on a rail: it awaits the payment of the whole amount. */
  invoiceOwn(asked: KeyedOrderRequest, draft: OrderDraft): Promise<PlacedOrder>
  /**
   * A customer's order that was refused: with a live rail for what its credit misses, it awaits that.
   * @throws ApiError the refusal, with the pay page where there is one
   */
  refused(asked: KeyedOrderRequest, draft: OrderDraft, refusal: PlacementRefusal): Promise<PlacedOrder>
  /**
   * An order under its own key that awaits its payment, looked at again: paid by now, still open, or invoiced anew.
   * @param fresh The order at today's price, for the case that its invoice closed; throws what refuses it
   */
  again(asked: KeyedOrderRequest, order: Order, fresh: () => OrderDraft): Promise<PlacedOrder>
}

const causeOf = ({ request }: KeyedOrderRequest) => ({
  actor: actorOf(request),
  correlationId: request.requestId,
})

export const createPayPages = (deps: {
  readonly customerInvoices: CustomerInvoices
  readonly attempt: AppendOrder
  readonly requireOrderable: RequireOrderable
  /** Completes an order whose debit stands at this revision. */
  readonly finish: (asked: KeyedOrderRequest, debitRevision: number) => Promise<PlacedOrder>
}): PayPages => {
  const { customerInvoices, attempt, requireOrderable, finish } = deps

  const refused: PayPages['refused'] = async (asked, draft, refusal) => {
    const { method, customerId, accountId } = draft
    const short = refusal.code === 'customer_credit_insufficient' ? refusal.shortfallCents : null
    if (short === null || method === 'wallet' || customerId === null) throw refuseForPlacement(refusal)
    const payable = chargeOf(method, short) !== null && (await customerInvoices.takes(method, accountId))
    if (!payable) throw refuseForPlacement(refusal)
    const { relate } = asked.request
    const {
      order,
      position,
      created: _,
      ...page
    } = await customerInvoices.invoice(draft, short, causeOf(asked), relate)
    if (order.status === 'awaiting_payment') throw refuseForPlacement(refusal, page)
    return { ...answerForExistingOrder(asked, order), position }
  }

  /** What is there by now may pay it: other payments, an operator's credit, the reseller's own wallet. */
  const payAwaited = async (
    asked: KeyedOrderRequest,
    { order, open }: AwaitedOrderStatus,
    fresh: () => OrderDraft,
  ): Promise<PlacedOrder> => {
    const { caller } = asked.request
    // The price is frozen for the life of the invoice, and for the day that a payment waits for the reseller's wallet.
    const frozen = open !== null || (order.awaiting?.heldUntil ?? null) !== null
    if (frozen) await requireOrderable(order.details, causeOf(asked))
    // The key of this request spends, under its own cap, whichever key the order was first asked for with.
    const { capKeyId: _, ...asPriced } = order.details
    const payable = frozen ? { ...asPriced, ...orderedBy(caller) } : fresh()
    const { answer, draft, position } = await attempt(asked.request, payable, 'pay-awaited')
    switch (answer.kind) {
      case 'placed':
      case 'known':
        return { ...answerForExistingOrder(asked, answer.order), position }
      case 'partially-appended':
        return finish(asked, answer.debitRevision)
      case 'conflict':
        throw keyConflict()
      case 'expired-key':
        throw new Error(`${asked.orderId} awaits its payment and was fulfilled before`)
      case 'refused': {
        const short = answer.refusal.code === 'customer_credit_insufficient'
        if (short && open) throw refuseForPlacement(answer.refusal, open)
        return refused(asked, draft, answer.refusal)
      }
      default:
        return answer satisfies never
    }
  }

  const again: PayPages['again'] = async (asked, order, fresh) => {
    const looked = await customerInvoices.statusOf(order, causeOf(asked))
    const settled = looked.order.status !== 'awaiting_payment' || looked.order.details.customerId === null
    if (!settled) return payAwaited(asked, looked, fresh)
    return { ...answerForExistingOrder(asked, looked.order), invoice: looked.invoice }
  }

  return {
    refused,
    again,
    invoiceOwn: async (asked, draft) => {
      const { answer, draft: payable } = await attempt(asked.request, draft, 'dry-run')
      switch (answer.kind) {
        case 'conflict':
          throw keyConflict()
        case 'known':
          return answer.order.status === 'awaiting_payment'
            ? again(asked, answer.order, () => draft)
            : answerForExistingOrder(asked, answer.order)
        case 'partially-appended':
          return finish(asked, answer.debitRevision)
        case 'refused':
          // The pay page brings the money.
          if (answer.refusal.code !== 'insufficient_balance') throw refuseForPlacement(answer.refusal)
          break
        case 'expired-key':
          throw new Error(`${asked.orderId} was fulfilled, but neither its debit nor its order is known`)
        case 'placed':
          break
        default:
          answer satisfies never
      }
      const { method, amountCents } = payable
      if (method === 'wallet') throw new Error('a wallet has no pay page')
      if (chargeOf(method, amountCents) === null)
        throw refuse('invalid_amount', 'one invoice is at most $5,000: order less, or pay from the wallet')
      const invoiced = await customerInvoices.invoice(payable, amountCents, causeOf(asked))
      const { order, created, position, payUrl, chargeCents } = invoiced
      const { idempotencyKey } = asked
      return { order, replayed: !created, idempotencyKey, position, invoice: { payUrl, chargeCents } }
    },
  }
}
