import { type Appends, type CommandDecision, type Refused, refused } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import { type AccountId, deriveId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { remembersSince } from '../../kernel/recent-ids.ts'
import { accountStream, depositStream, ledgerStream, type StreamName } from '../../kernel/streams.ts'
import { decideBlock } from '../accounts/decide.ts'
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
import type { ManualMovement, ManualMovementEvent, ManualState } from './manual-movements.ts'
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
  /** The reference moved this amount before; nothing moved now. */
  | { readonly code: 'already_applied'; readonly amountMicros: number }
  | InsufficientBalance
  /** It would leave more than can be counted exactly, in the wallet, as credit or as debt (src/kernel/money.ts). */
  | { readonly code: 'invalid_amount' }
  /** Recorded more than seven days of the wallet's time ago and never confirmed: whether it moved must be looked up. */
  | { readonly code: 'unconfirmed'; readonly recordedAtMs: number }

export type ManualAnswer =
  | {
      readonly outcome: 'applied'
      readonly amountMicros: number
      /** What it leaves in the wallet, or of the customer's credit. */
      readonly balanceCents: number
    }
  | Refused<ManualRefusal>

/** The stream that spends the reference: one for credits, one for adjustments, one a customer. */
export const manualStream = (movement: ManualMovement): StreamName => {
  const { accountId, reference } = movement
  switch (movement.kind) {
    case 'credit':
      return depositStream(deriveId('dep', [accountId, 'manual', reference]))
    case 'adjustment':
      return depositStream(deriveId('dep', [accountId, 'adjustment', reference]))
    case 'customer':
      return depositStream(deriveId('dep', [accountId, 'customer', movement.customerId, reference]))
    default: {
      const unknown: never = movement
      throw new Error(`unknown movement by hand ${JSON.stringify(unknown)}`)
    }
  }
}

type MovementDecision = LedgerDecision<
  WalletCredited | WalletAdjusted | CustomerAdjusted,
  AlreadyApplied | InsufficientBalance | { readonly code: 'invalid_amount' }
>

/** By hand there is none, and the event has no field for it. */
const depositOf = ({ depositId }: { readonly depositId?: string }): { readonly depositId?: string } =>
  depositId === undefined ? {} : { depositId }

const tooMuch = refused({ code: 'invalid_amount' } as const)

/** Whether what the wallet or the customer has and owes after it is still a figure without rounding. */
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
  return decision.outcome === 'refused' || isCountable(ledger, decision.events[0]) ? decision : tooMuch
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
 * Moves money by hand, once per reference for ever. Written in this order: the movement is recorded, the account is
 * blocked (chargeback), the wallet moves, the movement is applied.
 *
 * Where the log can lose the end of that, each prefix is finished by deciding again, with what was
 * recorded and not with what is asked now: recorded only, the wallet still moves, for it knows every movement of the last
 * seven days and so that this one is missing; recorded and moved, only the last fact is written. The wallet alone could
 * not stand first: once it forgot the movement, nothing would be left to refuse it. A wallet that cannot bear a recorded
 * movement any more withdraws it, and the reference is free again.
 */
export const decideManual = (
  { account, movement: standing, ledger }: ManualStates,
  asked: ManualMovement,
): CommandDecision<ManualAnswer> => {
  const nothing = (refusal: ManualRefusal, ...facts: Fact[]): CommandDecision<ManualAnswer> => ({
    appends: appendsOf(facts),
    answer: refused(refusal),
  })
  if (!account) return nothing({ code: 'unknown_account' })
  if (asked.kind === 'customer' && !account.reseller) return nothing({ code: 'not_a_reseller' })
  if (standing?.status === 'applied')
    return nothing({ code: 'already_applied', amountMicros: standing.movement.amountMicros })

  const resumed = standing?.status === 'recorded' ? standing : null
  const movement = resumed?.movement ?? asked
  const accountId = asked.accountId as AccountId
  const guard = manualStream(asked)
  const mark = (type: 'ManualMovementApplied' | 'ManualMovementWithdrawn'): Fact => {
    const event: ManualMovementEvent = { type, data: { accountId, reference: asked.reference } }
    return [guard, event]
  }
  const applied = (amountMicros: number, ...facts: Fact[]) =>
    nothing({ code: 'already_applied', amountMicros }, ...facts)
  const decision = decideOnLedger(ledger, movement)
  if (decision.outcome === 'refused' && decision.refusal.code === 'already_applied')
    return applied(decision.refusal.amountMicros, ...(resumed ? [mark('ManualMovementApplied')] : []))
  if (resumed && !remembersSince(ledger.movements, resumed.recordedAtMs))
    return nothing({ code: 'unconfirmed', recordedAtMs: resumed.recordedAtMs })
  if (decision.outcome === 'refused')
    return nothing(decision.refusal, ...(resumed ? [mark('ManualMovementWithdrawn')] : []))

  const facts: Fact[] = [
    ...(resumed ? [] : [[guard, { type: 'ManualMovementRecorded', data: movement }] as const]),
    ...blockEventDefinitions(account, movement),
    [ledgerStream(accountId), decision.events[0]],
    mark('ManualMovementApplied'),
  ]
  const [event] = decision.events
  const leftMicros =
    event.type === 'CustomerAdjusted' ? event.data.creditAfterMicros : decision.availableAfterMicros
  if (!sameMovement(movement, asked)) return applied(movement.amountMicros, ...facts)
  return {
    appends: appendsOf(facts),
    answer: {
      outcome: 'applied',
      amountMicros: movement.amountMicros,
      balanceCents: microsToCentsFloor(leftMicros),
    },
  }
}

type Fact = readonly [stream: StreamName, event: DomainEvent]

const appendsOf = (facts: readonly Fact[]): Appends =>
  facts.map(([stream, event]) => ({ stream, events: [event] }))

/** An account whose payment was taken back may not transact until an operator has looked. */
const blockEventDefinitions = (account: AccountState, movement: ManualMovement): Fact[] => {
  if (movement.kind !== 'adjustment' || movement.reason !== 'chargeback' || movement.amountMicros > 0)
    return []
  const block = decideBlock(account, { reason: `chargeback ${movement.reference}` })
  const stream = accountStream(movement.accountId as AccountId)
  return block.outcome === 'decided' ? block.events.map((event) => [stream, event] as const) : []
}
