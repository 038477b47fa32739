import type { Appends, CommandDecision, Refused } from '../../kernel/decider.ts'
import { refused } from '../../kernel/decider.ts'
import { deriveId } from '../../kernel/ids.ts'
import { amountIn, centsToMicros, microsToCentsFloor } from '../../kernel/money.ts'
import { depositStream, ledgerStream } from '../../kernel/streams.ts'
import type { ProposedDepositRefund } from '../ledger/approvals.ts'
import { decideHold, decideRelease } from '../ledger/decide.ts'
import type { LedgerState } from '../ledger/fold.ts'
import type { MadeRefund, Provider } from '../payments/payments.ts'
import { decideChanges } from './decide.ts'
import type { DepositEvent, DepositRefundRefused, DepositRefundRequested } from './events.ts'
import type { Deposit, DepositState, RequestedRefund } from './fold.ts'

/** The id of the refund with this reason: a deposit is refunded once for a reason. */
export const depositRefundIdOf = (depositId: string, reference: string): string =>
  deriveId('ref', [depositId, 'operator', reference])

export type DepositRefundRefusal =
  | { readonly code: 'unknown_deposit' }
  | { readonly code: 'not_paid' }
  /** The API of the provider cannot return a payment to its payer. */
  | { readonly code: 'provider_cannot_refund'; readonly provider: Provider }
  /** The payment is at the gateway of a reseller, which refunds it there. */
  | { readonly code: 'gateway_of_reseller' }
  /** `configured`: the ids of the service's gateways. */
  | {
      readonly code: 'gateway_not_configured'
      readonly gatewayId: string
      readonly configured: readonly string[]
    }
  /** The deposit has several payments, so a refund must name one of them. */
  | { readonly code: 'several_payments' }
  | { readonly code: 'above_refundable'; readonly leftCents: number }
  | { readonly code: 'insufficient_balance'; readonly balanceCents: number; readonly amountCents: number }
  /** The reason was used before for this deposit. `status`: what became of that refund. */
  | ({ readonly code: 'already_applied' } & RequestedRefund)

export type DepositRefundAnswer =
  | {
      readonly outcome: 'requested'
      readonly amountCents: number
      readonly provider: Provider
    }
  | Refused<DepositRefundRefusal>

export type DepositRefundRequest = {
  readonly refundId: string
  /** Whole cents above 0; null: all that is left. */
  readonly amountCents: number | null
  readonly reference: string
  /** What refunds at the provider and disputes have taken of the deposit, from the read table. */
  readonly reversedMicros: number
  /** The ids of the service's gateways. */
  readonly ownGatewayIds: readonly string[]
}

type PaidStates = { readonly deposit: Deposit; readonly ledger: LedgerState }

/** The sum of the refunds that are not booked: the provider may still make them, or still returns the money. */
const unbookedCents = ({ deposit, ledger }: PaidStates): number =>
  [...deposit.refunds].reduce((sum, [refundId, { status, amountCents }]) => {
    const isOpen = status === 'requested' || (status === 'made' && ledger.holds.has(refundId))
    return isOpen ? sum + amountCents : sum
  }, 0)

/** What can still be refunded of a deposit, whole cents. */
export const refundableCents = (states: PaidStates, reversedMicros: number): number =>
  Math.max(0, microsToCentsFloor(states.deposit.creditedMicros - reversedMicros) - unbookedCents(states))

/** Why no part of the deposit can be refunded here, whatever the amount; null: it can be. */
export const refundHindrance = (
  deposit: Deposit,
  ownGatewayIds: readonly string[],
): DepositRefundRefusal | null => {
  const { customerId, gatewayId, provider } = deposit.details
  if (provider !== 'stripe') return { code: 'provider_cannot_refund', provider }
  if (customerId !== null) return { code: 'gateway_of_reseller' }
  if (deposit.creditedMicros === 0) return { code: 'not_paid' }
  if (deposit.payments.size > 1) return { code: 'several_payments' }
  return ownGatewayIds.includes(gatewayId)
    ? null
    : { code: 'gateway_not_configured', gatewayId, configured: ownGatewayIds }
}

export type RefundStates = { readonly deposit: DepositState; readonly ledger: LedgerState }

type RefundHold = { readonly depositId: string; readonly refundId: string; readonly amountCents: number }

const decideRefundHold = (ledger: LedgerState, { depositId, refundId, amountCents }: RefundHold) =>
  decideHold(
    ledger,
    { holdId: refundId, depositId, amountMicros: centsToMicros(amountCents), keyId: null },
    null,
  )

/**
 * Requests a refund of a payment at its provider, once for each reason, and holds its amount until the refund is booked
 * or refused. So nothing else can spend it, and the refund never becomes a debt. The read table may be a moment old; the
 * provider refuses what exceeds the payment in any case.
 */
