import { decideBlock, decideUnblock } from '../../src/domain/accounts/decide.ts'
import { accountFold } from '../../src/domain/accounts/fold.ts'
import {
  cancelReasonOf,
  creditingOf,
  decideChanges,
  decideDepositCancellation,
  decideEndedChanges,
  decideFailure,
  decideInvoice,
  decideOpen,
  decideReceipt,
  decideReview,
  type ReportedInvoice,
} from '../../src/domain/deposits/decide.ts'
import {
  decideRefundCancellation,
  decideRefundMade,
  decideRefundRefusal,
  decideRefundRequest,
  depositRefundIdOf,
} from '../../src/domain/deposits/decide-refund.ts'
import type { DepositDetails } from '../../src/domain/deposits/events.ts'
import { depositFold } from '../../src/domain/deposits/fold.ts'
import {
  decidePause,
  decideRemoval,
  decideSaved,
  decideSettings,
  decideTopup,
  decideTopupFailure,
  decideTopupPaid,
  nextDepositId,
  topupRef,
} from '../../src/domain/deposits/topups.ts'
import {
  bookingOf,
  decideBooking,
  decideResolution,
  decideUnmatched,
  unmatchedIdOf,
  unmatchedRef,
} from '../../src/domain/deposits/unmatched-movements.ts'
import { manualStream } from '../../src/domain/ledger/decide-manual.ts'
import { decideReversal } from '../../src/domain/ledger/decide-reversal.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import { type ManualMovement, manualFold } from '../../src/domain/ledger/manual-movements.ts'
import { decideAwaiting, decideCancellationOfClosed } from '../../src/domain/orders/decide-awaited.ts'
import { decidePlacement } from '../../src/domain/orders/decide-placement.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { AccountId, DepositId, KeyId } from '../../src/kernel/ids.ts'
import { accountStream, depositStream, ledgerStream } from '../../src/kernel/streams.ts'
import { eventsOf } from '../support/decider.ts'
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
  write(decideCancellationOfClosed(states(pending!.order), { depositId, reason }, now()).appends)

  // Paid from the wallet meanwhile: the invoice is closed, and its late payment is credited.
  const needless = awaited('ord_golden_paid_otherwise', 'dep_golden_needless')
  const { order } = needless.pending!
  write(decidePlacement(states(order), { draft: order, cap: null, payAwaited: true }, now()).appends)
  const deposit = () => state(depositStream(needless.depositId), depositFold)
  write(decideDepositCancellation({ deposit: deposit(), order: states(order).order }, now()).appends)
  report(history, needless, {
    status: 'expired',
    payments: [{ paymentId: 'pi_golden_late', amountMicros: 30_000_000 }],
  })

  const failed = openDeposit(history, 'dep_golden_failed', { accountId }, false)
  const standing = state(depositStream(failed.depositId), depositFold)
  write(decideFailure(standing, 'no_invoice', now()).appends)
}

/** Provider changes of a deposit that are not booked: a reviewed one, an open one, and one that ended. */
export const makeGatewayChanges = ({ state, write }: History): void => {
  const deposit = () => state(depositStream('dep_golden_short'), depositFold)
  const refunded = { change: 'refunded', reference: 'ch_golden' } as const
  for (const amount of ['1.00 usd', '2.50 usd'])
    write(decideChanges(deposit(), [{ ...refunded, amount }]).appends)
  write(decideReview(deposit(), 1, 'taken back by hand').appends)
  const invalid = { change: 'marked_invalid', reference: 'inv_golden', amount: '2.00 usd' } as const
  write(decideChanges(deposit(), [invalid]).appends)
  write(decideEndedChanges(deposit(), { status: 'paid', payments: [] }).appends)
}

/** Refunds of a deposit to its payer: one that the provider made and moved, one that it refused, and one that it canceled. */
export const makeDepositRefunds = ({ state, write, now }: History, accountId: AccountId): void => {
  const deposit = () => state(depositStream('dep_golden_short'), depositFold)
  const states = () => ({ deposit: deposit(), ledger: state(ledgerStream(accountId), ledgerFold) })
  const request = (reference: string): string => {
    const refundId = depositRefundIdOf('dep_golden_short', reference)
    const ownGatewayIds = ['service-stripe']
    const wanted = { refundId, amountCents: 100, reference, reversedMicros: 0, ownGatewayIds }
    const { appends, answer } = decideRefundRequest(states(), wanted)
    if (answer.outcome !== 'requested') throw new Error(`${refundId}: ${JSON.stringify(answer)}`)
    write(appends)
    return refundId
  }
  const madeId = request('ticket 1')
  const made = { providerRefundId: 're_golden', reference: 'charge:ch_golden' }
  write(decideRefundMade(deposit(), madeId, made).appends)
  const reference = `stripe ${made.providerRefundId} txn_golden`
  const { depositId, creditedMicros } = { ...deposit()!, ...deposit()!.details }
  const movement: ManualMovement = {
    kind: 'adjustment',
    accountId,
    reference,
    reason: 'deposit_refund',
    gateway: 'stripe',
    depositId,
    amountMicros: -1_000_000,
  }
  const booking = {
    account: state(accountStream(accountId), accountFold),
    ledger: states().ledger,
    movements: [state(manualStream(movement), manualFold)],
  }
  const reversal = { accountId, depositId, creditedMicros, heldBy: madeId, movements: [movement] }
  write(decideReversal(booking, reversal, now()).appends)
  const refusedId = request('ticket 2')
  write(decideRefundRefusal(states(), refusedId, 'charge_disputed').appends)
  const canceledId = request('ticket 3')
  const canceled = { providerRefundId: 're_golden_canceled', reference: 'charge:ch_golden' }
  write(decideRefundMade(deposit(), canceledId, canceled).appends)
  write(decideRefundCancellation(states(), canceledId, canceled.providerRefundId).appends)
}

