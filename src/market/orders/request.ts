import type { OrderId } from '../../kernel/ids.ts'
import type { Actor, DomainEvent } from '../../platform/eventstore/event.ts'
import type { Fold } from '../../platform/eventstore/fold.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import type { UnderKey } from '../../platform/http/idempotency.ts'
import type { StreamName } from '../../terms/streams.ts'
import type { Order } from './fold.ts'
import { actorOfPayer, type Payer } from './payer.ts'
import type { OrderDraft } from './place.ts'
import type { AwaitedInvoice } from './record.ts'

/** What stands after an order was asked for. */
export type Placed = UnderKey & {
  readonly order: Order
  /** What an order that awaits its payment waits for; left out for any other. */
  readonly invoice?: AwaitedInvoice | null
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
  readonly caller: Payer
  readonly requestId: string
  /** Null: the server makes one and the answer tells it. */
  readonly idempotencyKey: string | null
  /** The order's id where something else than the account's key names it, such as a period of a subscription. */
  readonly orderId?: OrderId
  /** Left out: the caller's key or session. */
  readonly actor?: Actor
  // biome-ignore lint/suspicious/noExplicitAny: its state is between it and its fold
  readonly beside?: Beside<any>
  /** Makes the relation to the customer: called before an invoice is opened for one who may be new. */
  readonly relate?: () => Promise<void>
  /** What a retry under the same key must ask for again (src/market/orders/fingerprint.ts). */
  readonly fingerprint: string
  /** Everything that is decided before the log is asked: product, quantity, targeting, price. It throws refusals. */
  prepare(orderId: OrderId): Promise<Omit<OrderDraft, 'fingerprint'>>
}

/** A request with what its key comes to. */
export type Asked = {
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
export const standing = ({ idempotencyKey }: Asked, order: Order): Placed => ({
  order,
  replayed: true,
  idempotencyKey,
  position: null,
})
