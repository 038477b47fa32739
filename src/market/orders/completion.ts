import { type AccountId, newId, type OrderId } from '../../kernel/ids.ts'
import type { LedgerEvent } from '../../money/ledger/events.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Actor, DomainEvent } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { StreamName } from '../../terms/streams.ts'
import { ledgerStream } from '../../terms/streams.ts'
import { orderStreams } from './arbiter.ts'
import { decideCompletion } from './complete.ts'
import type { Order } from './fold.ts'
import { readOrder } from './read-order.ts'
import { withRefundEvidence } from './refund-evidence.ts'

/** Where the debit of an order stands, when its order stream may not exist yet. */
export type DebitPlace = { readonly accountId: AccountId; readonly revision: number }

/** An order at its end; `position` is that of the last event which brought it there, null when it stood there before. */
export type Completed = { readonly order: Order; readonly position: number | null }

/**
 * Brings a paid order to its end and returns it; null when nothing of it is found. Safe to call at any time and any
 * number of times. Rejects as the command runner does.
 */
export type CompleteOrder = (orderId: OrderId, debit: DebitPlace | null) => Promise<Completed | null>

type PaidOrder = { readonly order: OrderDetails; readonly availableAfterMicros: number }

const system: Actor = { kind: 'system', name: 'completion' }

export const createCompletion = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
}): CompleteOrder => {
  const { log, runner } = deps

  const eventAt = async (stream: StreamName, revision: number): Promise<DomainEvent | null> => {
    for await (const stored of log.readStream(stream, revision)) return decode(stored)
    return null
  }

  /** The whole order from its own stream, else from the debit that carries it. */
  const paidOrder = async (orderId: OrderId, debit: DebitPlace | null): Promise<PaidOrder | null> => {
    const standing = await readOrder(log, orderId)
    // The balance is in the order already and is not looked at again.
    if (standing?.paid) return { order: standing.details, availableAfterMicros: 0 }
    if (!debit) return null
    const paid = (await eventAt(ledgerStream(debit.accountId), debit.revision)) as LedgerEvent | null
    const pays = paid?.type === 'WalletDebited' || paid?.type === 'CustomerCharged'
    if (!pays || paid.data.order.orderId !== orderId)
      throw new Error(
        `revision ${debit.revision} of the ledger of ${debit.accountId} does not pay ${orderId}`,
      )
    return paid.data
  }

  return async (orderId, debit) => {
    const paid = await paidOrder(orderId, debit)
    if (!paid) return null
    const streams = orderStreams(paid.order)
    const { answer, position } = await withRefundEvidence(log, streams.ledger.stream, (evidence) =>
      runner.run({
        name: 'complete-order',
        streams,
        decide: (states, { nowMs }) => decideCompletion(states, paid, nowMs, evidence),
        correlationId: newId('run'),
        actor: system,
        account: paid.order.accountId,
      }),
    )
    return { order: answer.order, position }
  }
}
