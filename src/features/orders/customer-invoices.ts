import type { AwaitedInvoice } from '../../../projections/orders.ts'
import { type Deposit, isClosed, isPayable } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import {
  decideAwaiting,
  payerOf,
  shortfallAfterPayment,
  walletShortfallOf,
} from '../../domain/orders/decide-awaited.ts'
import type { OrderDraft } from '../../domain/orders/decide-placement.ts'
import { type Order, orderRef } from '../../domain/orders/fold.ts'
import { floorCents, maxDepositCents, type Rail, resellerRails } from '../../domain/payments/payments.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, DepositId, OrderId } from '../../kernel/ids.ts'
import { microsToCentsCeil } from '../../kernel/money.ts'
import { type CommandRunner, readState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Customers } from '../accounts/index.ts'
import type { Deposits } from '../deposits/index.ts'
import { type Gateways, GatewayUnavailable } from '../payments/index.ts'
import type { PayPage } from './order-errors.ts'
import { readOrder } from './refund-order.ts'

/** An order with its open invoice. */
type InvoicedOrder = PayPage & {
  /** The current order: it may already be paid. */
  readonly order: Order
  /** Whether this request created the order. Of concurrent requests under one key only one did. */
  readonly created: boolean
  readonly position: number | null
}

/** The state of an awaited order when its request is repeated. */
export type AwaitedOrderStatus = {
  readonly order: Order
  /** The invoice that can still be paid, and its method; null if it closed, or if its page is unknown. */
  readonly open: (PayPage & { readonly rail: Rail; readonly isPaidInPart: boolean }) | null
  readonly isInvoiceClosed: boolean
  /** The invoice in the order's answer. */
  readonly invoice: AwaitedInvoice | null
}

/** The pay pages of orders: the part of deposits that `src/features/orders/place-order.ts` uses. */
export type CustomerInvoices = {
  /** Whether the rail has a live gateway: of the service, or of the reseller (for a customer's order). */
  takes(rail: Rail, reseller: AccountId | null): Promise<boolean>
  /** The rails with a live gateway of the service. */
  liveRails(): Promise<readonly Rail[]>
  /**
   * Opens the invoice of an unpaid order, or returns its open one of this method. The order then awaits this payment.
   * @param waiting the order that has an invoice already: an earlier invoice is not returned
   * @param customerRef the reseller's id of the customer, who may be new: it is stored before the first event
   * @throws ApiError: deposits_not_available, gateway_unavailable, idempotency_conflict; CommandOverload
   */
  invoice(
    draft: OrderDraft,
    amountCents: number,
    cause: Cause,
    of?: { readonly waiting?: Order | null; readonly customerRef?: string | null | undefined },
  ): Promise<InvoicedOrder>
  /** Polls the provider for the order's payment and returns the state of the order after it. */
  statusOf(order: Order, cause: Cause): Promise<AwaitedOrderStatus>
}

/** The amount of an invoice: whole cents, raised to the rail's minimum; null above the maximum of one invoice. */
export const chargeOf = (rail: Rail, amountCents: number): number | null => {
  const charge = Math.max(amountCents, floorCents(rail))
  return charge > maxDepositCents ? null : charge
}

/** The invoice in the answer of an order that awaits it. */
export const readAwaitedInvoice = async (
  { runner, clock }: { readonly runner: CommandRunner; readonly clock: Clock },
  order: OrderDetails,
  { status, invoice, details }: Deposit,
  payUrl: string | null,
  cause: Cause,
): Promise<AwaitedInvoice> => {
  const ledger = await readState(runner, { ...cause, name: 'read-wallet' }, ledgerRef(order.accountId))
  const payer = payerOf(ledger, order)
  const chargeCents = details.amountCents
  const payable = isPayable({ status, expiresAt: invoice?.expiresAt ?? null }, clock())
  return {
    chargeCents,
    owedCents: microsToCentsCeil(payer.receivableMicros),
    shortfallCents: shortfallAfterPayment(payer, order, chargeCents),
    payUrl: payable ? payUrl : null,
    walletShortfallCents: walletShortfallOf(ledger, order),
  }
}

export const createCustomerInvoices = (dependencies: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly deposits: Deposits
  readonly customers: Pick<Customers, 'ensure'>
  readonly gateways: Gateways
  /** The return page of payers: the reseller's page for its customers, else the service's. */
  readonly returnUrlOf: (reseller: AccountId | null) => Promise<string>
  readonly clock: Clock
}): CustomerInvoices => {
  const { log, runner, customers, deposits, gateways, returnUrlOf, clock } = dependencies

  /** Records in the order's stream that it awaits the invoice. */
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

    invoice: async (draft, amountCents, cause, { waiting = null, customerRef = null } = {}) => {
      const { accountId, customerId, orderId, fingerprint, method } = draft
      const reseller = customerId === null ? null : accountId
      const opened = await deposits.open(
        {
          accountId,
          customerId,
          ...(customerRef !== null && {
            relate: async () => void (await customers.ensure(accountId, customerRef)),
          }),
          // Clients cannot send such a key. Orders and deposits have separate keys (docs/reference/api.md,
          // "Idempotency").
          idempotencyKey: `\n${orderId}`,
          fingerprint,
          amountCents,
          rail: method as Rail,
          returnUrl: await returnUrlOf(reseller),
          pending: { order: { ...draft, createdAt: waiting?.details.createdAt ?? isoTime(clock()) } },
          current: waiting?.awaiting?.depositId as DepositId | undefined,
        },
        cause,
      )
      const { details } = opened.deposit
      // An existing invoice has the order with its price at the time of the invoice's creation.
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
      const isInvoiceClosed = isClosed(deposit)
      const { rail } = deposit.details
      const isPaidInPart = deposit.creditedMicros > 0
      const open =
        isInvoiceClosed || payUrl === null ? null : { depositId, payUrl, chargeCents, rail, isPaidInPart }
      const invoice = await readAwaitedInvoice(dependencies, now.details, deposit, payUrl, cause)
      return { order: now, open, isInvoiceClosed, invoice }
    },
  }
}
