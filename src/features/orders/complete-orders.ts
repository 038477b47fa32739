import type pg from 'pg'
import type { Logger } from 'pino'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { orderStreams } from '../../domain/orders/allocation-owner.ts'
import { decideCompletion } from '../../domain/orders/decide-completion.ts'
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

/** Where the debit of an order stands, when its order stream may not exist yet. */
export type DebitRef = { readonly accountId: AccountId; readonly revision: number }

/** An order at its end; `position` is that of the last event which brought it there, null when it stood there before. */
export type Completed = { readonly order: Order; readonly position: number | null }

/**
 * Brings a paid order to its end and returns it; null when nothing of it is found. Safe to call at any time and any
 * number of times. Rejects as the command runner does.
 */
export type CompleteOrder = (orderId: OrderId, debit: DebitRef | null) => Promise<Completed | null>

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
  const paidOrder = async (orderId: OrderId, debit: DebitRef | null): Promise<PaidOrder | null> => {
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

type OpenOrder = { order_id: OrderId; account_id: AccountId | null; debit_revision: number | null }

export const completion = worker({
  name: 'completion',
  about: 'Completes orders and refunds that a crash left open',
  trigger: { everyMs: 1_000 },
  per: 'process',
  process: 'server',
})

/**
 * The completion reactor: finishes orders and refunds that a crash or a lost race left open. Several processes may run
 * it; completing an order twice does nothing the second time.
 */
export const startCompletionReactor = (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly complete: CompleteOrder
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): RunningWorker => {
  const { scheduler, pool, complete, clock, logger } = deps
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
  return scheduler.start(completion, worklistRound(pool, [open]), { everyMs: deps.intervalMs })
}
