import type { AccountId, ScrapeId } from '../../kernel/ids.ts'
import type { DomainEvent } from '../../platform/eventstore/event.ts'

/**
 * What came of a call. The first four are results: a retry gets them again. The others are failures, after which the
 * same `X-Request-Id` is tried anew; `interrupted` is a call whose process ended before it had a result.
 */
export type ScrapeOutcome =
  | 'found'
  | 'empty'
  | 'target_not_found'
  | 'target_restricted'
  | 'bad_input'
  | 'provider_failed'
  | 'upstream_credits_exhausted'
  | 'upstream_auth_rejected'
  | 'scraper_unavailable'
  | 'overloaded'
  | 'interrupted'

/** Whether an outcome is charged (docs/scrapers.md, "What is billed"). An answer from the provider's cache cost us nothing. */
export const isBilled = (outcome: ScrapeOutcome, cached: boolean): boolean =>
  (outcome === 'found' && !cached) || outcome === 'target_not_found'

/** Whether a retry gets this outcome again instead of another try. */
export const isResult = (outcome: ScrapeOutcome): boolean =>
  outcome === 'found' ||
  outcome === 'target_not_found' ||
  outcome === 'empty' ||
  outcome === 'target_restricted'

/** What both events of a `scrape-{id}` stream say of the call. */
type Call = {
  readonly scrapeId: ScrapeId
  readonly accountId: AccountId
  /** Counts the tries under one `X-Request-Id`, from 1. */
  readonly attempt: number
  readonly platform: string
  readonly operation: string
  /** The key that asked; null where no key did. */
  readonly keyId: string | null
}

/** Money is held for the call from here on, and a process is at work for it until the lease ends. */
export type ScrapeStarted = DomainEvent<
  'ScrapeStarted',
  Call & {
    readonly requestId: string
    /** Of platform, operation and body, SHA-256: what a retry must ask for again. */
    readonly fingerprint: string
    /** What the call costs when it is billed, micro-dollars. */
    readonly priceMicros: number
    /** ISO 8601. */
    readonly leaseUntil: string
  }
>

/** The body of a result, which is kept outside the log for a day. */
export type ResultBody = {
  /** SHA-256, lower-case hex. */
  readonly hash: string
  readonly bytes: number
}

/** The call is over; its hold is captured when it is billed, else released. */
export type ScrapeFinished = DomainEvent<
  'ScrapeFinished',
  Call & {
    readonly outcome: ScrapeOutcome
    readonly billed: boolean
    /** What is charged, micro-dollars: the price, or 0. */
    readonly amountMicros: number
    /** Null for an outcome without a body, and where nobody knows it. */
    readonly body: ResultBody | null
    /** Whether the provider answered from a cache of its own. */
    readonly cached: boolean
    /** What the provider charged for it, in its credits; null where it did not say. */
    readonly creditsCharged: number | null
  }
>

export type ScrapeEvent = ScrapeStarted | ScrapeFinished

/** The hold of a try, in the ledger of its account. */
export const holdIdOf = (scrapeId: ScrapeId, attempt: number): string => `${scrapeId}.${attempt}`

const holdForm = /^(scr_[0-9a-f]{32})\.([1-9]\d{0,3})$/

/** The try that a hold is for; null for a hold of something else. */
export const tryOf = (holdId: string): { readonly scrapeId: ScrapeId; readonly attempt: number } | null => {
  const [, scrapeId, attempt] = holdForm.exec(holdId) ?? []
  return scrapeId === undefined ? null : { scrapeId: scrapeId as ScrapeId, attempt: Number(attempt) }
}