export const decideRefundRequest = (
  { deposit, ledger }: RefundStates,
  { refundId, amountCents: wantedCents, reference, reversedMicros, ownGatewayIds }: DepositRefundRequest,
): CommandDecision<DepositRefundAnswer> => {
  const refuse = (refusal: DepositRefundRefusal) => ({ appends: [], answer: refused(refusal) })
  if (!deposit) return refuse({ code: 'unknown_deposit' })
  const existing = deposit.refunds.get(refundId)
  if (existing) return refuse({ code: 'already_applied', ...existing })
  const hindrance = refundHindrance(deposit, ownGatewayIds)
  if (hindrance) return refuse(hindrance)
  const leftCents = refundableCents({ deposit, ledger }, reversedMicros)
  const amountCents = wantedCents ?? leftCents
  if (amountCents === 0 || amountCents > leftCents) return refuse({ code: 'above_refundable', leftCents })
  const { depositId, accountId, provider } = deposit.details
  const held = decideRefundHold(ledger, { depositId, refundId, amountCents })
  if (held.outcome === 'refused') {
    const balanceCents = microsToCentsFloor(ledger.availableMicros)
    return refuse({ code: 'insufficient_balance', balanceCents, amountCents })
  }
  const event: DepositEvent = {
    type: 'DepositRefundRequested',
    data: { depositId, accountId, refundId, amountCents, reference },
  }
  return {
    appends: [
      { stream: depositStream(depositId), events: [event] },
      { stream: ledgerStream(accountId), events: held.events },
    ],
    answer: { outcome: 'requested', amountCents, provider },
  }
}

/** The manual refund in a decision's events; null if there is none. */
export const proposedRefundIn = (appends: Appends): ProposedDepositRefund | null => {
  const event = appends
    .flatMap(({ events }) => events)
    .find(({ type }) => type === 'DepositRefundRequested') as DepositRefundRequested | undefined
  return event === undefined ? null : { kind: 'deposit_refund', ...event.data }
}

/**
 * Before the provider is called: holds the amount of a requested refund if the log lost the end of the request's
 * decision. The answer is the code of a refusal, or null: the amount is held.
 */
export const decideMissingHold = (
  { deposit, ledger }: RefundStates,
  refundId: string,
): CommandDecision<string | null> => {
  const refund = deposit?.refunds.get(refundId)
  if (!deposit || !refund) return { appends: [], answer: 'unknown_refund' }
  const { depositId, accountId } = deposit.details
  const held = decideRefundHold(ledger, { depositId, refundId, amountCents: refund.amountCents })
  if (held.outcome === 'decided')
    return { appends: [{ stream: ledgerStream(accountId), events: held.events }], answer: null }
  const { code } = held.refusal
  return { appends: [], answer: code === 'already_held' ? null : code }
}

/**
 * Records that the provider made a requested refund. It may follow a refusal: a call that another process began may
 * succeed after the refusal.
 */
export const decideRefundMade = (
  deposit: DepositState,
  refundId: string,
  { providerRefundId }: MadeRefund,
): CommandDecision<null> => {
  const refund = deposit?.refunds.get(refundId)
  if (!deposit || !refund || refund.providerRefundId !== undefined) return { appends: [], answer: null }
  const { depositId, accountId } = deposit.details
  const event: DepositEvent = {
    type: 'DepositRefundMade',
    data: { depositId, accountId, refundId, providerRefundId },
  }
  return { appends: [{ stream: depositStream(depositId), events: [event] }], answer: null }
}

/**
 * Ends a refund that moves no money, and shows it to operators as a change. The order of writes is: the hold ends, then
 * the refund is refused. If the log loses the end of that, the next attempt is refused, because the hold of a refund is
 * never opened again.
 */
const refusing = (
  { deposit, ledger }: PaidStates,
  { amountCents }: RequestedRefund,
  ended: Pick<DepositRefundRefused['data'], 'refundId' | 'code' | 'providerRefundId'>,
): Appends => {
  const { refundId, code } = ended
  const { depositId, accountId } = deposit.details
  const event: DepositEvent = { type: 'DepositRefundRefused', data: { depositId, accountId, ...ended } }
  const amount = amountIn(centsToMicros(amountCents), 'usd')
  const change = { change: 'refund_refused', reference: `${refundId} ${code}`, amount } as const
  const changes = decideChanges(deposit, [change]).appends.flatMap(({ events }) => events)
  const released = decideRelease(ledger, { holdId: refundId })
  return [
    ...(released.outcome === 'decided' ? [{ stream: ledgerStream(accountId), events: released.events }] : []),
    { stream: depositStream(depositId), events: [event, ...changes] },
  ]
}

/** Records that a requested refund was not made. */
export const decideRefundRefusal = (
  { deposit, ledger }: RefundStates,
  refundId: string,
  code: string,
): CommandDecision<null> => {
  const refund = deposit?.refunds.get(refundId)
  if (!deposit || refund?.status !== 'requested') return { appends: [], answer: null }
  return { appends: refusing({ deposit, ledger }, refund, { refundId, code }), answer: null }
}

/** Records that the provider canceled a refund that it had made, before money moved. */
export const decideRefundCancellation = (
  { deposit, ledger }: RefundStates,
  refundId: string,
  providerRefundId: string,
): CommandDecision<null> => {
  const refund = deposit?.refunds.get(refundId)
  if (!deposit || !refund || (refund.status === 'refused' && refund.providerRefundId !== undefined))
    return { appends: [], answer: null }
  const ended = { refundId, code: 'canceled_by_provider', providerRefundId }
  return { appends: refusing({ deposit, ledger }, refund, ended), answer: null }
}
