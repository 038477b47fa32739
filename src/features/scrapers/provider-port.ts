import type { InputValue, ScraperRow } from '../../domain/scrapers/scraper.ts'

/** The fields of a call as `readInput` gave them: checked, trimmed, without a leading `@` or `#`. */
export type ScrapeInput = Readonly<Record<string, InputValue>>

/** Ages that a cached answer may be asked with, in days. */
export const cacheDays = [1, 3, 7, 14, 30] as const
export type CacheDays = (typeof cacheDays)[number]

/** Why nothing was fetched, and nobody is to be billed; the names are codes of the error table. */
export type ScrapeFailure = {
  readonly kind: 'failed'
  readonly code:
    | 'provider_failed'
    | 'upstream_credits_exhausted'
    | 'upstream_auth_rejected'
    | 'scraper_unavailable'
    | 'overloaded'
  /** Whole seconds after which another try makes sense; null where nobody knows. */
  readonly retryAfterSeconds: number | null
}

/**
 * What a call came to. `found` and `target_not_found` are billed, all others are not, and no answer from a cache is. `data` is JSON without a word of
 * who fetched it. `nothing` is an answer all the same: a search without a hit, a video without speech.
 */
export type ScrapeOutcome =
  | {
      readonly kind: 'found'
      readonly data: unknown
      /** What the next page is asked with, in the field that the row's `paging.input` names; null after the last one. */
      readonly nextCursor: string | null
      readonly cached: boolean
    }
  | { readonly kind: 'nothing'; readonly data: unknown; readonly nextCursor: null; readonly cached: boolean }
  | { readonly kind: 'target_not_found' }
  | { readonly kind: 'target_restricted' }
  /** Our own check passed and the provider's did not; `details` is ours. */
  | { readonly kind: 'bad_input'; readonly details: string }
  | ScrapeFailure

/** Our own names for the providers: theirs are told to nobody. */
export type ProviderName = 'first' | 'second' | 'sandbox'

/** What we know of the call, for the books and for nobody else. */
export type ScrapeCost = {
  /** Which provider answered last. */
  readonly provider: ProviderName
  /** What it says that it charged us, in its credits; null where it did not say. */
  readonly creditsCharged: number | null
  /** How long the providers took, in milliseconds. */
  readonly tookMs: number
}

export type ScrapeResult = { readonly outcome: ScrapeOutcome; readonly cost: ScrapeCost }

/**
 * A place for one call, which stands between the refusals that cost nothing and the hold. Ask for it before the hold, and
 * call `leave` in every case, once nothing more is called: also when the hold was refused.
 */
export type CallSlot = {
  /**
   * Fetches; never rejects. Ends in `longestMs` at the latest, or when the signal aborts, then as `provider_failed`.
   * At most once an admission.
   */
  call(
    input: ScrapeInput,
    options: { readonly signal: AbortSignal; readonly maxAgeDays?: CacheDays },
  ): Promise<ScrapeResult>
  release(): void
}

/**
 * `live`: it can be called. `unavailable`: no provider that is configured serves it, so a call is `scraper_unavailable`,
 * or `upstream_auth_rejected` where none is configured at all.
 */
export type ScraperState = 'live' | 'unavailable'

/** The providers as one: which rows they serve, who is asked, and when nobody is. */
export type Scraping = {
  /** A place for a call, or why there is none now: nothing was fetched, and nothing is to be held. */
  admit(row: ScraperRow): CallSlot | ScrapeFailure
  stateOf(row: ScraperRow): ScraperState
  /** The longest that a call of the row may take, in milliseconds, with every second try. For leases. */
  longestMs(row: ScraperRow): number
  stop(): Promise<void>
}

export const isScrapeFailure = (asked: CallSlot | ScrapeFailure): asked is ScrapeFailure => 'kind' in asked
