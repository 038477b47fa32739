import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import { type Order, waitsFor } from '../../domain/orders/fold.ts'
import type { Rail } from '../../domain/payments/payments.ts'
import { refuse } from '../../platform/http/errors.ts'
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
import { cancelClosed, cancelUncovered } from './place-paid-orders.ts'
import { orderedBy } from './prepare-order.ts'

const causeOf = ({ request }: KeyedOrder) => ({
  actor: actorOf(request),
  correlationId: request.requestId,
})

/**
 * Whether a page still charges what is missing: a debt may have arisen or been paid since it was opened. A page that was
 * paid in part takes the rest.
 */
const stillServes = (
  { rail, chargeCents, isPaidInPart }: NonNullable<AwaitedOrderStatus['open']>,
  missingCents: number,
): boolean => (isPaidInPart ? chargeCents >= missingCents : chargeCents === chargeOf(rail, missingCents))

export const createPayPages = (
  dependencies: AppendOrderDependencies & {
    readonly customerInvoices: CustomerInvoices
    readonly appendOrder: AppendOrder
  },
): PayPages => {
  const { customerInvoices, appendOrder, runner } = dependencies
  const requireOrderable = createRequireOrderable(runner)

  /** The page of an own order for its whole price and the debt, which the payment pays first. */
  const ownPage = async (
    keyed: KeyedOrder,
    draft: OrderDraft,
    owedCents: number,
    waiting: Order | null,
  ): Promise<PlacedOrder> => {
    const amountCents = draft.amountCents + owedCents
    if (chargeOf(draft.method as Rail, amountCents) === null)
      throw refuse('invalid_amount', 'one invoice is at most $5,000: order less, or pay from the wallet')
    const invoiced = await customerInvoices.invoice(draft, amountCents, causeOf(keyed), { waiting })
    const { order, created, position, payUrl, chargeCents } = invoiced
    const { idempotencyKey } = keyed
    const invoice = { payUrl, chargeCents, owedCents, shortfallCents: 0, walletShortfallCents: 0 }
    return { order, replayed: !created, idempotencyKey, position, invoice }
  }

  const refused: PayPages['refused'] = async (keyed, draft, refusal, waiting = null) => {
    const { method, customerId, accountId } = draft
    const missingCents = refusal.code === 'customer_credit_insufficient' ? refusal.shortfallCents : null
    if (missingCents === null || method === 'wallet' || customerId === null)
      throw refuseForPlacement(refusal, waiting)
    const payable =
      chargeOf(method, missingCents) !== null && (await customerInvoices.takes(method, accountId))
    if (!payable) throw refuseForPlacement(refusal, waiting)
    const { customerRef } = keyed.request
    const {
      order,
      position,
      created: _,
      ...page
    } = await customerInvoices.invoice(draft, missingCents, causeOf(keyed), { waiting, customerRef })
    if (order.status === 'awaiting_payment') throw refuseForPlacement(refusal, order, page)
    return { ...answerForExistingOrder(keyed, order), position }
  }

  /** Pays an awaited order from the wallet or the credit, if they are enough by now. */
  const payAwaited = async (
    keyed: KeyedOrder,
    { order, open }: AwaitedOrderStatus,
    method: OrderDraft['method'],
  ): Promise<PlacedOrder> => {
    const { caller } = keyed.request
    // The price is fixed while the order waits.
    await requireOrderable(order.details, causeOf(keyed))
    // The key of this request pays, under its own cap, even if another key placed the order.
    const { capKeyId: _capKeyId, ...asPriced } = order.details
    const payable = { ...asPriced, ...orderedBy(caller), method }
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
        const { refusal } = answer
        const isShort = refusal.code === 'customer_credit_insufficient'
        if (isShort && open?.rail === method && stillServes(open, refusal.shortfallCents)) {
          const { rail: _rail, isPaidInPart: _part, ...page } = open
          throw refuseForPlacement(refusal, order, page)
        }
        if (waitsFor(order) !== 'wallet') return refused(keyed, draft, refusal, order)
        const after = await cancelUncovered(runner, order, causeOf(keyed))
        if (after.status === 'awaiting_payment') throw refuseForPlacement(refusal, order)
        return answerForExistingOrder(keyed, after)
      }
      default:
        return answer satisfies never
    }
  }

  const again: PayPages['again'] = async (keyed, existing) => {
    const cause = causeOf(keyed)
    const status = await customerInvoices.statusOf(existing, cause)
    const { open, isInvoiceClosed, invoice } = status
    const order = isInvoiceClosed ? await cancelClosed(runner, status.order, cause) : status.order
    const { details } = order
    const { method = 'wallet' } = keyed.request
    if (order.status !== 'awaiting_payment') return answerForExistingOrder(keyed, order)
    if (details.customerId !== null)
      return payAwaited(keyed, { ...status, order }, method === 'wallet' ? details.method : method)
    if (method === 'wallet') return payAwaited(keyed, { ...status, order }, method)
    const owedCents = invoice?.owedCents ?? 0
    const isSame = open?.rail === method && stillServes(open, details.amountCents + owedCents)
    return isSame || (open === null && details.method === method)
      ? { ...answerForExistingOrder(keyed, order), invoice }
      : ownPage(keyed, { ...details, method }, owedCents, order)
  }

  return {
    liveRails: customerInvoices.liveRails,
    refused,
    again,
    invoiceOwn: async (keyed, draft) => {
      const { answer, draft: payable } = await appendOrder(keyed.request, draft, 'dry-run')
      switch (answer.kind) {
        case 'conflict':
          throw keyConflict()
        case 'known':
          return answer.order.status === 'awaiting_payment'
            ? again(keyed, answer.order)
            : answerForExistingOrder(keyed, answer.order)
        case 'partially-appended':
          return finishOrder(dependencies, keyed, answer.debitRevision)
        case 'refused':
          // The payment covers the missing money.
          if (answer.refusal.code !== 'insufficient_balance') throw refuseForPlacement(answer.refusal, null)
          return ownPage(keyed, payable, answer.refusal.owedCents ?? 0, null)
        case 'expired-key':
          throw new Error(`${keyed.orderId} was fulfilled, but neither its debit nor its order is known`)
        case 'placed':
          return ownPage(keyed, payable, 0, null)
        default:
          return answer satisfies never
      }
    },
  }
}
