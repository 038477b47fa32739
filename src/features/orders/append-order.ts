import { LRUCache } from 'lru-cache'
import type { AwaitedInvoice } from '../../../projections/orders.ts'
import { orderStreams } from '../../domain/orders/allocation-owner.ts'
import {
  decidePlacement,
  type OrderDraft,
  type PlacementAnswer,
} from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import type { OrderMethod } from '../../domain/shared/order-terms.ts'
import type { CommandDecision, Fold } from '../../kernel/decider.ts'
import type { Actor, DomainEvent } from '../../kernel/event.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import { type CustomerId, heldPlanId, type OrderId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { CommandOutcome, CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { type IdempotentResult, keyConflict } from '../../platform/http/route.ts'
import { createCompletion } from './complete-orders.ts'
import { actorOfPayer, capCentsOf, type Payer } from './payer.ts'
import type { OrderItem } from './prepare-order.ts'

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
  deps: AppendOrderDeps,
  keyed: KeyedOrder,
  debitRevision: number,
): Promise<PlacedOrder> => {
  const { accountId } = keyed.request.caller
  const completed = await createCompletion(deps)(keyed.orderId, { accountId, revision: debitRevision })
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
export type AppendMode = 'place' | 'dry-run' | 'pay-awaited'

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

export type AppendOrderDeps = { readonly log: EventLog; readonly runner: CommandRunner }

/** The number of cached payer and product pairs. The cache has the number of the payer's current plan of a product. */
const maxHeldPlans = 100_000
const maxPlansAProduct = 1_000

export const createAppendOrder = ({ log, runner }: AppendOrderDeps): AppendOrder => {
  // A conflict on the order's stream finds the order of an old key. Without atomic items, the debit would be appended a
  // second time before that conflict, because a wallet remembers debits for seven days.
  const orderAssumed = log.atomicItems === true ? ({ assume: 'absent' } as const) : {}
  const heldPlans = new LRUCache<string, number>(growingCacheOptions(maxHeldPlans))

  const append = async (request: OrderRequest, draft: OrderDraft, mode: AppendMode) => {
    const { accountId } = request.caller
    const streams = orderStreams(draft)
    const { companion } = request
    const placement = { draft, capCents: capCentsOf(request.caller), payAwaited: mode === 'pay-awaited' }
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
