import type { Logger } from 'pino'
import { type Crediting, creditingOf } from '../../domain/deposits/credit-payment.ts'
import { decideFailure, decideReceipt, type ReportedInvoice } from '../../domain/deposits/decide.ts'
import { changesIn, decideChanges, unknownChanges } from '../../domain/deposits/decide-changes.ts'
import type { DepositFailed } from '../../domain/deposits/events.ts'
import { type Deposit, type DepositState, depositFold } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import type { GatewayChange, InvoiceReport } from '../../domain/payments/payments.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { StreamRefs } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { readState } from '../../platform/commands/handle.ts'
import type { Orderable } from '../catalog/index.ts'
import { type Gateways, GatewayUnavailable } from '../payments/index.ts'

export type DepositSettlement = {
  /** The deposit as the log has it now, or null. */
  read(depositId: DepositId, cause: Cause): Promise<DepositState>
  /**
   * Asks the provider and takes the deposit on: what arrived is credited, what closed is closed. Safe to call at any
   * time and any number of times.
   * @throws GatewayUnavailable, CommandOverload
   */
  settle(depositId: DepositId, cause: Cause): Promise<DepositState>
  /**
   * Applies what the provider said of the deposit's own invoice. What no event books, such as a refund, is reported for an
   * operator to look at.
   * @throws GatewayUnavailable for more payments than one deposit takes; CommandOverload
   */
  receive(depositId: DepositId, reported: ReportedInvoice, cause: Cause): Promise<DepositState>
  /** Records what the provider said and no event books, each change once: operators see it until one has looked at it. */
  report(deposit: Deposit, changes: readonly GatewayChange[], cause: Cause): Promise<void>
  /** Closes a deposit that nobody can pay any more; one that has money stays as it is. */
  close(deposit: Deposit, reason: DepositFailed['data']['reason'], cause: Cause): Promise<DepositState>
}

/** Clocks of providers differ. */
const graceMs = 10 * 60_000
/** A payer pays in a handful of parts. A server that names others with each answer would have all of them in the log. */
const maxPayments = 500

/** Wallets are dollars: what arrived in another currency is credited by nobody, and is for an operator to look at. */
export const inOtherCurrency = ({
  invoiceId,
  currency,
  status,
  payments,
}: InvoiceReport): readonly GatewayChange[] =>
  status === 'paid' || payments.length > 0
    ? [{ change: 'other_currency', reference: invoiceId, amount: currency }]
    : []

/** The stream of one deposit, as a command names it. */
export const depositRef = (depositId: DepositId) => ({
  deposit: { stream: depositStream(depositId), fold: depositFold },
})

/** The deposit as the log has it now, or null. */
export const readDeposit = (
  runner: CommandRunner,
  depositId: DepositId,
  cause: Cause,
): Promise<DepositState> =>
  readState(runner, { ...cause, name: 'read-deposit' }, depositRef(depositId).deposit)

/** What becomes of deposits that stand in the log. */
export const createDepositSettlement = (deps: {
  readonly runner: CommandRunner
  readonly gateways: Pick<Gateways, 'byId'>
  /** Whether the product of an order can be ordered just now. */
  readonly orderable: Orderable
  readonly clock: Clock
  readonly logger: Logger
}): DepositSettlement => {
  const { runner, gateways, orderable, clock, logger } = deps

  const read: DepositSettlement['read'] = (depositId, cause) => readDeposit(runner, depositId, cause)

  const report: DepositSettlement['report'] = async (deposit, changes, cause) => {
    if (unknownChanges(deposit, changes).length === 0) return
    const { depositId, accountId } = deposit.details
    const { answer } = await runner.run({
      name: 'report-gateway-changes',
      streams: depositRef(depositId),
      decide: ({ deposit }) => decideChanges(deposit, changes),
      ...cause,
      account: accountId,
    })
    for (const { change, reference, amount } of answer)
      logger.error(
        { depositId, change, reference, amount },
        'a payment gateway says something that is not booked',
      )
  }

  const receive: DepositSettlement['receive'] = async (depositId, reported, cause) => {
    let deposit = await read(depositId, cause)
    if (!deposit) return null
    const { details, payments } = deposit
    const news = reported.payments.filter(({ paymentId }) => !payments.has(paymentId))
    if (payments.size + news.length > maxPayments)
      throw new GatewayUnavailable(`${details.provider}: more than ${maxPayments} payments of ${depositId}`)
    const order = details.pending?.order
    const canOrder = order === undefined || (await orderable(order, cause))
    const crediting = creditingOf(details, canOrder) as Crediting<StreamRefs>
    for (let run = 0; run <= maxPayments; run += 1) {
      const { answer } = await runner.run({
        name: 'receive-payment',
        streams: {
          ...crediting.streams,
          ...depositRef(depositId),
          ledger: ledgerRef(details.accountId),
        },
        decide: (states, { nowMs }) => decideReceipt(states as never, reported, crediting, nowMs),
        ...cause,
        account: details.accountId,
      })
      deposit = answer.deposit
      for (const paymentId of answer.unconfirmed)
        logger.error({ depositId, paymentId }, 'a payment was recorded and never confirmed: look it up')
      if (!answer.more) break
    }
    if (deposit) await report(deposit, changesIn(deposit, reported), cause)
    return deposit
  }

  const settle: DepositSettlement['settle'] = async (depositId, cause) => {
    const deposit = await read(depositId, cause)
    if (!deposit?.invoice) return deposit
    const live = await gateways.byId(deposit.details.gatewayId)
    if (!live) throw new GatewayUnavailable(`gateway ${deposit.details.gatewayId} is gone`)
    const { invoiceId, expiresAt } = deposit.invoice
    const invoice = await live.gateway.readInvoice({ invoiceId, depositId })
    if (invoice?.depositId !== depositId)
      throw new GatewayUnavailable(`${live.provider} does not know the invoice of ${depositId}`)
    if (invoice.currency !== 'usd') {
      await report(deposit, inOtherCurrency(invoice), cause)
      return deposit
    }
    // Not every provider says when an invoice is over; money that still comes is credited all the same.
    const over = invoice.status === 'open' && Date.parse(expiresAt) + graceMs <= clock()
    return receive(depositId, over ? { ...invoice, status: 'expired' } : invoice, cause)
  }

  const close: DepositSettlement['close'] = async ({ details: { depositId, accountId } }, reason, cause) => {
    const { answer } = await runner.run({
      name: 'fail-deposit',
      streams: depositRef(depositId),
      decide: ({ deposit }, { nowMs }) => decideFailure(deposit, reason, nowMs),
      ...cause,
      account: accountId,
    })
    return answer
  }

  return { read, settle, receive, report, close }
}
