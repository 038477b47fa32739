import { LRUCache } from 'lru-cache'
import type { AwaitedInvoice } from '../../../projections/orders.ts'
import { orderStreams } from '../../domain/orders/allocation-owner.ts'
import {
  decidePlacement,
  type OrderDraft,
  type PlacementAnswer,
} from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import type { CommandDecision, Fold } from '../../kernel/decider.ts'
import type { Actor, DomainEvent } from '../../kernel/event.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import { heldPlanId, type OrderId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import type { CommandOutcome, CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import type { IdempotentResult } from '../../platform/http/idempotency.ts'
import { actorOfPayer, capCentsOf, type Payer } from './payer.ts'

/** What stands after an order was asked for. */
export type PlacedOrder = IdempotentResult & {
  readonly order: Order
  /** What an order that awaits its payment waits for; left out for any other. */
  readonly invoice?: AwaitedInvoice | null
}

/**
 * A stream that is decided with the order, such as that of the subscription whose period it pays. What it says lands
 * with the order; null turns the order away, and nothing is written.
 */
export type CompanionAppend<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: it is handed its own stream's events only
  readonly fold: Fold<State, any>
  decide(state: State, order: Order): readonly DomainEvent[] | null
}

/** The stream beside the order turned it away. */
export class OrderRejected extends Error {
  override readonly name = 'OrderRejected'
}

export type OrderRequest = {
  readonly caller: Payer
  readonly requestId: string
  /** Null: the server makes one and the answer tells it. */
  readonly idempotencyKey: string | null
  /** The order's id where something else than the account's key names it, such as a period of a subscription. */
  readonly orderId?: OrderId
  /** Left out: the caller's key or session. */
  readonly actor?: Actor
  // biome-ignore lint/suspicious/noExplicitAny: its state is between it and its fold
  readonly companion?: CompanionAppend<any>
  /** Makes the relation to the customer: called before an invoice is opened for one who may be new. */
  readonly relate?: () => Promise<void>
  /** What a retry under the same key must ask for again (src/kernel/digest.ts). */
  readonly fingerprint: string
  /** Everything that is decided before the log is asked: product, quantity, targeting, price. It throws refusals. */
  prepare(orderId: OrderId): Promise<Omit<OrderDraft, 'fingerprint'>>
}

/** A request with what its key comes to. */
export type KeyedOrderRequest = {
  readonly request: OrderRequest
  readonly orderId: OrderId
  /** The client's, or the one that the server made. */
  readonly idempotencyKey: string
}

export const actorOf = ({ caller, actor }: OrderRequest): Actor => actor ?? actorOfPayer(caller)

export const keyConflict = (): ApiError =>
  refuse(
    'idempotency_conflict',
    'this Idempotency-Key stands for another request; send a new key for a new order',
  )

/** The answer for an order that stood under the key before. */
export const answerForExistingOrder = ({ idempotencyKey }: KeyedOrderRequest, order: Order): PlacedOrder => ({
  order,
  replayed: true,
  idempotencyKey,
  position: null,
})

/**
 * `place` pays at once, `look` decides the same and writes nothing, `pay-awaited` pays an order that awaits its payment
 * by what is there.
 */
export type AppendMode = 'place' | 'dry-run' | 'pay-awaited'

/** Asks the log for an order, on the plan that is held where its product tops one up. */
export type AppendOrder = (
  request: OrderRequest,
  draft: OrderDraft,
  mode?: AppendMode,
) => Promise<
  CommandOutcome<PlacementAnswer> & { /** As it was asked for: with its plan. */ readonly draft: OrderDraft }
>

/** The n-th held plan of a customer's top-up product: remembered per process, found again by asking. */
const maxHeldPlans = 100_000
const maxPlansAProduct = 1_000

export const createAppendOrder = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
}): AppendOrder => {
  const { log, runner } = deps
  // An old key's order is found by the conflict on its stream. Without atomic items the debit, which the wallet forgets
  // after seven days, would have landed a second time by then.
  const orderAssumed = log.atomicItems === true ? ({ assume: 'absent' } as const) : {}
  const heldPlans = new LRUCache<string, number>(growingCacheOptions(maxHeldPlans))

  const ask = async (request: OrderRequest, draft: OrderDraft, mode: AppendMode) => {
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
      decide: (states, { nowMs }): CommandDecision<PlacementAnswer | { readonly kind: 'turned_away' }> => {
        const decision = decidePlacement(states, placement, nowMs)
        if (mode === 'dry-run') return { appends: [], answer: decision.answer }
        if (!companion || decision.answer.kind !== 'placed') return decision
        const events = companion.decide(states.companion, decision.answer.order)
        if (events === null) return { appends: [], answer: { kind: 'turned_away' } }
        return { ...decision, appends: [...decision.appends, { stream: companion.stream, events }] }
      },
      correlationId: request.requestId,
      actor: actorOf(request),
      account: accountId,
    })
    if (answer.kind === 'turned_away') throw new OrderRejected(`${draft.orderId} was turned away`)
    return { answer, position, draft }
  }

  /** Asks on the held plan; when that has run out, on the next one. */
  const askOnHeldPlan = async (request: OrderRequest, draft: OrderDraft, mode: AppendMode) => {
    const { accountId, customerId, productId } = draft
    const held = JSON.stringify([accountId, customerId, productId])
    for (let n = heldPlans.get(held) ?? 0; n < maxPlansAProduct; n += 1) {
      const onPlan = { ...draft, planId: heldPlanId(accountId, customerId, productId, n) }
      const outcome = await ask(request, onPlan, mode)
      const { answer } = outcome
      const over =
        answer.kind === 'refused' &&
        answer.refusal.code === 'refused_by_arbiter' &&
        answer.refusal.reason === 'plan_expired'
      if (over) continue
      heldPlans.set(held, n)
      return outcome
    }
    throw new Error(`${held} has had ${maxPlansAProduct} plans`)
  }

  return (request, draft, mode = 'place') =>
    draft.kind === 'order' && draft.renewal === 'topup'
      ? askOnHeldPlan(request, draft, mode)
      : ask(request, draft, mode)
}
