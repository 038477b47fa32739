import { type Appends, applyDecided, type CommandDecision, type StreamRef } from '../../kernel/decider.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { accountRef } from '../accounts/fold.ts'
import { decideManual, type ManualRefusal, type ManualStates } from './decide-manual.ts'
import { ledgerRef } from './fold.ts'
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

/**
 * Books the movements of a refund or a dispute, each once. The booked movements always add up to their own sum at the
 * provider, at most what the deposit was credited and never above zero: a bank may take more than was paid if rates
 * changed. The sum is capped, not each movement, so the result does not depend on when or in which order they are seen.
 * A movement that does not change the capped sum is not booked.
 * @param movements With the amounts at the provider, micro-dollars
 */
export const decideReversal = (
  states: ReversalStates,
  movements: readonly ManualMovement[],
  creditedMicros: number,
  nowMs: number,
): CommandDecision<ReversalAnswer> => {
  const capped = (micros: number): number => Math.max(Math.min(micros, 0), 0 - creditedMicros)
  let { account, ledger } = states
  let sumMicros = 0
  let bookedMicros = 0
  for (const [index, { amountMicros }] of movements.entries()) {
    const movement = states.movements[index] ?? null
    if (!isBooked(movement)) continue
    sumMicros += amountMicros
    bookedMicros += movement.movement.amountMicros
  }
  const appends: Appends[number][] = []
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
      return { appends, answer: { refused: answer.refusal.code, uncoveredMicros: 0 } }
    const accountId = requested.accountId as AccountId
    account = stateAfter(accountRef(accountId), account, decision.appends, nowMs)
    ledger = stateAfter(ledgerRef(accountId), ledger, decision.appends, nowMs)
  }
  return { appends, answer: { refused: null, uncoveredMicros: sumMicros - bookedMicros } }
}
