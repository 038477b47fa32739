import { type Appends, applyDecided, type CommandDecision, type StreamRef } from '../../kernel/decider.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { accountRef } from '../accounts/fold.ts'
import { decideRelease } from './decide.ts'
import { decideManual, type ManualRefusal, type ManualStates } from './decide-manual.ts'
import type { LedgerEvent } from './events.ts'
import { type LedgerState, ledgerFold, ledgerRef } from './fold.ts'
import type { ManualMovement, ManualState } from './manual-movements.ts'

export type ReversalStates = Pick<ManualStates, 'account' | 'ledger'> & {
  /** One for each movement. */
  readonly movements: readonly ManualState[]
}

export type ReversalAnswer = {
  /** Why a movement was not booked; null: all are booked, now or before. An operator must check it. */
  readonly refused: ManualRefusal['code'] | null
  /** The part of the sum that is not booked, because it exceeds the credit of the deposit. */
  readonly uncoveredMicros: number
}

const isBooked = (movement: ManualState): movement is NonNullable<ManualState> =>
  movement !== null && movement.status !== 'withdrawn'

const stateAfter = <State>(
  { stream, fold }: StreamRef<State>,
  state: State,
  appends: Appends,
  nowMs: number,
): State =>
  appends
    .filter((append) => append.stream === stream)
    .reduce((before, { events }) => applyDecided(fold, before, events, nowMs), state)

export type ReversalRequest = {
  readonly accountId: AccountId
  readonly depositId: string
  /** What the deposit was credited. */
  readonly creditedMicros: number
  /** The hold of the requested refund, which ends; null: none was requested here. */
  readonly heldBy: string | null
  /** With the amounts at the provider, micro-dollars. */
  readonly movements: readonly ManualMovement[]
}

/** The end of the deposit's hold; empty if there is none. */
const releaseOf = (ledger: LedgerState, { depositId, heldBy }: ReversalRequest): readonly LedgerEvent[] => {
  if (heldBy === null || ledger.holds.get(heldBy)?.depositId !== depositId) return []
  const released = decideRelease(ledger, { holdId: heldBy })
  return released.outcome === 'decided' ? released.events : []
}

/** The appends, with these events before the first ones of the stream, in one append. */
const withFirst = (appends: Appends, stream: StreamName, events: readonly DomainEvent[]): Appends => {
  if (events.length === 0) return appends
  const at = appends.findIndex((append) => append.stream === stream)
  const append = appends[at]
  if (append === undefined) return [...appends, { stream, events }]
  return appends.with(at, { ...append, events: [...events, ...append.events] })
}

/**
 * Books the movements of a refund or a dispute, each once. The booked movements always add up to their own sum at the
 * provider, at most what the deposit was credited and never above zero: a bank may take more than was paid if rates
 * changed. The sum is capped, not each movement, so the result does not depend on when or in which order they are seen.
 * A movement that does not change the capped sum is not booked. The hold of the requested refund ends in the append that
 * takes the money.
 */
export const decideReversal = (
  states: ReversalStates,
  request: ReversalRequest,
  nowMs: number,
): CommandDecision<ReversalAnswer> => {
  const { accountId, movements, creditedMicros } = request
  const ledgerStreamRef = ledgerRef(accountId)
  const capped = (micros: number): number => Math.max(Math.min(micros, 0), 0 - creditedMicros)
  const release = releaseOf(states.ledger, request)
  let { account } = states
  let ledger = applyDecided(ledgerFold, states.ledger, release, nowMs)
  let sumMicros = 0
  let bookedMicros = 0
  for (const [index, { amountMicros }] of movements.entries()) {
    const movement = states.movements[index] ?? null
    if (!isBooked(movement)) continue
    sumMicros += amountMicros
    bookedMicros += movement.movement.amountMicros
  }
  const appends: Appends[number][] = []
  const decided = (answer: ReversalAnswer) => ({
    appends: withFirst(appends, ledgerStreamRef.stream, release),
    answer,
  })
  for (const [index, requested] of movements.entries()) {
    const movement = states.movements[index] ?? null
    if (movement?.status === 'applied') continue
    let { amountMicros } = requested
    if (movement?.status !== 'recorded') {
      sumMicros += amountMicros
      amountMicros = capped(sumMicros) - bookedMicros
      bookedMicros += amountMicros
      if (amountMicros === 0) continue
    }
    const decision = decideManual({ account, ledger, movement }, { ...requested, amountMicros })
    appends.push(...decision.appends)
    const { answer } = decision
    if (answer.outcome === 'refused' && answer.refusal.code !== 'already_applied')
      return decided({ refused: answer.refusal.code, uncoveredMicros: 0 })
    account = stateAfter(accountRef(accountId), account, decision.appends, nowMs)
    ledger = stateAfter(ledgerStreamRef, ledger, decision.appends, nowMs)
  }
  return decided({ refused: null, uncoveredMicros: sumMicros - bookedMicros })
}
