import { isoTime } from '../../kernel/clock.ts'
import type { Appends, CommandDecision } from '../../kernel/decider.ts'
import type { KeyCap } from '../../kernel/scopes.ts'
import { ledgerStream, scrapeStream } from '../../kernel/streams.ts'
import {
  decideCapture,
  decideHold,
  decideRelease,
  type InsufficientBalance,
  type SpendCapReached,
} from '../ledger/decide.ts'
import type { HoldCaptured, HoldReleased } from '../ledger/events.ts'
import type { LedgerState } from '../ledger/fold.ts'
import {
  holdIdOf,
  isBilled,
  isResult,
  type Scrape,
  type ScrapeFinished,
  type ScrapeStarted,
  type ScrapeState,
  scrapeAfter,
} from './calls.ts'

export type ScrapeStates = { readonly scrape: ScrapeState; readonly ledger: LedgerState }

/** The input of a call. */
export type ScrapeDraft = Omit<ScrapeStarted['data'], 'attempt' | 'leaseUntil'> & {
  /** How long a process may work on it, milliseconds. */
  readonly leaseMs: number
  /** The answer is cached: no money is held. */
  readonly isFree: boolean
  /** The cap that counts the call: of the key, or of the first key that it was rolled from. Null without a key. */
  readonly capKeyId: string | null
  /** The cap of the key; null for none. */
  readonly cap: KeyCap | null
}

export type StartAnswer =
  /** The money is held, unless the call is free. The caller continues with this try. */
  | { readonly kind: 'started'; readonly scrape: Scrape }
  /** Another process works on it. */
  | { readonly kind: 'running'; readonly scrape: Scrape }
  /** The lease of the process that worked on it is over. That try must be ended first (`decideFinish`). */
  | { readonly kind: 'lapsed'; readonly scrape: Scrape }
  /** It has a result. */
  | { readonly kind: 'finished'; readonly scrape: Scrape; readonly finished: ScrapeFinished['data'] }
  /** The id was used with another request. */
  | { readonly kind: 'conflict' }
  /** It failed so often that its stream accepts no more tries. */
  | { readonly kind: 'spent' }
  | { readonly kind: 'refused'; readonly refusal: InsufficientBalance | SpendCapReached }

/** The most tries per id. It limits the stream if a client retries in an endless loop. */
export const maxAttempts = 50

const unchanged = <Answer>(answer: Answer): CommandDecision<Answer> => ({ appends: [], answer })

/**
 * Starts a call: holds its price unless it is free. A known id is answered before anything else, so that a result is returned again
 * whatever the wallet's balance is. Refusals append nothing, so the id can be used again.
 *
 * The order of writes is: the scrape, then the hold. The stream of the scrape gives each id to one caller. If the log
 * can lose the end of the append, a try without its hold is ended unbilled when its lease is over.
 * @throws if the ledger already has the hold of the new try
 */
export const decideStart = (
  { scrape, ledger }: ScrapeStates,
  { leaseMs, isFree, capKeyId, cap, ...draft }: ScrapeDraft,
  nowMs: number,
): CommandDecision<StartAnswer> => {
  if (scrape) {
    const { started, finished, leaseUntilMs } = scrape
    if (started.fingerprint !== draft.fingerprint) return unchanged({ kind: 'conflict' })
    if (finished === null) return unchanged({ kind: nowMs < leaseUntilMs ? 'running' : 'lapsed', scrape })
    if (isResult(finished.outcome)) return unchanged({ kind: 'finished', scrape, finished })
    if (started.attempt >= maxAttempts) return unchanged({ kind: 'spent' })
  }
  const attempt = (scrape?.started.attempt ?? 0) + 1
  const { scrapeId, accountId, keyId, platform, operation, requestId, priceMicros } = draft
  const started: ScrapeStarted = {
    type: 'ScrapeStarted',
    data: { ...draft, attempt, leaseUntil: isoTime(nowMs + leaseMs) },
  }
  const start = { stream: scrapeStream(scrapeId), events: [started] }
  const answer = { kind: 'started', scrape: scrapeAfter(scrape, [started]) } as const
  if (isFree) return { appends: [start], answer }
  const holdDecision = decideHold(
    ledger,
    {
      holdId: holdIdOf(scrapeId, attempt),
      keyId,
      ...(capKeyId !== null && { capKeyId }),
      platform,
      operation,
      requestId,
      amountMicros: priceMicros,
    },
    cap?.covers === 'everything' ? { cap, nowMs } : null,
  )
  if (holdDecision.outcome === 'refused') {
    const { refusal } = holdDecision
    if (refusal.code === 'already_held' || refusal.code === 'hold_resolved')
      throw new Error(`the hold of attempt ${attempt} of ${scrapeId} stands before it was started`)
    return unchanged({ kind: 'refused', refusal })
  }
  return { appends: [start, { stream: ledgerStream(accountId), events: holdDecision.events }], answer }
}

