import type { AwaitedInvoice } from '../../../projections/orders.ts'
import { type Deposit, isClosed, isPayable } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { decideAwaiting } from '../../domain/orders/decide-awaited.ts'
import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import { type Order, orderRef } from '../../domain/orders/fold.ts'
import { floorCents, maxDepositCents, type Rail, resellerRails } from '../../domain/payments/payments.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, DepositId, OrderId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Customers } from '../accounts/index.ts'
import type { Deposits } from '../deposits/index.ts'
import { type Gateways, GatewayUnavailable } from '../payments/index.ts'
import type { PayPage } from './order-errors.ts'
import { readOrder } from './refund-order.ts'

/** An order with the open invoice that it waits for. */
export type InvoicedOrder = PayPage & {
  /** As it is by now: its payment may have been quicker. */
  readonly order: Order
  /** Of several requests under one key at once, the one that made the order; false where it stood already. */
  readonly created: boolean
  readonly position: number | null
}

/** How an awaited order stands when it is asked for again. */
export type AwaitedOrderStatus = {
  readonly order: Order
  /** The invoice that can still be paid; null when it closed. */
  readonly open: PayPage | null
  /** What it is told to wait for. */
  readonly invoice: AwaitedInvoice | null
}

/** The pay pages of orders: what `src/features/orders/place-order.ts` needs of deposits. */
export type CustomerInvoices = {
  /** Whether a gateway is live that takes this rail: the service's own, or (a customer's order) the reseller's. */
  takes(rail: Rail, reseller: AccountId | null): Promise<boolean>
  /** The rails that have a live gateway of the service. */
  liveRails(): Promise<readonly Rail[]>
  /**
   * Opens the invoice of an order that is to be paid, or the open one that stands; the order waits for it from then on.
   * @param customerRef the reseller's id of the customer, who may be new: it is stored before the first event
   * @throws ApiError: deposits_not_available, gateway_unavailable, idempotency_conflict; CommandOverload
   */
  invoice(
    draft: OrderDraft,
    amountCents: number,
    cause: Cause,
    customerRef?: string | null,
  ): Promise<InvoicedOrder>
  /** Asks the provider for a payment that nobody told of yet, and looks how the order stands then. */
  statusOf(order: Order, cause: Cause): Promise<AwaitedOrderStatus>
}

/** What an invoice comes to: whole cents, raised to the rail's floor; null above the maximum of one invoice. */
export const chargeOf = (rail: Rail, amountCents: number): number | null => {
  const charge = Math.max(amountCents, floorCents(rail))
  return charge > maxDepositCents ? null : charge
}

/** What an order is told to wait for. */
export const invoiceOf = (deposit: Deposit, payUrl: string | null, nowMs: number): AwaitedInvoice => {
  const { status, invoice, details } = deposit
  const payable = isPayable({ status, expiresAt: invoice?.expiresAt ?? null }, nowMs)
  return { chargeCents: details.amountCents, payUrl: payable ? payUrl : null }
}

export const createCustomerInvoices = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly deposits: Deposits
  readonly customers: Pick<Customers, 'ensure'>
  readonly gateways: Gateways
  /** Where a payer lands: the reseller's own place for its customers, else the service's. */
  readonly returnUrlOf: (reseller: AccountId | null) => Promise<string>
  readonly clock: Clock
}): CustomerInvoices => {
  const { log, runner, customers, deposits, gateways, returnUrlOf, clock } = deps

  /** Notes on the order's stream that it waits for the invoice. */
  const note = (order: OrderDetails, depositId: string, cause: Cause) =>
    runner.run({
      name: 'await-payment',
      streams: {
        ledger: ledgerRef(order.accountId),
        order: orderRef(order.orderId),
      },
      decide: (states) => decideAwaiting(states, { order, depositId }),
      ...cause,
      account: order.accountId,
    })

  return {
    takes: async (rail, reseller) => {
      if (reseller !== null && !(resellerRails as readonly Rail[]).includes(rail)) return false
      return (await gateways.forRail(reseller, rail)) !== null
    },

    liveRails: () => gateways.liveRails(null),

    invoice: async (draft, amountCents, cause, customerRef = null) => {
      const { accountId, customerId, orderId, fingerprint, method } = draft
      const reseller = customerId === null ? null : accountId
      const opened = await deposits.open(
        {
          accountId,
          customerId,
          ...(customerRef !== null && {
            relate: async () => void (await customers.ensure(accountId, customerRef)),
          }),
          // A key that no client can send, since orders and deposits have keys apart (docs/http-api.md, "Requests").
          idempotencyKey: `\n${orderId}`,
          fingerprint,
          amountCents,
          rail: method as Rail,
          returnUrl: await returnUrlOf(reseller),
          pending: { order: { ...draft, createdAt: isoTime(clock()) } },
        },
        cause,
      )
      const { details } = opened.deposit
      // An invoice that stood already froze the price of the order that it was raised for.
      const frozen = details.pending?.order
      if (!frozen) throw new Error(`deposit ${details.depositId} carries no order`)
      const { answer, position } = await note(frozen, details.depositId, cause)
      return {
        ...answer,
        depositId: details.depositId,
        payUrl: opened.payUrl,
        chargeCents: details.amountCents,
        position,
      }
    },

    statusOf: async (order, cause) => {
      if (!order.awaiting) throw new Error(`order ${order.details.orderId} awaits no payment`)
      const depositId = order.awaiting.depositId as DepositId
      const deposit = await deposits.settle(depositId, cause).catch((error) => {
        if (error instanceof GatewayUnavailable) return deposits.read(depositId, cause)
        throw error
      })
      const now = await readOrder(log, order.details.orderId as OrderId)
      if (!now) throw new Error(`order ${order.details.orderId} is gone`)
      if (!deposit) throw new Error(`deposit ${depositId} of ${order.details.orderId} is gone`)
      const payUrl = await deposits.payUrlOf(deposit)
      const chargeCents = deposit.details.amountCents
      const open = isClosed(deposit) || payUrl === null ? null : { depositId, payUrl, chargeCents }
      return { order: now, open, invoice: invoiceOf(deposit, payUrl, clock()) }
    },
  }
}
