import type { Logger } from 'pino'
import {
  type Crediting,
  changesIn,
  creditingOf,
  decideChanges,
  decideDepositCancellation,
  decideEndedChanges,
  decideFailure,
  decideReceipt,
  endedChanges,
  type ReportedInvoice,
  reportedOf,
  unknownChanges,
} from '../../domain/deposits/decide.ts'
import type { DepositFailed } from '../../domain/deposits/events.ts'
import { type Deposit, type DepositState, depositFold, isClosed } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { orderRef } from '../../domain/orders/fold.ts'
import type { GatewayChange } from '../../domain/payments/payments.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { StreamRefs } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { readState } from '../../platform/commands/command.ts'
import type { Orderable } from '../catalog/index.ts'
import { type Gateways, GatewayUnavailable, UnreadableAnswer } from '../payments/index.ts'
import { reportUnreadable } from './unmatched-movements.ts'

export type DepositSettlement = {
  /** The current state of the deposit in the log, or null. */
  read(depositId: DepositId, cause: Cause): Promise<DepositState>
  /**
   * Polls the provider and updates the deposit: new payments are credited, a closed invoice closes the deposit. Can be
   * called at any time and repeatedly.
   * @throws GatewayUnavailable, CommandOverload
   */
  settle(depositId: DepositId, cause: Cause): Promise<DepositState>
  /**
   * Closes the invoice of an order that needs it no more, here and at the provider.
   * @throws GatewayUnavailable, CommandOverload
   */
  cancel(depositId: DepositId, cause: Cause): Promise<DepositState>
  /**
   * Applies the provider's report of the deposit's own invoice. A change that no event books, such as a refund, is
   * reported for an operator.
   * @throws GatewayUnavailable for more payments than one deposit may have; CommandOverload
   */
  receive(depositId: DepositId, reported: ReportedInvoice, cause: Cause): Promise<DepositState>
  /** Records changes that no event books, each once. Operators see a change until one of them has checked it. */
  report(deposit: Deposit, changes: readonly GatewayChange[], cause: Cause): Promise<void>
  /** Closes a deposit that can no longer be paid. A deposit with payments is not changed. */
  close(deposit: Deposit, reason: DepositFailed['data']['reason'], cause: Cause): Promise<DepositState>
}

/** Tolerance for differences between the providers' clocks. */
const graceMs = 10 * 60_000
/** An invoice has a few payments. The limit protects the log from a server that invents new ones in each answer. */
const maxPayments = 500

/** The stream of a deposit, for commands. */
export const depositRef = (depositId: DepositId) => ({
  deposit: { stream: depositStream(depositId), fold: depositFold },
})

/** The current state of the deposit in the log, or null. */
export const readDeposit = (
  runner: CommandRunner,
  depositId: DepositId,
  cause: Cause,
): Promise<DepositState> =>
  readState(runner, { ...cause, name: 'read-deposit' }, depositRef(depositId).deposit)

/** Updates and closes logged deposits. */
export const createDepositSettlement = (dependencies: {
  readonly runner: CommandRunner
  readonly gateways: Pick<Gateways, 'byId'>
  /** Whether the product of an order can be ordered now. */
  readonly orderable: Orderable
  readonly clock: Clock
  readonly logger: Logger
}): DepositSettlement => {
  const { runner, gateways, orderable, clock, logger } = dependencies

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
        'a payment gateway reports a change that is not booked',
      )
  }

  const receive: DepositSettlement['receive'] = async (depositId, reported, cause) => {
    let deposit = await read(depositId, cause)
    if (!deposit) return null
    const { details, payments } = deposit
    const newPayments = reported.payments.filter(({ paymentId }) => !payments.has(paymentId))
    if (payments.size + newPayments.length > maxPayments)
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
        logger.error(
          { depositId, paymentId },
          'a payment was recorded and never confirmed: check it at the provider',
        )
      if (!answer.more) break
    }
    if (!deposit) return null
    if (endedChanges(deposit, reported).length > 0)
      await runner.run({
        name: 'end-gateway-changes',
        streams: depositRef(depositId),
        decide: ({ deposit }) => decideEndedChanges(deposit, reported),
        ...cause,
        account: details.accountId,
      })
    await report(deposit, changesIn(deposit, reported), cause)
    return deposit
  }

  const settle: DepositSettlement['settle'] = async (depositId, cause) => {
    const deposit = await read(depositId, cause)
    if (!deposit?.invoice) return deposit
    const liveGateway = await gateways.byId(deposit.details.gatewayId)
    if (!liveGateway) throw new GatewayUnavailable(`gateway ${deposit.details.gatewayId} is gone`)
    const { invoiceId, expiresAt } = deposit.invoice
    const { gateway, owner, provider } = liveGateway
    const reportItems = async (ids: readonly string[]): Promise<void> => {
      if (owner === null) await reportUnreadable(runner, provider, ids, cause)
    }
    const invoice = await gateway.readInvoice({ invoiceId, depositId }).catch(async (error) => {
      if (error instanceof UnreadableAnswer) await reportItems([invoiceId])
      throw error
    })
    if (invoice?.unreadable) await reportItems(invoice.unreadable)
    if (invoice?.depositId !== depositId)
      throw new GatewayUnavailable(`${liveGateway.provider} does not know the invoice of ${depositId}`)
    const reported = reportedOf(invoice)
    // Not every provider reports the end of an invoice. Later payments are credited all the same.
    const isExpired = reported.status === 'open' && Date.parse(expiresAt) + graceMs <= clock()
    const settled = await receive(depositId, isExpired ? { ...reported, status: 'expired' } : reported, cause)
    // A canceled invoice takes no more payments. One that its provider cannot close stays payable until it expires.
    if (settled?.status === 'canceled' && reported.status === 'open' && !isExpired)
      await gateway.closeInvoice?.(invoiceId).catch((error: unknown) => {
        if (!(error instanceof GatewayUnavailable)) throw error
        logger.warn({ err: error, depositId }, 'a canceled invoice was not closed at its provider')
      })
    return settled
  }

  const cancel: DepositSettlement['cancel'] = async (depositId, cause) => {
    // A payment that arrived by now places the order, or is credited.
    const deposit = await settle(depositId, cause)
    const orderId = deposit?.details.pending?.order.orderId
    if (!deposit || orderId === undefined || isClosed(deposit)) return deposit
    const { answer } = await runner.run({
      name: 'cancel-deposit',
      streams: { ...depositRef(depositId), order: orderRef(orderId) },
      decide: (states, { nowMs }) => decideDepositCancellation(states, nowMs),
      ...cause,
      account: deposit.details.accountId,
    })
    return answer && isClosed(answer) ? settle(depositId, cause) : answer
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

  return { read, settle, cancel, receive, report, close }
}
