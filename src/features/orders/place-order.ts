import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { RefreshTerms, TermsOf } from '../../domain/catalog/pricing.ts'
import type { Product } from '../../domain/catalog/product.ts'
import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import type { OrderMethod } from '../../domain/shared/order-terms.ts'
import { requestFingerprint } from '../../kernel/digest.ts'
import { type AccountId, newId, orderIdOf } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { orderStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { ApiError } from '../../platform/http/errors.ts'
import type { ApiRequest } from '../../platform/http/route.ts'
import type { Customers } from '../accounts/index.ts'
import { createRequireOrderable } from '../catalog/index.ts'
import {
  answerForExistingOrder,
  createAppendOrder,
  type KeyedOrderRequest,
  keyConflict,
  type OrderRequest,
  type PlacedOrder,
} from './append-order.ts'
import type { CompleteOrder } from './complete-orders.ts'
import type { CustomerInvoices } from './customer-invoices.ts'
import { refuseForPlacement } from './order-errors.ts'
import { createPayPages } from './pay-urls.ts'
import type { Payer } from './payer.ts'
import type { Buyer, Prepared } from './prepare-order.ts'
import { readOrder } from './refund-order.ts'

/** A request that a wallet, a customer's credit or a pay page pays. */
export type Purchase = Pick<ApiRequest, 'requestId' | 'idempotencyKey' | 'customerRef'> & {
  readonly scope: Scope
  readonly caller: Payer
  /** The route with its path ids. */
  readonly path: string
  /** The product that is bought, by its own id where it has one; empty where the body names rentals. */
  readonly productId: string
  readonly body: Readonly<Record<string, unknown>> & {
    readonly method?: OrderMethod | undefined
    readonly expected_amount_cents?: number | undefined
  }
}

/**
 * Places an order, a top-up or an extension: who pays for whom, what makes a retry the same request, and then
 * `OrderService.submit`.
 * @param prepare what is bought and for how much; it throws the refusals
 * @throws ApiError as `OrderService.submit`
 */
export type PlaceOrder = (
  purchase: Purchase,
  prepare: (buyer: Buyer) => Promise<Prepared>,
) => Promise<PlacedOrder>

export const createPlaceOrder =
  (deps: {
    readonly orders: OrderService
    readonly catalog: { current(): Catalog }
    readonly termsOf: TermsOf
    readonly refreshTerms: RefreshTerms
    readonly customers: Pick<Customers, 'ensure'>
  }): PlaceOrder =>
  async ({ caller, scope, requestId, idempotencyKey, customerRef, path, productId, body }, prepare) => {
    const { orders, catalog, termsOf, refreshTerms, customers } = deps
    const { customerId } = scope
    const { method = 'wallet', ...rest } = body
    const fingerprintOf = (asked: Purchase['body']): string =>
      requestFingerprint({ method: 'POST', path, productId, body: asked, customerId })
    const relate = async (): Promise<void> => {
      if (customerRef !== null) await customers.ensure(caller.accountId, customerRef)
    }
    const request: Omit<OrderRequest, 'fingerprint'> = {
      caller,
      relate,
      requestId,
      idempotencyKey,
      prepare: async (orderId) => {
        await refreshTerms(caller)
        return prepare({
          orderId,
          caller,
          customerId,
          termsOf: (product: Product) => termsOf(caller, product),
          method,
          payableBy: await orders.payableBy(method),
          expectedAmountCents: body.expected_amount_cents,
          catalog: catalog.current(),
        })
      },
    }
    const placed =
      method === 'wallet'
        ? await orders.submit({ ...request, fingerprint: fingerprintOf(rest) }).catch((error: unknown) => {
            // Orders of before 0.2.0 whose request named the wallet have a fingerprint of their own.
            if (!(error instanceof ApiError && error.code === 'idempotency_conflict')) throw error
            return orders.submit({ ...request, fingerprint: fingerprintOf({ ...rest, method }) })
          })
        : await orders.submit({ ...request, fingerprint: fingerprintOf(body) })
    // Whose credit paid is known before; only one whose own id was erased is told of anew.
    await relate()
    return placed
  }

export type { CompanionAppend, OrderRequest, PlacedOrder } from './append-order.ts'
export { OrderRejected } from './append-order.ts'

export type OrderService = {
  /** Whether an order of the account stands under the key. */
  known(account: AccountId, idempotencyKey: string): Promise<boolean>
  /** By what an own order can be paid: the wallet and each rail with a live gateway; for the wallet none is looked for. */
  payableBy(method: OrderMethod): Promise<readonly OrderMethod[]>
  /**
   * Places an order, or opens its pay page, or answers the order that stands under its key, whatever price, stock or
   * catalogue did since.
   * @throws ApiError: what `prepare` refuses, idempotency_conflict, out_of_stock, product_unavailable (an expired
   * plan), spend_cap_reached, insufficient_balance, customer_credit_insufficient, invalid_amount,
   * deposits_not_available, gateway_unavailable; CommandOverload; OrderRejected
   */
  submit(request: OrderRequest): Promise<PlacedOrder>
}

export const createOrderService = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly complete: CompleteOrder
  /** Null where nothing but wallets and credit pays. */
  readonly customerInvoices: CustomerInvoices | null
}): OrderService => {
  const { log, runner, complete, customerInvoices } = deps
  const attempt = createAppendOrder(deps)

  const finish = async (asked: KeyedOrderRequest, debitRevision: number): Promise<PlacedOrder> => {
    const { accountId } = asked.request.caller
    const completed = await complete(asked.orderId, { accountId, revision: debitRevision })
    if (!completed) throw new Error(`the debit of ${asked.orderId} stands but nothing completes it`)
    const { order, position } = completed
    if (order.details.fingerprint !== asked.request.fingerprint) throw keyConflict()
    // Several requests may find the same debit without its order: the one that completed it made the order.
    return { ...answerForExistingOrder(asked, order), replayed: position === null, position }
  }
  const requireOrderable = createRequireOrderable(runner)
  const payPages = customerInvoices && createPayPages({ customerInvoices, attempt, requireOrderable, finish })

  const replay = async (
    asked: KeyedOrderRequest,
    order: Order,
    fresh: () => OrderDraft,
  ): Promise<PlacedOrder> => {
    if (order.details.fingerprint !== asked.request.fingerprint) throw keyConflict()
    return order.status === 'awaiting_payment' && payPages
      ? payPages.again(asked, order, fresh)
      : answerForExistingOrder(asked, order)
  }

  /** What stood already and was only read: the position of its last event. */
  const placedAt = async (placed: PlacedOrder): Promise<PlacedOrder> => {
    if (placed.position !== null) return placed
    const last = await log.lastOf(orderStream(placed.order.details.orderId))
    return { ...placed, position: last?.position ?? null }
  }

  const submit = async (request: OrderRequest): Promise<PlacedOrder> => {
    const idempotencyKey = request.idempotencyKey ?? newId('auto')
    const orderId = request.orderId ?? orderIdOf(request.caller.accountId, idempotencyKey)
    const asked: KeyedOrderRequest = { request, orderId, idempotencyKey }
    let draft: OrderDraft
    try {
      draft = { ...(await request.prepare(orderId)), fingerprint: request.fingerprint }
    } catch (error) {
      // A known key answers its order whatever has become of product and price since.
      const named = request.orderId !== undefined || request.idempotencyKey !== null
      const known = error instanceof ApiError && named ? await readOrder(log, orderId) : null
      if (!known) throw error
      return replay(asked, known, () => {
        throw error
      })
    }
    if (draft.method !== 'wallet' && draft.customerId === null && payPages)
      return payPages.invoiceOwn(asked, draft)
    const { answer, position, draft: tried } = await attempt(request, draft)
    switch (answer.kind) {
      case 'placed':
        return { order: answer.order, replayed: false, idempotencyKey, position }
      case 'known':
        return replay(asked, answer.order, () => draft)
      case 'conflict':
        throw keyConflict()
      case 'partially-appended':
        return finish(asked, answer.debitRevision)
      case 'expired-key':
        throw new Error(`${orderId} was fulfilled, but neither its debit nor its order is known`)
      case 'refused':
        if (payPages) return payPages.refused(asked, tried, answer.refusal)
        throw refuseForPlacement(answer.refusal)
      default: {
        const unknown: never = answer
        throw new Error(`unknown answer ${JSON.stringify(unknown)}`)
      }
    }
  }

  return {
    known: async (account, idempotencyKey) =>
      (await log.lastOf(orderStream(orderIdOf(account, idempotencyKey)))) !== null,

    payableBy: async (method) =>
      method === 'wallet' || customerInvoices === null
        ? ['wallet']
        : ['wallet', ...(await customerInvoices.liveRails())],

    submit: async (request) => placedAt(await submit(request)),
  }
}
