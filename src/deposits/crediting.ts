import type { Decision, StatesOf, StreamRefs } from '../eventstore/commands/command.ts'
import { ledgerStream } from '../eventstore/streams.ts'
import type { CustomerId } from '../ids.ts'
import { decideCredit } from '../ledger/decide.ts'
import { decideCustomerCredit } from '../ledger/decide-customer.ts'
import { remembersSince } from '../ledger/remembered.ts'
import type { LedgerState } from '../ledger/state.ts'
import type { DepositDetails } from './events.ts'

/** Money that arrived for a deposit and is to be credited. */
export type PaymentToCredit = {
  readonly paymentId: string
  readonly amountMicros: number
  /** When the deposit recorded it; null when that happens in the same decision. */
  readonly recordedAtMs: number | null
}

export type Credited =
  /** What moves now, in the order in which it is written: the ledger first, in one append. */
  | { readonly outcome: 'credited'; readonly appends: Decision<never>['appends'] }
  /** The ledger has it already; `appends` is what a crash left to do after it. */
  | { readonly outcome: 'standing'; readonly appends: Decision<never>['appends'] }
  /** Recorded so long ago that the ledger would not remember: an operator must look. */
  | { readonly outcome: 'unconfirmed' }

/** How money of a deposit reaches a ledger: the further streams that are decided on, and the decision. Pure. */
export type Crediting<Refs extends StreamRefs = StreamRefs> = {
  readonly streams: Refs
  decide(ledger: LedgerState, states: StatesOf<Refs>, payment: PaymentToCredit, nowMs: number): Credited
}

const walletCrediting = ({ depositId, accountId, provider }: DepositDetails): Crediting => ({
  streams: {},
  decide: (ledger, _states, { paymentId, amountMicros, recordedAtMs }) => {
    const reference = paymentId
    const credit = { source: 'deposit', gateway: provider, reference } as const
    const decision = decideCredit(ledger, {
      ...credit,
      depositId,
      orderId: null,
      family: null,
      amountMicros,
    })
    if (decision.outcome === 'refused') return { outcome: 'standing', appends: [] }
    if (recordedAtMs !== null && !remembersSince(ledger.credits, recordedAtMs))
      return { outcome: 'unconfirmed' }
    return {
      outcome: 'credited',
      appends: [{ stream: ledgerStream(accountId), events: decision.events }],
    }
  },
})

const customerCrediting = (
  { depositId, accountId, gatewayId }: DepositDetails,
  customerId: CustomerId,
): Crediting => ({
  streams: {},
  decide: (ledger, _states, { paymentId, amountMicros, recordedAtMs }) => {
    const credit = { customerId, reference: paymentId, gateway: gatewayId, depositId, amountMicros }
    const decision = decideCustomerCredit(ledger, credit)
    if (decision.outcome === 'refused') return { outcome: 'standing', appends: [] }
    if (recordedAtMs !== null && !remembersSince(ledger.customerMovements, recordedAtMs))
      return { outcome: 'unconfirmed' }
    return {
      outcome: 'credited',
      appends: [{ stream: ledgerStream(accountId), events: decision.events }],
    }
  },
})

/**
 * The one place where a received payment becomes a ledger decision. A deposit that carries an order decides credit and
 * debit here, in one ledger append (design section 6), and credits only when it is short.
 */
export const creditingOf = (deposit: DepositDetails): Crediting =>
  deposit.customerId === null ? walletCrediting(deposit) : customerCrediting(deposit, deposit.customerId)