/** The end of a try. */
export type AttemptEnd = Pick<ScrapeFinished['data'], 'outcome' | 'body' | 'cached' | 'creditsCharged'>

/** The end of the try: this one, or an earlier one. */
export type FinishAnswer = {
  readonly finished: ScrapeFinished['data'] | null
  readonly isOwnAttempt: boolean
  /** What the wallet can spend after it. */
  readonly availableMicros: number
}

/** The events that end the hold of a try. Empty if it was ended before, or if there was no hold. */
const endHold = (
  ledger: LedgerState,
  holdId: string,
  billed: boolean,
): readonly (HoldCaptured | HoldReleased)[] => {
  const holdResult = billed ? decideCapture(ledger, { holdId }) : decideRelease(ledger, { holdId })
  if (holdResult.outcome === 'decided') return holdResult.events
  const { refusal } = holdResult
  if (refusal.code === 'hold_resolved' && refusal.resolution !== (billed ? 'captured' : 'released'))
    throw new Error(
      `hold ${holdId} was ${refusal.resolution} though its call was ${billed ? '' : 'not '}billed`,
    )
  return []
}

/**
 * Ends a try, once. The first end is final, including whether the call is billed. The hold is captured or released
 * accordingly, also if only this step was missing.
 *
 * The order of writes is: the scrape, then the end of the hold.
 * @throws if a call would be billed without a hold
 */
export const decideFinish = (
  { scrape, ledger }: ScrapeStates,
  { attempt, ending }: { readonly attempt: number; readonly ending: AttemptEnd },
): CommandDecision<FinishAnswer> => {
  if (scrape === null || attempt > scrape.started.attempt)
    throw new Error(`attempt ${attempt} ends, but was never started`)
  const { scrapeId, accountId, platform, operation, keyId, priceMicros } = scrape.started
  const holdId = holdIdOf(scrapeId, attempt)
  const holdEnd = (billed: boolean): { readonly appends: Appends; readonly availableMicros: number } => {
    const events = endHold(ledger, holdId, billed)
    return {
      appends: events.length === 0 ? [] : [{ stream: ledgerStream(accountId), events }],
      availableMicros: events.at(-1)?.data.availableAfterMicros ?? ledger.availableMicros,
    }
  }
  // A later try was started only because this one had failed.
  const isSuperseded = attempt < scrape.started.attempt
  if (isSuperseded || scrape.finished) {
    const finished = isSuperseded ? null : scrape.finished
    const { appends, availableMicros } = holdEnd(finished?.billed ?? false)
    return { appends, answer: { finished, isOwnAttempt: false, availableMicros } }
  }
  const billed = isBilled(ending.outcome, ending.cached)
  const finished: ScrapeFinished['data'] = {
    scrapeId,
    accountId,
    attempt,
    platform,
    operation,
    keyId,
    ...ending,
    billed,
    amountMicros: billed ? priceMicros : 0,
  }
  const { appends, availableMicros } = holdEnd(billed)
  if (billed && appends.length === 0) throw new Error(`attempt ${attempt} of ${scrapeId} has no hold to bill`)
  return {
    appends: [
      { stream: scrapeStream(scrapeId), events: [{ type: 'ScrapeFinished', data: finished }] },
      ...appends,
    ],
    answer: { finished, isOwnAttempt: true, availableMicros },
  }
}
