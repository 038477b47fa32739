import { LRUCache } from 'lru-cache'
import type { AwaitedInvoice } from '../../../projections/orders.ts'
import {
  decidePlacement,
  type OrderDraft,
  orderStreams,
  type PlacementAnswer,
  type PlacementRefusal,
} from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import type { Rail } from '../../domain/payments/payments.ts'
import type { OrderMethod } from '../../domain/shared/order-terms.ts'
import type { CommandDecision, Fold } from '../../kernel/decider.ts'
import { requestFingerprint } from '../../kernel/digest.ts'
import type { Actor, DomainEvent } from '../../kernel/event.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import {
  type AccountId,
  type CustomerId,
  heldPlanId,
  newId,
  type OrderId,
  orderIdOf,
} from '../../kernel/ids.ts'
import { orderStream, type StreamName } from '../../kernel/streams.ts'
import type { CommandOutcome, CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { type ApiRequest, type IdempotentResult, keyConflict } from '../../platform/http/route.ts'
import type { Customers } from '../accounts/index.ts'
import { createCompletion } from './complete-orders.ts'
import { refuseForPlacement } from './order-errors.ts'
import {
  actorOfPayer,
  capOfPayer,
  type OrderItem,
  type Payer,
  type PriceSources,
  quoteItem,
} from './prepare-order.ts'
import { readOrder } from './refund-order.ts'

/**
 * Places an order, a top-up, an extension or a period of a subscription; or opens its pay page; or returns the order
 * that exists under its key, whatever happened to product, price and stock since.
 * @throws ApiError: refusals of the item and its price (prepare-order.ts), idempotency_conflict, out_of_stock,
 * product_unavailable (an expired plan), spend_cap_reached, insufficient_balance, customer_credit_insufficient,
 * invalid_amount, deposits_not_available, gateway_unavailable; CommandOverload; OrderRejected
 */
export type PlaceOrder = (request: OrderRequest) => Promise<PlacedOrder>

/** Orders that are paid on a pay page: own orders on a rail, and orders of customers without enough credit. */
export type PayPages = {
  /** The methods with a live gateway. */
  liveRails(): Promise<readonly Rail[]>
  /** Opens the pay page of an own order: it awaits the payment of the whole amount. */
  invoiceOwn(keyed: KeyedOrder, draft: OrderDraft): Promise<PlacedOrder>
  /**
   * Opens the pay page of a customer's refused order if a live rail can take the missing credit.
   * @param waiting the order that waits under the key
   * @throws ApiError the refusal, with the pay page if there is one
   */
  refused(
    keyed: KeyedOrder,
    draft: OrderDraft,
    refusal: PlacementRefusal,
    waiting?: Order | null,
  ): Promise<PlacedOrder>
  /**
   * Repeats the request for an order that awaits its payment. It may be paid by now, still be open, or be canceled,
   * because its invoice closed. It gets a new invoice if the request names another method, or if a debt arose that the
   * open invoice does not contain.
   */
  again(keyed: KeyedOrder, order: Order): Promise<PlacedOrder>
}

export const createPlaceOrder = (
  dependencies: AppendOrderDependencies & {
    readonly appendOrder: AppendOrder
    readonly prices: PriceSources
    readonly customers: Pick<Customers, 'ensure'>
    /** Null: only wallets and credit pay. */
    readonly payPages: PayPages | null
  },
): PlaceOrder => {
  const { log, appendOrder, prices, customers, payPages } = dependencies

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
        method === 'wallet' || payPages === null ? ['wallet'] : ['wallet', ...(await payPages.liveRails())],
      expectedAmountCents: request.expectedAmountCents,
    })
    if (quoted instanceof ApiError) {
      const isNewKey = request.orderId === undefined && request.idempotencyKey === null
      const existing = isNewKey ? null : await readOrder(log, orderId)
      if (!existing) throw quoted
      return answerExisting(keyed, existing)
    }
    const draft = { ...quoted, fingerprint }

    if (method !== 'wallet' && customerId === null && payPages) return payPages.invoiceOwn(keyed, draft)

    const { answer, position, draft: decidedDraft } = await appendOrder(request, draft)
    switch (answer.kind) {
      case 'placed':
        return { order: answer.order, replayed: false, idempotencyKey, position }
      case 'known':
        return answerExisting(keyed, answer.order)
      case 'conflict':
        throw keyConflict()
      case 'partially-appended':
        return finishOrder(dependencies, keyed, answer.debitRevision)
      case 'expired-key':
        throw new Error(`${orderId} was fulfilled, but neither its debit nor its order is known`)
      case 'refused':
        if (payPages) return payPages.refused(keyed, decidedDraft, answer.refusal)
        throw refuseForPlacement(answer.refusal, null)
      default:
        return answer satisfies never
    }
  }

  const answerExisting = async (keyed: KeyedOrder, order: Order): Promise<PlacedOrder> => {
    if (order.details.fingerprint !== keyed.fingerprint) throw keyConflict()
    return order.status === 'awaiting_payment' && payPages
      ? payPages.again(keyed, order)
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
  // The method is how an order is paid. Another one under the same key gets another pay page.
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
    fingerprint: fingerprintOf(bodyWithoutMethod),
    // Before 0.2.0, fingerprints had the method.
    formerFingerprint: fingerprintOf({ ...bodyWithoutMethod, method }),
  }
}

