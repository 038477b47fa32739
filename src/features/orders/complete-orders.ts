import type pg from 'pg'
import type { Logger } from 'pino'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { decideCompletion } from '../../domain/orders/decide-completion.ts'
import { orderStreams } from '../../domain/orders/decide-placement.ts'
import type { Order } from '../../domain/orders/fold.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Actor, DomainEvent } from '../../kernel/event.ts'
import { type AccountId, newId, type OrderId } from '../../kernel/ids.ts'
import { ledgerStream, type StreamName } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { handlerGraceMs, worklist, worklistRound } from '../../platform/work/worklist.ts'
import { readOrder, withRefundEvidence } from './refund-order.ts'

/** The position of an order's debit in the ledger stream, for an order whose own stream may not exist yet. */
type DebitRef = { readonly accountId: AccountId; readonly revision: number }

/** A completed order; `position` of its last event, null if it was already complete. */
export type Completed = { readonly order: Order; readonly position: number | null }

/**
 * Completes a paid order and returns it; null if no event of it is found. Can be called at any time and repeatedly.
 * @throws errors of the command runner
 */
type CompleteOrder = (orderId: OrderId, debit: DebitRef | null) => Promise<Completed | null>

type PaidOrder = { readonly order: OrderDetails; readonly availableAfterMicros: number }

const system: Actor = { kind: 'system', name: 'completion' }

export const createCompletion = (dependencies: {
  readonly log: EventLog
  readonly runner: CommandRunner
}): CompleteOrder => {
  const { log, runner } = dependencies

  const eventAt = async (stream: StreamName, revision: number): Promise<DomainEvent | null> => {
    for await (const stored of log.readStream(stream, revision)) return decode(stored)
    return null
  }

  /** The order from its own stream, else from its debit. */
  const paidOrder = async (orderId: OrderId, debit: DebitRef | null): Promise<PaidOrder | null> => {
    const existing = await readOrder(log, orderId)
    // The order stream already has the balance, so this one is not used.
    if (existing?.paid) return { order: existing.details, availableAfterMicros: 0 }
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

type OpenOrder = { order_id: OrderId; account_id: AccountId | null; debit_revision: number | null }

export const completion = worker({
  name: 'completion',
  about: 'Completes orders and refunds that a crash left open',
  trigger: { everyMs: 1_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

/**
 * Completes orders and refunds that a crash or a lost race left open. Several processes may run it; completing an order
 * twice changes nothing.
 */
export const startCompletionReactor = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly complete: CompleteOrder
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): RunningWorker => {
  const { scheduler, pool, complete, clock, logger } = dependencies
  const open = worklist<OpenOrder>({
    name: 'open-orders',
    read: `select distinct on (order_id) order_id, account_id, debit_revision
             from read.open_orders where opened_at <= $1::timestamptz order by order_id, step desc`,
    values: () => [isoTime(clock() - handlerGraceMs)],
    key: { order_id: 'text' },
    limit: 100,
    work: async ({ order_id: orderId, account_id: accountId, debit_revision: revision }) => {
      const debit = accountId === null || revision === null ? null : { accountId, revision }
      const completed = await complete(orderId, debit)
      logger.info({ orderId, status: completed?.order.status }, 'an open order was completed')
    },
  })
  return scheduler.start(completion, worklistRound(pool, [open]), { everyMs: dependencies.intervalMs })
}
