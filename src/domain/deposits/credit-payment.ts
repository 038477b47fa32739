import { type Appends, applyDecided, type StatesOf, type StreamRefs } from '../../kernel/decider.ts'
import type { CustomerId } from '../../kernel/ids.ts'
import { remembersSince } from '../../kernel/recent-ids.ts'
import { accountRef } from '../accounts/fold.ts'
import { decideCredit } from '../ledger/decide.ts'
import { decideCustomerCredit } from '../ledger/decide-customer.ts'
import type { LedgerEvent } from '../ledger/events.ts'
import { type LedgerState, ledgerFold } from '../ledger/fold.ts'
import { decideAwaited } from '../orders/decide-awaited.ts'
import { orderStreams } from '../orders/decide-placement.ts'
import type { DepositDetails, PendingOrder } from './events.ts'

/** Money that arrived for a deposit and must be credited. */
export type PaymentToCredit = {
  readonly paymentId: string
  readonly amountMicros: number
  /** When the deposit recorded it; null if the same decision records it. */
  readonly recordedAtMs: number | null
  /** It came after the invoice closed, so it is credited and places no order. */
  readonly late: boolean
}

export type Credited =
  /**
   * `credited`: the money moves now. `standing`: the ledger already has it, and only the steps after it that a crash
   * lost are done.
   */
  | {
      readonly outcome: 'credited' | 'standing'
      /** For the ledger, in one append. */
      readonly payment: readonly LedgerEvent[]
      /** Appended after the payment. */
      readonly appends: Appends
    }
  /** Recorded so long ago that the ledger state no longer shows whether it moved. An operator must check it. */
  | { readonly outcome: 'unconfirmed' }

/** How money of a deposit is credited: the additional streams to decide on, and the pure decision. */
export type Crediting<Refs extends StreamRefs = StreamRefs> = {
  readonly streams: Refs
  decide(ledger: LedgerState, states: StatesOf<Refs>, payment: PaymentToCredit, nowMs: number): Credited
}

const walletCrediting = ({ depositId, provider }: DepositDetails): Crediting => ({
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
    if (decision.outcome === 'refused') return { outcome: 'standing', payment: [], appends: [] }
    if (recordedAtMs !== null && !remembersSince(ledger.movements, recordedAtMs))
      return { outcome: 'unconfirmed' }
    return { outcome: 'credited', payment: decision.events, appends: [] }
  },
})

const customerCrediting = ({ depositId, gatewayId }: DepositDetails, customerId: CustomerId): Crediting => ({
  streams: {},
  decide: (ledger, _states, { paymentId, amountMicros, recordedAtMs }) => {
    const credit = { customerId, reference: paymentId, gateway: gatewayId, depositId, amountMicros }
    const decision = decideCustomerCredit(ledger, credit)
    if (decision.outcome === 'refused') return { outcome: 'standing', payment: [], appends: [] }
    if (recordedAtMs !== null && !remembersSince(ledger.movements, recordedAtMs))
      return { outcome: 'unconfirmed' }
    return { outcome: 'credited', payment: decision.events, appends: [] }
  },
})

/** A payment for an order also places the order in the same decision. The debit is in the same ledger append. */
const placingCrediting = (
  deposit: DepositDetails & { readonly pending: PendingOrder },
  orderable: boolean,
  credit: Crediting,
): Crediting => {
  const { depositId, accountId, pending } = deposit
  const { order } = pending
  const { ledger: _, ...orderRefs } = orderStreams(order)
  const streams = { account: accountRef(accountId), ...orderRefs }
  const crediting: Crediting<typeof streams> = {
    streams,
    decide: (ledger, states, payment, nowMs) => {
      const credited = credit.decide(ledger, {}, payment, nowMs)
      if (credited.outcome === 'unconfirmed' || payment.late) return credited
      const ledgerAfter = applyDecided(ledgerFold, ledger, credited.payment, nowMs)
      const awaited = decideAwaited(
        { ...states, ledger: ledgerAfter },
        { order, depositId, orderable },
        nowMs,
      )
      return {
        outcome: credited.outcome,
        payment: [...credited.payment, ...awaited.payment],
        appends: awaited.appends,
      }
    },
  }
  return crediting as unknown as Crediting
}

/**
 * The only function that turns a received payment into a ledger decision. For a deposit with an order it decides credit
 * and debit in one ledger append; if the money is too little, it only credits.
 * @param orderable Whether the product of the deposit's order can be ordered at the moment
 */
export const creditingOf = (deposit: DepositDetails, orderable: boolean): Crediting => {
  const { customerId, pending } = deposit
  const credit = customerId === null ? walletCrediting(deposit) : customerCrediting(deposit, customerId)
  return pending === null ? credit : placingCrediting({ ...deposit, pending }, orderable, credit)
}
