import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import type { OrderMethod } from '../../domain/shared/order-terms.ts'
import { requestFingerprint } from '../../kernel/digest.ts'
import { type AccountId, type CustomerId, newId, orderIdOf } from '../../kernel/ids.ts'
import { orderStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { ApiError } from '../../platform/http/errors.ts'
import type { ApiRequest } from '../../platform/http/route.ts'
import { keyConflict } from '../../platform/http/route.ts'
import type { Customers } from '../accounts/index.ts'
import {
  type AppendOrderDeps,
  answerForExistingOrder,
  createAppendOrder,
  finishOrder,
  type KeyedOrder,
  type OrderRequest,
  type PlacedOrder,
} from './append-order.ts'
import type { CustomerInvoices } from './customer-invoices.ts'
import { refuseForPlacement } from './order-errors.ts'
import { createPayPages } from './pay-pages.ts'
import { type OrderItem, type PriceSources, quoteItem } from './prepare-order.ts'
import { readOrder } from './refund-order.ts'

/**
 * Places an order, a top-up, an extension or a period of a subscription; or opens its pay page; or returns the order
 * that exists under its key, whatever happened to product, price and stock since.
 * @throws ApiError: refusals of the item and its price (prepare-order.ts), idempotency_conflict, out_of_stock,
 * product_unavailable (an expired plan), spend_cap_reached, insufficient_balance, customer_credit_insufficient,
 * invalid_amount, deposits_not_available, gateway_unavailable; CommandOverload; OrderRejected
 */
export type PlaceOrder = (request: OrderRequest) => Promise<PlacedOrder>

export const createPlaceOrder = (
  deps: AppendOrderDeps & {
    readonly prices: PriceSources
    readonly customers: Pick<Customers, 'ensure'>
    /** Null: only wallets and credit pay. */
    readonly customerInvoices: CustomerInvoices | null
  },
): PlaceOrder => {
  const { log, prices, customers, customerInvoices } = deps
  const appendOrder = createAppendOrder(deps)
  const payPages = customerInvoices && createPayPages({ ...deps, customerInvoices, appendOrder })

  const placeOnce = async (request: OrderRequest, fingerprint: string): Promise<PlacedOrder> => {
    const { caller, customerId = null, method = 'wallet' } = request
    const idempotencyKey = request.idempotencyKey ?? newId('auto')
    const orderId = request.orderId ?? orderIdOf(caller.accountId, idempotencyKey)
    const keyed: KeyedOrder = { request, orderId, idempotencyKey, fingerprint }

    const quoted = await quoteItem(request.item, prices, {
      orderId,
      caller,
      customerId,
      method,
      payableBy:
        method === 'wallet' || customerInvoices === null
          ? ['wallet']
          : ['wallet', ...(await customerInvoices.liveRails())],
      expectedAmountCents: request.expectedAmountCents,
    })
    if (quoted instanceof ApiError) {
      const isNewKey = request.orderId === undefined && request.idempotencyKey === null
      const existing = isNewKey ? null : await readOrder(log, orderId)
      if (!existing) throw quoted
      return answerExisting(keyed, existing, quoted)
    }
    const draft = { ...quoted, fingerprint }

    if (method !== 'wallet' && customerId === null && payPages) return payPages.invoiceOwn(keyed, draft)

    const { answer, position, draft: decidedDraft } = await appendOrder(request, draft)
    switch (answer.kind) {
      case 'placed':
        return { order: answer.order, replayed: false, idempotencyKey, position }
      case 'known':
        return answerExisting(keyed, answer.order, draft)
      case 'conflict':
        throw keyConflict()
      case 'partially-appended':
        return finishOrder(deps, keyed, answer.debitRevision)
      case 'expired-key':
        throw new Error(`${orderId} was fulfilled, but neither its debit nor its order is known`)
      case 'refused':
        if (payPages) return payPages.refused(keyed, decidedDraft, answer.refusal)
        throw refuseForPlacement(answer.refusal)
      default:
        return answer satisfies never
    }
  }

  const answerExisting = async (
    keyed: KeyedOrder,
    order: Order,
    quoted: OrderDraft | ApiError,
  ): Promise<PlacedOrder> => {
    if (order.details.fingerprint !== keyed.fingerprint) throw keyConflict()
    return order.status === 'awaiting_payment' && payPages
      ? payPages.again(keyed, order, quoted)
      : answerForExistingOrder(keyed, order)
  }

  return async (request) => {
    const { fingerprint, formerFingerprint, caller, customerRef = null } = request
    const placed = await placeOnce(request, fingerprint).catch((error: unknown) => {
      const isConflict = error instanceof ApiError && error.code === 'idempotency_conflict'
      if (formerFingerprint === undefined || !isConflict) throw error
      return placeOnce(request, formerFingerprint)
    })
    // The customer exists, unless its own id was erased since.
    if (customerRef !== null) await customers.ensure(caller.accountId, customerRef)
    if (placed.position !== null) return placed
    const last = await log.lastOf(orderStream(placed.order.details.orderId))
    return { ...placed, position: last?.position ?? null }
  }
}

/** Whether the account has an order under the key. */
export const isOrderKey = async (
  log: Pick<EventLog, 'lastOf'>,
  account: AccountId,
  idempotencyKey: string,
): Promise<boolean> => (await log.lastOf(orderStream(orderIdOf(account, idempotencyKey)))) !== null

/** The part of an API request or of a console form that concerns an order. */
export type Purchase = Pick<ApiRequest, 'requestId' | 'idempotencyKey' | 'customerRef'> & {
  readonly caller: OrderRequest['caller']
  readonly scope: { readonly customerId: CustomerId | null }
  /** The route with its path ids. */
  readonly path: string
  readonly body: Readonly<Record<string, unknown>> & {
    readonly method?: OrderMethod | undefined
    readonly expected_amount_cents?: number | undefined
  }
}

/**
 * The order of a request. Two requests under one key are the same if their fingerprints are equal.
 * @param productId the product's current id; empty if the body names rentals
 */
export const orderOf = (
  { caller, scope, requestId, idempotencyKey, customerRef, path, body }: Purchase,
  productId: string,
  item: OrderItem,
): OrderRequest => {
  const { customerId } = scope
  const { method = 'wallet', ...bodyWithoutMethod } = body
  const fingerprintOf = (requestBody: Purchase['body']): string =>
    requestFingerprint({ method: 'POST', path, productId, body: requestBody, customerId })
  return {
    caller,
    customerId,
    customerRef,
    requestId,
    idempotencyKey,
    item,
    method,
    expectedAmountCents: body.expected_amount_cents,
    // Before 0.2.0, an order whose request named the wallet had another fingerprint than one without a method.
    ...(method === 'wallet'
      ? {
          fingerprint: fingerprintOf(bodyWithoutMethod),
          formerFingerprint: fingerprintOf({ ...bodyWithoutMethod, method }),
        }
      : { fingerprint: fingerprintOf(body) }),
  }
}
