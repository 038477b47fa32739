import type pg from 'pg'
import type { Logger } from 'pino'
import { accountRef } from '../../domain/accounts/fold.ts'
import { cancelReasonOf } from '../../domain/deposits/decide.ts'
import { depositFold } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import {
  decideAwaitedAlone,
  decideCancellationOfClosed,
  decideCancellationOfUncovered,
} from '../../domain/orders/decide-awaited.ts'
import { orderStreams } from '../../domain/orders/decide-placement.ts'
import { type Order, orderRef } from '../../domain/orders/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { type DepositId, newId, type OrderId } from '../../kernel/ids.ts'
import { microsPerCent } from '../../kernel/money.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { worklist, worklistRound } from '../../platform/work/worklist.ts'
import type { Orderable } from '../catalog/index.ts'
import type { Deposits } from '../deposits/index.ts'
import { GatewayUnavailable } from '../payments/index.ts'
import { readOrder } from './refund-order.ts'

type Dependencies = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly orderable: Orderable
  readonly deposits: Pick<Deposits, 'cancel'>
  readonly clock: Clock
  readonly logger: Logger
}

type ClosedOrder = { readonly order_id: OrderId }
type HeldOrder = ClosedOrder & { readonly held_until: string }

const maxOrdersARun = 100
const actor = { kind: 'system', name: 'awaiting-orders' } as const

/**
 * Retries an order whose customer paid: it is placed, failed after its day, canceled if the credit no longer covers it, or
 * stays held. A finished one is unchanged.
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

/** Cancels an order whose invoice closed without placing it. Returns the order after it. */
export const cancelClosed = async (runner: CommandRunner, order: Order, cause: Cause): Promise<Order> => {
  const { details, awaiting } = order
  if (!awaiting) return order
  const { depositId } = awaiting
  const { answer } = await runner.run({
    name: 'cancel-order',
    streams: {
      ledger: ledgerRef(details.accountId),
      deposit: { stream: depositStream(depositId), fold: depositFold },
      order: orderRef(details.orderId),
    },
    decide: ({ order, ledger, deposit }, { nowMs }) =>
      decideCancellationOfClosed({ order, ledger }, { depositId, reason: cancelReasonOf(deposit) }, nowMs),
    ...cause,
    account: details.accountId,
  })
  return answer.order ?? order
}

/** Cancels an order that waits for the reseller's wallet and that the credit no longer covers. Returns the order after it. */
export const cancelUncovered = async (runner: CommandRunner, order: Order, cause: Cause): Promise<Order> => {
  const { accountId, orderId } = order.details
  const { answer } = await runner.run({
    name: 'cancel-order',
    streams: { ledger: ledgerRef(accountId), order: orderRef(orderId) },
    decide: (states, { nowMs }) => decideCancellationOfUncovered(states, nowMs),
    ...cause,
    account: accountId,
  })
  return answer.order ?? order
}

export const awaitingOrders = worker({
  name: 'awaiting-orders',
  about: 'Places or cancels orders that wait for a payment, and closes invoices that no order needs',
  trigger: { everyMs: 1_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Processes orders that await a payment. Orders whose customer paid while the reseller's wallet was short are retried
 * once the wallet has the cost, fail after a day, and are canceled if the credit no longer covers them. Orders whose
 * invoice closed are canceled. Open invoices of orders that were paid otherwise, have a later invoice, failed or were
 * canceled are closed. Several processes may run it; doing it twice changes nothing.
 */
export const startAwaitingReactor = (
  dependencies: Dependencies & { readonly scheduler: Scheduler; readonly intervalMs?: number },
): RunningWorker => {
  const { scheduler, pool, deposits, clock, logger } = dependencies
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
                or b.available_micros >= p.wallet_micros
                or c.credit_micros < ${microsPerCent} * (o.details::jsonb ->> 'amountCents')::bigint)`,
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
         where p.waits and p.held_until is null and d.status not in ('awaiting_payment', 'processing')`,
    values: () => [],
    key: { order_id: 'text' },
    limit: maxOrdersARun,
    work: async ({ order_id: orderId }) => {
      const existing = await readOrder(dependencies.log, orderId)
      const cause = { actor, correlationId: newId('run') }
      const order = existing && (await cancelClosed(dependencies.runner, existing, cause))
      logger.info({ orderId, status: order?.status }, 'the invoice of an order closed')
    },
  })
  const needlessInvoices = worklist<{ readonly deposit_id: DepositId }>({
    name: 'needless-invoices',
    // A later invoice may be one that the order does not name yet, so only earlier ones are needless.
    read: `
        select d.deposit_id
          from read.deposits d
          join read.order_payments p using (order_id)
          left join read.deposits c on c.deposit_id = p.deposit_id
         where d.status = 'awaiting_payment' and d.order_id is not null
           and (not p.waits or p.held_until is not null or d.opened_at < c.opened_at)`,
    values: () => [],
    key: { deposit_id: 'text' },
    limit: maxOrdersARun,
    work: async ({ deposit_id: depositId }) => {
      const cause = { actor, correlationId: newId('run') }
      const deposit = await deposits.cancel(depositId, cause).catch((error: unknown) => {
        if (!(error instanceof GatewayUnavailable)) throw error
        logger.warn({ err: error, depositId }, 'a payment gateway did not answer for an invoice to close')
        return null
      })
      if (deposit)
        logger.info({ depositId, status: deposit.status }, 'an invoice that no order needs was closed')
    },
  })
  const round = worklistRound(pool, [heldOrders, closedOrders, needlessInvoices])
  return scheduler.start(awaitingOrders, round, {
    everyMs: dependencies.intervalMs,
  })
}
