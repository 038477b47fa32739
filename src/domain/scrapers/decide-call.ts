import { isoTime } from '../../kernel/clock.ts'
import type { Appends, CommandDecision } from '../../kernel/decider.ts'
import { ledgerStream, scrapeStream } from '../../kernel/streams.ts'
import { decideCapture, decideHold, decideRelease, type InsufficientBalance } from '../ledger/decide.ts'
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

/** A call as it is asked for. */
export type ScrapeDraft = Omit<ScrapeStarted['data'], 'attempt' | 'leaseUntil'> & {
  /** How long a process may be at work for it. */
  readonly leaseMs: number
}

export type StartAnswer =
  /** Money is held: the caller goes on with this try. */
  | { readonly kind: 'started'; readonly scrape: Scrape }
  /** Somebody is at work for it. */
  | { readonly kind: 'running'; readonly scrape: Scrape }
  /** Whoever was at work for it has gone; that try is to be ended first (`decideFinish`). */
  | { readonly kind: 'lapsed'; readonly scrape: Scrape }
  /** It has its result. */
  | { readonly kind: 'finished'; readonly scrape: Scrape; readonly finished: ScrapeFinished['data'] }
  /** The id stands for another request. */
  | { readonly kind: 'conflict' }
  /** It failed so often that its stream takes no more. */
  | { readonly kind: 'spent' }
  | { readonly kind: 'refused'; readonly refusal: InsufficientBalance }

/** Tries under one id. It bounds the stream, for whoever retries in a loop for ever. */
export const maxAttempts = 50

const nothing = <Answer>(answer: Answer): CommandDecision<Answer> => ({ appends: [], answer })

/**
 * Starts a call: its price is held. A known id is told before anything else, so that a result is answered again whatever
 * the wallet has. Refusals append nothing: the id stays free.
 *
 * Written in this order: the scrape, then the hold. The stream of the scrape gives each id to one caller; where the log
 * can lose the end of it, a try without its hold is ended when its lease is over, unbilled.
 */
export const decideStart = (
  { scrape, ledger }: ScrapeStates,
  { leaseMs, ...draft }: ScrapeDraft,
  nowMs: number,
): CommandDecision<StartAnswer> => {
  if (scrape) {
    const { started, finished, leaseUntilMs } = scrape
    if (started.fingerprint !== draft.fingerprint) return nothing({ kind: 'conflict' })
    if (finished === null) return nothing({ kind: nowMs < leaseUntilMs ? 'running' : 'lapsed', scrape })
    if (isResult(finished.outcome)) return nothing({ kind: 'finished', scrape, finished })
    if (started.attempt >= maxAttempts) return nothing({ kind: 'spent' })
  }
  const attempt = (scrape?.started.attempt ?? 0) + 1
  const { scrapeId, accountId, keyId, platform, operation, requestId, priceMicros } = draft
  const held = decideHold(ledger, {
    holdId: holdIdOf(scrapeId, attempt),
    keyId,
    platform,
    operation,
    requestId,
    amountMicros: priceMicros,
  })
  if (held.outcome === 'refused') {
    if (held.refusal.code !== 'insufficient_balance')
      throw new Error(`the hold of attempt ${attempt} of ${scrapeId} stands before it was started`)
    return nothing({ kind: 'refused', refusal: held.refusal })
  }
  const started: ScrapeStarted = {
    type: 'ScrapeStarted',
    data: { ...draft, attempt, leaseUntil: isoTime(nowMs + leaseMs) },
  }
  return {
    appends: [
      { stream: scrapeStream(scrapeId), events: [started] },
      { stream: ledgerStream(accountId), events: held.events },
    ],
    answer: { kind: 'started', scrape: scrapeAfter(scrape, [started]) },
  }
}

/** What ends a try. */
export type AttemptEnd = Pick<ScrapeFinished['data'], 'outcome' | 'body' | 'cached' | 'creditsCharged'>

/** How the try stands ended: by this ending, or by one that came before it. */
export type FinishAnswer = {
  readonly finished: ScrapeFinished['data'] | null
  readonly isOwnAttempt: boolean
}

/** What the end of a try does to its hold; none where that was done before, or no hold was made. */
const endHold = (
  ledger: LedgerState,
  holdId: string,
  billed: boolean,
): readonly (HoldCaptured | HoldReleased)[] => {
  const ended = billed ? decideCapture(ledger, { holdId }) : decideRelease(ledger, { holdId })
  if (ended.outcome === 'decided') return ended.events
  const { refusal } = ended
  if (refusal.code === 'hold_resolved' && refusal.resolution !== (billed ? 'captured' : 'released'))
    throw new Error(
      `hold ${holdId} was ${refusal.resolution} though its call was ${billed ? '' : 'not '}billed`,
    )
  return []
}

/**
 * Ends a try, once: the first ending stands, and with it whether the call is billed. The hold is captured or released as
 * that says, also where only this was left to do.
 *
 * Written in this order: the scrape, then the hold's end.
 * @throws when a call would be billed without a hold
 */
export const decideFinish = (
  { scrape, ledger }: ScrapeStates,
  { attempt, ending }: { readonly attempt: number; readonly ending: AttemptEnd },
): CommandDecision<FinishAnswer> => {
  if (scrape === null || attempt > scrape.started.attempt)
    throw new Error(`attempt ${attempt} ends, but was never started`)
  const { scrapeId, accountId, platform, operation, keyId, priceMicros } = scrape.started
  const holdId = holdIdOf(scrapeId, attempt)
  const toHold = (billed: boolean): Appends => {
    const events = endHold(ledger, holdId, billed)
    return events.length === 0 ? [] : [{ stream: ledgerStream(accountId), events }]
  }
  // A later try is only started when this one had failed.
  const superseded = attempt < scrape.started.attempt
  if (superseded || scrape.finished) {
    const finished = superseded ? null : scrape.finished
    return { appends: toHold(finished?.billed ?? false), answer: { finished, isOwnAttempt: false } }
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
  const holdEnd = toHold(billed)
  if (billed && holdEnd.length === 0) throw new Error(`attempt ${attempt} of ${scrapeId} has no hold to bill`)
  return {
    appends: [
      { stream: scrapeStream(scrapeId), events: [{ type: 'ScrapeFinished', data: finished }] },
      ...holdEnd,
    ],
    answer: { finished, isOwnAttempt: true },
  }
}
