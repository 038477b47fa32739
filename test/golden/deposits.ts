import { accountFold } from '../../src/domain/accounts/fold.ts'
import {
  cancelReasonOf,
  creditingOf,
  decideChanges,
  decideFailure,
  decideInvoice,
  decideOpen,
  decideReceipt,
  decideReview,
  type ReportedInvoice,
} from '../../src/domain/deposits/decide.ts'
import type { DepositDetails } from '../../src/domain/deposits/events.ts'
import { depositFold } from '../../src/domain/deposits/fold.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import { decideAwaiting, decideCancellation } from '../../src/domain/orders/decide-awaited.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { AccountId, DepositId, KeyId } from '../../src/kernel/ids.ts'
import { accountStream, depositStream, ledgerStream } from '../../src/kernel/streams.ts'
import { planOrder } from '../support/world.ts'
import type { History } from './history.ts'
import { priced } from './priced.ts'

const hourMs = 3_600_000

/** Opens a card deposit of $30 with an invoice. */
export const openDeposit = (
  { state, write, now }: History,
  id: string,
  over: Pick<DepositDetails, 'accountId'> & Partial<DepositDetails>,
  invoiced = true,
): DepositDetails => {
  const details: DepositDetails = {
    depositId: id as DepositId,
    customerId: null,
    rail: 'card',
    amountCents: 3_000,
    gatewayId: 'service-stripe',
    provider: 'stripe',
    merchantName: 'Farebox',
    fingerprint: 'fingerprint',
    pending: null,
    ...over,
  }
  const deposit = () => state(depositStream(id), depositFold)
  write(decideOpen(deposit(), details, now()).appends)
  if (!invoiced) return details
  const invoice = {
    invoiceId: `in_${id}`,
    expiresAt: isoTime(now() + hourMs),
    watchUntil: isoTime(now() + 2 * hourMs),
  }
  write(decideInvoice(deposit(), invoice, now()).appends)
  return details
}

/** The provider's data of a deposit's invoice, applied to its wallet and its order. */
export const report = (history: History, details: DepositDetails, reported: ReportedInvoice): void => {
  const { state, states, write, now } = history
  const { depositId, accountId, pending } = details
  const found = {
    ...(pending && states(pending.order)),
    account: state(accountStream(accountId), accountFold),
    ledger: state(ledgerStream(accountId), ledgerFold),
    deposit: state(depositStream(depositId), depositFold),
  }
  write(decideReceipt(found, reported, creditingOf(details, true), now()).appends)
}

/** Deposits that are paid, closed short, expire and fail, and orders that wait for theirs. */
export const makeDeposits = (history: History, accountId: AccountId): void => {
  const { state, states, write, now } = history
  const short = openDeposit(history, 'dep_golden_short', { accountId })
  report(history, short, { status: 'processing', payments: [] })
  report(history, short, {
    status: 'expired',
    payments: [{ paymentId: 'pi_golden_short', amountMicros: 12_345_678 }],
  })

  const awaited = (orderId: string, depositId: string): DepositDetails => {
    const order = priced(
      history,
      planOrder(orderId, {
        accountId,
        keyId: 'key_golden' as KeyId,
        method: 'card',
        createdAt: isoTime(now()),
      }),
    )
    const details = openDeposit(history, depositId, { accountId, pending: { order } })
    write(decideAwaiting(states(order), { order, depositId }).appends)
    return details
  }
  const paid = awaited('ord_golden_paid', 'dep_golden_paid')
  report(history, paid, {
    status: 'paid',
    payments: [{ paymentId: 'pi_golden_paid', amountMicros: 30_000_000 }],
  })

  const unpaid = awaited('ord_golden_unpaid', 'dep_golden_unpaid')
  report(history, unpaid, { status: 'expired', payments: [] })
  const reason = cancelReasonOf(state(depositStream(unpaid.depositId), depositFold))
  const { depositId, pending } = unpaid
  write(decideCancellation(states(pending!.order), { depositId, reason }, now()).appends)

  const failed = openDeposit(history, 'dep_golden_failed', { accountId }, false)
  const standing = state(depositStream(failed.depositId), depositFold)
  write(decideFailure(standing, 'no_invoice', now()).appends)
}

/** Provider changes of a deposit that are not booked: a closed one, and an open one. */
export const makeGatewayChanges = ({ state, write }: History): void => {
  const deposit = () => state(depositStream('dep_golden_short'), depositFold)
  const refunded = { change: 'refunded', reference: 'ch_golden' } as const
  for (const amount of ['1.00 usd', '2.50 usd'])
    write(decideChanges(deposit(), [{ ...refunded, amount }]).appends)
  write(decideReview(deposit(), 1, 'taken back by hand').appends)
}
