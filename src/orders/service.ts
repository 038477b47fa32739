import { LRUCache } from 'lru-cache'
import type { CommandRunner, Decision } from '../eventstore/commands/command.ts'
import type { Actor, DomainEvent } from '../eventstore/event.ts'
import type { Fold } from '../eventstore/fold.ts'
import type { EventLog, StreamName } from '../eventstore/port.ts'
import { ledgerStream, orderStream } from '../eventstore/streams.ts'
import type { Caller } from '../http/auth.ts'
import { ApiError, refuse } from '../http/errors.ts'
import { type AccountId, heldPlanId, newId, type OrderId, orderIdOf } from '../ids.ts'
import { ledgerFold } from '../ledger/fold.ts'
import { arbiterOf } from './arbiter.ts'
import type { CompleteOrder } from './completion.ts'
import type { OrderDetails } from './details.ts'
import { refuseForPlacement } from './errors.ts'
import { type Order, orderFold } from './fold.ts'
import { decidePlacement, type OrderDraft, type PlacementAnswer } from './place.ts'
import { readOrder } from './refund-service.ts'

/** What stands after an order was asked for. */
export type Placed = {
  readonly order: Order
  /** The key's order stood already. */
  readonly replayed: boolean
  readonly idempotencyKey: string
  readonly position: number | null
}

/**
 * A stream that is decided with the order, such as that of the subscription whose period it pays. What it says lands
 * with the order; null turns the order away, and nothing is written.
 */
export type Beside<State> = {
  readonly stream: StreamName
  // biome-ignore lint/suspicious/noExplicitAny: it is handed its own stream's events only
  readonly fold: Fold<State, any>
  decide(state: State, order: Order): readonly DomainEvent[] | null
}

/** The stream beside the order turned it away. */
export class OrderTurnedAway extends Error {
  override readonly name = 'OrderTurnedAway'
}

export type OrderRequest = {
  readonly caller: Caller
  readonly requestId: string
  /** Null: the server makes one and the answer tells it. */
  readonly idempotencyKey: string | null
  /** The order's id where something else than the account's key names it, such as a period of a subscription. */
  readonly orderId?: OrderId
  /** Left out: the caller's key. */
  readonly actor?: Actor
  // biome-ignore lint/suspicious/noExplicitAny: its state is between it and its fold
  readonly beside?: Beside<any>
  /** What a retry under the same key must ask for again (src/orders/fingerprint.ts). */
  readonly fingerprint: string
  /** Everything that is decided before the log is asked: product, quantity, targeting, price. It throws refusals. */
  prepare(orderId: OrderId): Promise<Omit<OrderDraft, 'fingerprint'>>
}

export type OrderService = {
  /** Whether an order of the account stands under the key. */
  known(account: AccountId, idempotencyKey: string): Promise<boolean>
  /**
   * Places a wallet order, or answers the one that stands under its key, whatever price, stock or catalogue did since.
   * @throws ApiError: what `prepare` refuses, idempotency_conflict, out_of_stock, product_unavailable (an expired
   * plan), spend_cap_reached, insufficient_balance; CommandOverload; OrderTurnedAway
   */
  submit(request: OrderRequest): Promise<Placed>
}

/** The n-th held plan of a customer's top-up product: remembered per process, found again by asking. */
const maxHeldPlans = 100_000
const maxPlansAProduct = 1_000

