import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef } from '../../domain/accounts/fold.ts'
import { cancelReasonOf } from '../../domain/deposits/decide.ts'
import { depositFold } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { decideAwaitedAlone, decideCancellation } from '../../domain/orders/decide-awaited.ts'
import { orderStreams } from '../../domain/orders/decide-placement.ts'
import { orderRef } from '../../domain/orders/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { newId, type OrderId } from '../../kernel/ids.ts'
import { microsPerCent } from '../../kernel/money.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { worklist, worklistRound } from '../../platform/work/worklist.ts'
import type { Orderable } from '../catalog/index.ts'
import { readOrder } from './refund-order.ts'

type Dependencies = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly orderable: Orderable
  readonly clock: Clock
  readonly logger: Logger
}

type ClosedOrder = { readonly order_id: OrderId }
type HeldOrder = ClosedOrder & { readonly held_until: string }

const maxOrdersARun = 100
const actor = { kind: 'system', name: 'awaiting-orders' } as const

/**
 * Retries an order whose customer paid: it is placed, failed after its day, or stays held. A finished one is unchanged.
 */
const tryHeld = async ({ log, runner, orderable }: Dependencies, orderId: OrderId): Promise<string> => {
  const cause = { actor, correlationId: newId('run') }
  const existing = await readOrder(log, orderId)
  if (!existing?.awaiting) return 'over'
  const { details, awaiting } = existing
  const awaitedOrder = {
    order: details,
    depositId: awaiting.depositId,
    orderable: await orderable(details, cause),
  }
  const { answer } = await runner.run({
    name: 'place-held-order',
    streams: {
      account: accountRef(details.accountId),
      ...orderStreams(details),
    },
    decide: (states, { nowMs }) => decideAwaitedAlone(states, awaitedOrder, nowMs),
    ...cause,
    account: details.accountId,
  })
  return answer.kind
}

/** Cancels an own order whose invoice closed without paying it. */
const cancelClosed = async ({ log, runner }: Dependencies, orderId: OrderId): Promise<boolean> => {
  const existing = await readOrder(log, orderId)
  if (!existing?.awaiting) return false
  const { details, awaiting } = existing
  const { depositId } = awaiting
  const { answer } = await runner.run({
    name: 'cancel-order',
    streams: {
      ledger: ledgerRef(details.accountId),
      deposit: { stream: depositStream(depositId), fold: depositFold },
      order: orderRef(orderId),
    },
    decide: ({ order, ledger, deposit }, { nowMs }) => {
      const reason = cancelReasonOf(deposit)
      return decideCancellation({ order, ledger }, { depositId, reason }, nowMs)
    },
    actor,
    correlationId: newId('run'),
    account: details.accountId,
  })
  return answer.canceled
}

export const awaitingOrders = worker({
  name: 'awaiting-orders',
  about: 'Places or cancels orders that wait for a payment',
  trigger: { everyMs: 1_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Processes orders that await a payment. Orders whose customer paid while the reseller's wallet was short are retried
 * once the wallet has the cost, and fail after a day. Own orders whose invoice closed are canceled. Several processes
 * may run it; doing it twice changes nothing.
 */
export const startAwaitingReactor = (
  dependencies: Dependencies & { readonly scheduler: Scheduler; readonly intervalMs?: number },
): RunningWorker => {
  const { scheduler, pool, clock, logger } = dependencies
  const heldOrders = worklist<HeldOrder>({
    name: 'held-orders',
    // Only orders that can be placed or must end, so that orders that stay held do not delay younger ones.
    read: `
        select p.order_id, p.held_until
          from read.order_payments p
          join read.orders o using (order_id)
          join read.balances b on b.account_id = p.account_id
          left join read.customers c on c.customer_id = p.customer_id
         where p.waits and p.held_until is not null
           and (p.held_until <= $1::timestamptz
                or (b.available_micros >= p.wallet_micros
                    and c.credit_micros >= ${microsPerCent} * (o.details::jsonb ->> 'amountCents')::bigint))`,
    values: () => [isoTime(clock())],
    key: { held_until: 'timestamptz', order_id: 'text' },
    limit: maxOrdersARun,
    work: async ({ order_id: orderId }) => {
      const outcome = await tryHeld(dependencies, orderId)
      logger.info({ orderId, outcome }, 'an order that waits for its reseller was tried again')
    },
  })
  const closedOrders = worklist<ClosedOrder>({
    name: 'orders-of-closed-invoices',
    read: `
        select p.order_id from read.order_payments p join read.deposits d using (deposit_id)
         where p.waits and p.customer_id is null and d.status in ('paid', 'partially_paid', 'expired', 'failed')`,
    values: () => [],
    key: { order_id: 'text' },
    limit: maxOrdersARun,
    work: async ({ order_id: orderId }) => {
      if (await cancelClosed(dependencies, orderId))
        logger.info({ orderId }, 'an order was canceled: its invoice closed')
    },
  })
  return scheduler.start(awaitingOrders, worklistRound(pool, [heldOrders, closedOrders]), {
    everyMs: dependencies.intervalMs,
  })
}