/** The result of a request for an order. */
export type PlacedOrder = IdempotentResult & {
  readonly order: Order
  /** The invoice of an order that awaits its payment; left out for any other order. */
  readonly invoice?: AwaitedInvoice | null
}

/**
 * Another stream that is decided together with the order, such as that of the subscription whose period it pays. Its
 * events are appended with the order. Null rejects the order, and nothing is appended.
 */
export type CompanionAppend<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: it only gets events of its own stream
  readonly fold: Fold<State, any>
  decide(state: State, order: Order): readonly DomainEvent[] | null
}

/** The companion of the order rejected it. */
export class OrderRejected extends Error {
  override readonly name = 'OrderRejected'
}

export type OrderRequest = {
  readonly caller: Payer
  /** The reseller's customer whose credit pays; left out or null: the wallet pays. */
  readonly customerId?: CustomerId | null
  /** The reseller's own id of that customer. */
  readonly customerRef?: string | null
  readonly requestId: string
  /** Null: a new key is generated and returned. */
  readonly idempotencyKey: string | null
  readonly item: OrderItem
  /** Left out: the wallet. */
  readonly method?: OrderMethod
  /** Another price is refused. Left out: any price. */
  readonly expectedAmountCents?: number | undefined
  /** Repeated requests under the key must have the same one. */
  readonly fingerprint: string
  /** The fingerprint of the same request in an older release. */
  readonly formerFingerprint?: string
  /** Left out: derived from account and key. The period of a subscription has an id of its own. */
  readonly orderId?: OrderId
  /** Left out: the caller's key or session. */
  readonly actor?: Actor
  // biome-ignore lint/suspicious/noExplicitAny: only its own fold and decision use its state
  readonly companion?: CompanionAppend<any>
}

/** A request with its order id and key. */
export type KeyedOrder = {
  readonly request: OrderRequest
  readonly orderId: OrderId
  /** The client's or the generated one. */
  readonly idempotencyKey: string
  readonly fingerprint: string
}

export const actorOf = ({ caller, actor }: OrderRequest): Actor => actor ?? actorOfPayer(caller)

/** The answer for an order that already exists under the key. */
export const answerForExistingOrder = ({ idempotencyKey }: KeyedOrder, order: Order): PlacedOrder => ({
  order,
  replayed: true,
  idempotencyKey,
  position: null,
})

/** Completes an order whose debit is in the log and whose other events are missing. */
export const finishOrder = async (
  dependencies: AppendOrderDependencies,
  keyed: KeyedOrder,
  debitRevision: number,
): Promise<PlacedOrder> => {
  const { accountId } = keyed.request.caller
  const completed = await createCompletion(dependencies)(keyed.orderId, {
    accountId,
    revision: debitRevision,
  })
  if (!completed) throw new Error(`the log has a debit of ${keyed.orderId} that cannot be completed`)
  const { order, position } = completed
  if (order.details.fingerprint !== keyed.fingerprint) throw keyConflict()
  // Several requests may find the same debit. The one that completed it created the order.
  return { ...answerForExistingOrder(keyed, order), replayed: position === null, position }
}