export const createOrderService = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly complete: CompleteOrder
}): OrderService => {
  const { log, runner, complete } = deps
  // An old key's order is found by the conflict on its stream. Without atomic items the debit, which the wallet forgets
  // after seven days, would have landed a second time by then.
  const orderAssumed = log.atomicItems === true ? ({ assume: 'absent' } as const) : {}
  const heldPlans = new LRUCache<string, number>({ max: maxHeldPlans })

  const place = (request: OrderRequest, draft: OrderDraft) => {
    const { accountId, keyId, dailyCapCents } = request.caller
    const { beside } = request
    const arbiter = arbiterOf(draft as OrderDetails)
    return runner.run({
      name: `place-${draft.kind}`,
      streams: {
        ledger: { stream: ledgerStream(accountId), fold: ledgerFold },
        arbiter: { stream: arbiter.stream, fold: arbiter.fold },
        order: { stream: orderStream(draft.orderId), fold: orderFold, ...orderAssumed },
        ...(beside && { beside: { stream: beside.stream, fold: beside.fold } }),
      },
      decide: (states, { nowMs }): Decision<PlacementAnswer | { readonly kind: 'turned_away' }> => {
        const decision = decidePlacement(states, { draft, capCents: dailyCapCents }, nowMs)
        if (!beside || decision.answer.kind !== 'placed') return decision
        const events = beside.decide(states.beside, decision.answer.order)
        if (events === null) return { appends: [], answer: { kind: 'turned_away' } }
        return { ...decision, appends: [...decision.appends, { stream: beside.stream, events }] }
      },
      correlationId: request.requestId,
      actor: request.actor ?? { kind: 'key', accountId, keyId },
      account: accountId,
    })
  }

  /** Places the order on the held plan; when that has run out, on the next one. */
  const placeOnHeldPlan = async (request: OrderRequest, draft: OrderDraft) => {
    const { accountId, customerId, productId } = draft
    const held = JSON.stringify([accountId, customerId, productId])
    for (let n = heldPlans.get(held) ?? 0; n < maxPlansAProduct; n += 1) {
      const planId = heldPlanId(accountId, customerId, productId, n)
      const outcome = await place(request, { ...draft, planId })
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

  return {
    known: async (account, idempotencyKey) =>
      (await log.lastOf(orderStream(orderIdOf(account, idempotencyKey)))) !== null,

    submit: async (request) => {
      const { caller, fingerprint } = request
      const idempotencyKey = request.idempotencyKey ?? newId('auto')
      const orderId = request.orderId ?? orderIdOf(caller.accountId, idempotencyKey)
      const named = request.orderId !== undefined || request.idempotencyKey !== null
      const replay = (order: Order): Placed => {
        if (order.details.fingerprint !== fingerprint)
          throw refuse(
            'idempotency_conflict',
            'this Idempotency-Key stands for another request; send a new key for a new order',
          )
        return { order, replayed: true, idempotencyKey, position: null }
      }
      let draft: OrderDraft
      try {
        draft = { ...(await request.prepare(orderId)), fingerprint }
      } catch (error) {
        // A known key answers its order whatever has become of product and price since (design section 6).
        const known = error instanceof ApiError && named ? await readOrder(log, orderId) : null
        if (known) return replay(known)
        throw error
      }
      const holdsPlan = draft.kind === 'order' && draft.renewal === 'topup'
      const { answer, position } = await (holdsPlan ? placeOnHeldPlan(request, draft) : place(request, draft))
      switch (answer.kind) {
        case 'placed':
          return { order: answer.order, replayed: false, idempotencyKey, position }
        case 'known':
          return replay(answer.order)
        case 'conflict':
          throw refuse(
            'idempotency_conflict',
            'this Idempotency-Key stands for another request; send a new key for a new order',
          )
        case 'unfinished': {
          const order = await complete(orderId, {
            accountId: caller.accountId,
            revision: answer.debitRevision,
          })
          if (!order) throw new Error(`the debit of ${orderId} stands but nothing completes it`)
          return { ...replay(order), replayed: false }
        }
        case 'forgotten':
          throw new Error(`${orderId} was fulfilled, but neither its debit nor its order is known`)
        case 'turned_away':
          throw new OrderTurnedAway(`${orderId} was turned away`)
        case 'refused':
          throw refuseForPlacement(answer.refusal)
        default: {
          const unknown: never = answer
          throw new Error(`unknown answer ${JSON.stringify(unknown)}`)
        }
      }
    },
  }
}
