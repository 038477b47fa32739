import { ledgerRef } from '../../domain/ledger/fold.ts'
import { decideCancellation } from '../../domain/orders/decide-awaited.ts'
import { type Order, orderRef } from '../../domain/orders/fold.ts'
import type { Cause } from '../../kernel/event.ts'
import type { DepositId, OrderId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Deposits } from '../deposits/index.ts'
import { GatewayUnavailable } from '../payments/index.ts'
import { readOrder } from './refund-order.ts'

/** The canceled order, and the position of its last event; null: it was canceled before. */
type CanceledOrder = { readonly order: Order; readonly position: number | null }

/**
 * Cancels an order that waits for a payment or for the reseller's wallet. A payment that has arrived at the provider is
 * credited first, and may place the order. The worker of waiting orders closes its invoice after that.
 * @throws ApiError: order_not_waiting; CommandOverload
 */
export type CancelOrder = (orderId: OrderId, cause: Cause) => Promise<CanceledOrder>

export const createCancelOrder =
  ({
    log,
    runner,
    deposits,
  }: {
    readonly log: EventLog
    readonly runner: CommandRunner
    readonly deposits: Pick<Deposits, 'settle'>
  }): CancelOrder =>
  async (orderId, cause) => {
    const existing = await readOrder(log, orderId)
    if (!existing) throw new Error(`order ${orderId} is gone`)
    const { details, awaiting } = existing
    if (existing.status === 'awaiting_payment' && awaiting)
      await deposits.settle(awaiting.depositId as DepositId, cause).catch((error: unknown) => {
        // A payment that is found later is credited.
        if (!(error instanceof GatewayUnavailable)) throw error
      })
    const { answer, position } = await runner.run({
      name: 'cancel-order',
      streams: { ledger: ledgerRef(details.accountId), order: orderRef(orderId) },
      decide: (states, { nowMs }) => decideCancellation(states, 'requested', nowMs),
      ...cause,
      account: details.accountId,
    })
    const order = answer.order ?? existing
    if (order.status === 'canceled') return { order, position }
    throw refuse('order_not_waiting', `the order is ${order.status} and cannot be canceled`, {
      orderId,
      status: order.status,
    })
  }