/**
 * `place` pays and fulfils the order. `dry-run` decides the same and appends nothing. `pay-awaited` pays an order that
 * awaits its payment.
 */
type AppendMode = 'place' | 'dry-run' | 'pay-awaited'

/** Decides an order and appends its events. For a product that is topped up, it adds to the payer's plan. */
export type AppendOrder = (
  request: OrderRequest,
  draft: OrderDraft,
  mode?: AppendMode,
) => Promise<
  CommandOutcome<PlacementAnswer> & {
    /** With the plan of the decision. */ readonly draft: OrderDraft
  }
>

export type AppendOrderDependencies = { readonly log: EventLog; readonly runner: CommandRunner }

/** The number of cached payer and product pairs. The cache has the number of the payer's current plan of a product. */
const maxHeldPlans = 100_000
const maxPlansAProduct = 1_000

export const createAppendOrder = ({ log, runner }: AppendOrderDependencies): AppendOrder => {
  // A conflict on the order's stream finds the order of an old key. Without atomic items, the debit would be appended a
  // second time before that conflict, because a wallet remembers debits for seven days.
  const orderAssumed = log.atomicItems === true ? ({ assume: 'absent' } as const) : {}
  const heldPlans = new LRUCache<string, number>(growingCacheOptions(maxHeldPlans))

  const append = async (request: OrderRequest, draft: OrderDraft, mode: AppendMode) => {
    const { accountId } = request.caller
    const streams = orderStreams(draft)
    const { companion } = request
    const placement = { draft, cap: capOfPayer(request.caller), payAwaited: mode === 'pay-awaited' }
    const { answer, position } = await runner.run({
      name: `place-${draft.kind}`,
      streams: {
        ...streams,
        order: { ...streams.order, ...orderAssumed },
        ...(companion && { companion: { stream: companion.stream, fold: companion.fold } }),
      },
      decide: (states, { nowMs }): CommandDecision<PlacementAnswer | { readonly kind: 'rejected' }> => {
        const decision = decidePlacement(states, placement, nowMs)
        if (mode === 'dry-run') return { appends: [], answer: decision.answer }
        if (!companion || decision.answer.kind !== 'placed') return decision
        const events = companion.decide(states.companion, decision.answer.order)
        if (events === null) return { appends: [], answer: { kind: 'rejected' } }
        return { ...decision, appends: [...decision.appends, { stream: companion.stream, events }] }
      },
      correlationId: request.requestId,
      actor: actorOf(request),
      account: accountId,
    })
    if (answer.kind === 'rejected') throw new OrderRejected(`the companion of ${draft.orderId} rejected it`)
    return { answer, position, draft }
  }

  /** Tries the payer's current plan, and the next one if that plan has expired. */
  const appendOnCurrentPlan = async (request: OrderRequest, draft: OrderDraft, mode: AppendMode) => {
    const { accountId, customerId, productId } = draft
    const heldKey = JSON.stringify([accountId, customerId, productId])
    for (let n = heldPlans.get(heldKey) ?? 0; n < maxPlansAProduct; n += 1) {
      const onPlan = { ...draft, planId: heldPlanId(accountId, customerId, productId, n) }
      const outcome = await append(request, onPlan, mode)
      const { answer } = outcome
      const isExpired =
        answer.kind === 'refused' &&
        answer.refusal.code === 'refused_by_arbiter' &&
        answer.refusal.reason === 'plan_expired'
      if (isExpired) continue
      heldPlans.set(heldKey, n)
      return outcome
    }
    throw new Error(`${heldKey} already had ${maxPlansAProduct} plans`)
  }

  return (request, draft, mode = 'place') =>
    draft.kind === 'order' && draft.renewal === 'topup'
      ? appendOnCurrentPlan(request, draft, mode)
      : append(request, draft, mode)
}