/** Movements at Stripe without a known deposit: one that is booked, and one that is not. */
export const makeUnmatched = ({ state, write, now }: History, accountId: AccountId): void => {
  const reported = (reference: string) => {
    const named = { gateway: 'stripe', reference } as const
    const itemId = unmatchedIdOf(named)
    const { stream, fold } = unmatchedRef(itemId)
    const amount = { reason: 'deposit_refund', currency: 'usd', amountMicros: -1_000_000 } as const
    const movement = { itemId, ...named, ...amount, happenedAt: isoTime(now()) }
    write(decideUnmatched(state(stream, fold), movement).appends)
    return { movement, item: state(stream, fold) }
  }
  const resolvedAt = isoTime(now())
  const none = reported('stripe re_golden_other')
  write(decideResolution(none.item, { note: 'sale of another shop', resolvedAt }).appends)
  const { movement, item } = reported('stripe re_golden_ours')
  const states = {
    item,
    account: state(accountStream(accountId), accountFold),
    movement: state(manualStream(bookingOf(movement, accountId)), manualFold),
    ledger: state(ledgerStream(accountId), ledgerFold),
  }
  write(decideBooking(states, { accountId, note: 'paid by invoice', resolvedAt }).appends)
}

/** Automatic top-ups: by a card and by invoices, one that is paid and one that fails each, and the end of both. */
export const makeTopups = (history: History, accountId: AccountId): void => {
  const { state, write, fact, now } = history
  const { stream, fold } = topupRef(accountId)
  const topup = () => state(stream, fold)
  const cards = { rail: 'card', gatewayId: 'stripe', provider: 'stripe', merchantName: 'Farebox' } as const
  const invoices = {
    rail: 'crypto',
    gatewayId: 'btcpay',
    provider: 'btcpay',
    merchantName: 'Farebox',
  } as const
  const card = {
    setupId: 'cs_golden',
    gatewayId: 'stripe',
    customerReference: 'cus_golden',
    methodReference: 'pm_golden',
    brand: 'visa',
    lastFour: '4242',
  }
  write(decideSaved(topup(), accountId, card).appends)
  const balanceCents = Math.ceil(state(ledgerStream(accountId), ledgerFold).availableMicros / 10_000)
  const settings = {
    thresholdCents: balanceCents + 10_000,
    amountCents: 1_000,
    targetBalanceCents: null,
    monthlyMaxCents: 50_000,
  }
  const incidentStates = () => ({
    topup: topup(),
    ledger: state(ledgerStream(accountId), ledgerFold),
    account: state(accountStream(accountId), accountFold),
  })
  const set = (change: { readonly method?: 'crypto'; readonly resume: boolean }) =>
    write(decideSettings(incidentStates(), accountId, { ...settings, ...change }, now()).appends)
  set({ resume: false })
  const request = (gateway: typeof cards | typeof invoices) => {
    const depositId = nextDepositId(accountId, topup())
    const states = { ...incidentStates(), deposit: state(depositStream(depositId), depositFold) }
    const { appends, answer } = decideTopup(states, accountId, depositId, gateway, now())
    if (answer !== 'requested') throw new Error(`${depositId}: ${answer}`)
    write(appends)
    return { topupId: topup().open!.topupId, deposit: () => state(depositStream(depositId), depositFold) }
  }
  const paid = request(cards)
  report(history, paid.deposit()!.details, {
    status: 'paid',
    payments: [{ paymentId: 'pi_golden_topup', amountMicros: 10_000_000 }],
  })
  write(decideTopupPaid(topup(), accountId, paid.topupId).appends)
  const owner = () => state(accountStream(accountId), accountFold)
  fact(accountStream(accountId), ...eventsOf(decideBlock(owner(), { reason: 'fraud' })))
  fact(accountStream(accountId), ...eventsOf(decideUnblock(owner())))
  write(decidePause(incidentStates(), accountId, now()).appends)
  set({ resume: true })
  const failed = request(cards)
  const failure = { topupId: failed.topupId, reason: 'card_declined' } as const
  write(decideTopupFailure({ topup: topup(), deposit: failed.deposit() }, accountId, failure, now()).appends)
  write(decideRemoval(topup(), accountId).appends)

  set({ method: 'crypto', resume: false })
  const short = request(invoices)
  report(history, short.deposit()!.details, {
    status: 'expired',
    payments: [{ paymentId: 'btc_golden_topup', amountMicros: 4_000_000 }],
  })
  write(decideTopupPaid(topup(), accountId, short.topupId).appends)
  const unpaid = request(invoices)
  report(history, unpaid.deposit()!.details, { status: 'expired', payments: [] })
  const expiry = { topupId: unpaid.topupId, reason: 'invoice_expired' } as const
  write(decideTopupFailure({ topup: topup(), deposit: unpaid.deposit() }, accountId, expiry, now()).appends)
  write(decideRemoval(topup(), accountId).appends)
}
