import { type Appends, type CommandDecision, type Refused, refused } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import { type AccountId, deriveId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { remembersSince } from '../../kernel/recent-ids.ts'
import { accountStream, depositStream, ledgerStream, type StreamName } from '../../kernel/streams.ts'
import { decideBlock, disputeBlock } from '../accounts/decide.ts'
import type { AccountState } from '../accounts/fold.ts'
import {
  type AlreadyApplied,
  decideAdjustment,
  decideCredit,
  type InsufficientBalance,
  type LedgerDecision,
} from './decide.ts'
import { decideCustomerAdjustment } from './decide-customer.ts'
import type { CustomerAdjusted, WalletAdjusted, WalletCredited } from './events.ts'
import { customerPurse, type LedgerState } from './fold.ts'
import type {
  CustomerMovement,
  ManualMovement,
  ManualMovementEvent,
  ManualState,
} from './manual-movements.ts'
import { customerMovementOf, movementOf } from './movements.ts'

export type ManualStates = {
  readonly account: AccountState
  readonly movement: ManualState
  readonly ledger: LedgerState
}

export type ManualRefusal =
  | { readonly code: 'unknown_account' }
  /** Only a reseller has customers. */
  | { readonly code: 'not_a_reseller' }
  /** The reference moved this amount before. Nothing moved now. `isSame`: that was the requested movement. */
  | { readonly code: 'already_applied'; readonly amountMicros: number; readonly isSame: boolean }
  | InsufficientBalance
  /** More is written off than the account owes. */
  | { readonly code: 'not_owed'; readonly owedMicros: number }
  /** The wallet, the credit or the debt would become too large for an exact number (src/kernel/money.ts). */
  | { readonly code: 'invalid_amount' }
  /**
   * Recorded more than seven days ago, in the time of the wallet's events, and never confirmed. An operator must
   * check whether it moved.
   */
  | { readonly code: 'unconfirmed'; readonly recordedAtMs: number }

export type ManualAnswer =
  | {
      readonly outcome: 'applied'
      readonly amountMicros: number
      /** What is left in the wallet, or of the customer's credit. */
      readonly balanceCents: number
    }
  | Refused<ManualRefusal>

type MovementKey =
  | Pick<Exclude<ManualMovement, { readonly kind: 'customer' }>, 'kind' | 'accountId' | 'reference'>
  | Pick<CustomerMovement, 'kind' | 'accountId' | 'customerId' | 'reference'>

/** The id of a movement. A reference has one for credits, one for adjustments, and one per customer. */
export const movementIdOf = (movement: MovementKey): string => {
  const { accountId, reference } = movement
  switch (movement.kind) {
    case 'credit':
      return deriveId('dep', [accountId, 'manual', reference])
    case 'adjustment':
      return deriveId('dep', [accountId, 'adjustment', reference])
    case 'customer':
      return deriveId('dep', [accountId, 'customer', movement.customerId, reference])
    default: {
      const unknown: never = movement
      throw new Error(`unknown movement by hand ${JSON.stringify(unknown)}`)
    }
  }
}

/** The stream that makes a reference unique. */
export const manualStream = (movement: ManualMovement): StreamName => depositStream(movementIdOf(movement))

type MovementDecision = LedgerDecision<
  WalletCredited | WalletAdjusted | CustomerAdjusted,
  | AlreadyApplied
  | InsufficientBalance
  | Extract<ManualRefusal, { readonly code: 'invalid_amount' | 'not_owed' }>
>

/** Only a chargeback or a refund of a deposit names a deposit. Otherwise the event has no such field. */
const depositOf = ({ depositId }: { readonly depositId?: string }): { readonly depositId?: string } =>
  depositId === undefined ? {} : { depositId }

const invalidAmount = refused({ code: 'invalid_amount' } as const)

/** Whether the balance and the debt after the event are still exact numbers. */
const isCountable = (
  ledger: LedgerState,
  event: WalletCredited | WalletAdjusted | CustomerAdjusted,
): boolean => {
  if (event.type !== 'CustomerAdjusted') {
    const owedMicros = ledger.receivableMicros + movementOf(event).receivableMicros
    return Number.isSafeInteger(event.data.availableAfterMicros) && Number.isSafeInteger(owedMicros)
  }
  const { customerId, creditAfterMicros } = event.data
  const owedMicros =
    customerPurse(ledger, customerId).receivableMicros + customerMovementOf(event).receivableMicros
  return Number.isSafeInteger(creditAfterMicros) && Number.isSafeInteger(owedMicros)
}

const decideOnLedger = (ledger: LedgerState, movement: ManualMovement): MovementDecision => {
  const decision = decideMovement(ledger, movement)
  return decision.outcome === 'refused' || isCountable(ledger, decision.events[0]) ? decision : invalidAmount
}

const decideMovement = (ledger: LedgerState, movement: ManualMovement): MovementDecision => {
  const { reference, amountMicros } = movement
  if (movement.kind === 'customer') {
    const { customerId, reason, gateway } = movement
    const adjustment = { customerId, reference, reason, gateway, ...depositOf(movement), amountMicros }
    return decideCustomerAdjustment(ledger, adjustment)
  }
  if (movement.kind === 'adjustment') {
    const { reason, gateway } = movement
    if (reason === 'bad_debt' && (amountMicros <= 0 || amountMicros > ledger.receivableMicros))
      return refused({ code: 'not_owed', owedMicros: ledger.receivableMicros })
    return decideAdjustment(ledger, { reference, reason, gateway, ...depositOf(movement), amountMicros })
  }
  const source = {
    source: 'manual',
    gateway: 'manual',
    depositId: null,
    orderId: null,
    family: null,
  } as const
  return decideCredit(ledger, { ...source, reference, amountMicros })
}

const sameMovement = (one: ManualMovement, other: ManualMovement): boolean =>
  one.amountMicros === other.amountMicros &&
  (one.kind === 'credit' || other.kind === 'credit' || one.reason === other.reason)

/**
 * Moves money by hand, at most once per reference. The order of writes is: the movement is recorded, the account is
 * blocked (chargeback), the wallet moves, the movement is marked as applied.
 *
 * If the log can lose the end of that, another decision finishes any prefix, with the recorded movement and not with
 * the new input. If only the record was appended, the wallet moves now: its state has every movement of the last seven
 * days, so it shows that this one is missing. If the wallet has moved, only the last event is appended. The wallet
 * alone could not be written first: after seven days nothing would refuse a duplicate. If the wallet no longer covers a
 * recorded movement, the movement is withdrawn and the reference can be used again.
 */
export const decideManual = (
  { account, movement: existing, ledger }: ManualStates,
  requested: ManualMovement,
): CommandDecision<ManualAnswer> => {
  const refuseWith = (
    refusal: ManualRefusal,
    ...streamEvents: StreamEvent[]
  ): CommandDecision<ManualAnswer> => ({
    appends: appendsOf(streamEvents),
    answer: refused(refusal),
  })
  if (!account) return refuseWith({ code: 'unknown_account' })
  if (requested.kind === 'customer' && !account.reseller) return refuseWith({ code: 'not_a_reseller' })
  const refuseApplied = (applied: ManualMovement, ...streamEvents: StreamEvent[]) =>
    refuseWith(
      {
        code: 'already_applied',
        amountMicros: applied.amountMicros,
        isSame: sameMovement(applied, requested),
      },
      ...streamEvents,
    )
  if (existing?.status === 'applied') return refuseApplied(existing.movement)

  const resumed = existing?.status === 'recorded' ? existing : null
  const movement = resumed?.movement ?? requested
  const accountId = requested.accountId as AccountId
  const guardStream = manualStream(requested)
  const statusEvent = (type: 'ManualMovementApplied' | 'ManualMovementWithdrawn'): StreamEvent => {
    const event: ManualMovementEvent = { type, data: { accountId, reference: requested.reference } }
    return [guardStream, event]
  }
  const decision = decideOnLedger(ledger, movement)
  const unconfirmed =
    resumed && !remembersSince(ledger.movements, resumed.recordedAtMs)
      ? refuseWith({ code: 'unconfirmed', recordedAtMs: resumed.recordedAtMs })
      : null
  if (decision.outcome === 'refused') {
    const { refusal } = decision
    if (refusal.code === 'already_applied')
      return refuseApplied(
        { ...movement, amountMicros: refusal.amountMicros },
        ...(resumed ? [statusEvent('ManualMovementApplied')] : []),
      )
    return unconfirmed ?? refuseWith(refusal, ...(resumed ? [statusEvent('ManualMovementWithdrawn')] : []))
  }
  if (unconfirmed) return unconfirmed

  const streamEvents: StreamEvent[] = [
    ...(resumed ? [] : [[guardStream, { type: 'ManualMovementRecorded', data: movement }] as const]),
    ...blockEvents(account, movement),
    [ledgerStream(accountId), decision.events[0]],
    statusEvent('ManualMovementApplied'),
  ]
  const [event] = decision.events
  const balanceMicros =
    event.type === 'CustomerAdjusted' ? event.data.creditAfterMicros : decision.availableAfterMicros
  if (!sameMovement(movement, requested)) return refuseApplied(movement, ...streamEvents)
  return {
    appends: appendsOf(streamEvents),
    answer: {
      outcome: 'applied',
      amountMicros: movement.amountMicros,
      balanceCents: microsToCentsFloor(balanceMicros),
    },
  }
}

type StreamEvent = readonly [stream: StreamName, event: DomainEvent]

const appendsOf = (streamEvents: readonly StreamEvent[]): Appends =>
  streamEvents.map(([stream, event]) => ({ stream, events: [event] }))

/** An account whose payment was taken back is blocked until an operator has checked it. */
const blockEvents = (account: AccountState, movement: ManualMovement): StreamEvent[] => {
  if (movement.kind !== 'adjustment' || movement.reason !== 'chargeback' || movement.amountMicros > 0)
    return []
  const block = decideBlock(account, { reason: disputeBlock(movement.reference) })
  const stream = accountStream(movement.accountId as AccountId)
  return block.outcome === 'decided' ? block.events.map((event) => [stream, event] as const) : []
}
