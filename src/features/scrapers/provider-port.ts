import type { InputValue, ScraperRow } from '../../domain/scrapers/scraper.ts'

/** The input fields as `readInput` returned them: checked, trimmed, without a leading `@` or `#`. */
export type ScrapeInput = Readonly<Record<string, InputValue>>

/** Accepted ages of a cached answer, in days. */
export const cacheDays = [1, 3, 7, 14, 30] as const
export type CacheDays = (typeof cacheDays)[number]

/** Why nothing was fetched and nothing is billed. The names are codes of the error table. */
export type ScrapeFailure = {
  readonly kind: 'failed'
  readonly code:
    | 'provider_failed'
    | 'upstream_credits_exhausted'
    | 'upstream_auth_rejected'
    | 'scraper_unavailable'
    | 'overloaded'
  /** Whole seconds until another attempt makes sense; null: it fails until the provider or the operator changes something. */
  readonly retryAfterSeconds: number | null
}

/**
 * The outcome of a call. Only `found` and `target_not_found` are billed. `data` is JSON that does not reveal the
 * provider. `nothing` is an answer too: a search without hits, a video without speech.
 */
export type ScrapeOutcome =
  | {
      readonly kind: 'found'
      readonly data: unknown
      /** The cursor of the next page, for the field in the row's `paging.input`; null after the last page. */
      readonly nextCursor: string | null
    }
  | { readonly kind: 'nothing'; readonly data: unknown; readonly nextCursor: null }
  | { readonly kind: 'target_not_found' }
  | { readonly kind: 'target_restricted' }
  /** Our own check passed and the provider's did not; `details` is our text. */
  | { readonly kind: 'bad_input'; readonly details: string }
  | ScrapeFailure

/** Our names for the providers. The real names are not disclosed. */
export type ProviderName = 'first' | 'second' | 'sandbox'

/** Internal figures of the call, only for accounting. */
export type ScrapeCost = {
  /** The provider that answered last. */
  readonly provider: ProviderName
  /** The credits that the provider reported as charged; null if it reported none. */
  readonly creditsCharged: number | null
  /** Time spent at the providers, milliseconds. */
  readonly tookMs: number
}

export type ScrapeResult = { readonly outcome: ScrapeOutcome; readonly cost: ScrapeCost }

/**
 * A slot for one call. Acquire it after the refusals that cost nothing and before the hold. Call `release` in every
 * case after the last call, also when the hold was refused.
 */
export type CallSlot = {
  /**
   * Fetches. Never rejects. Ends within `longestMs`, or as `provider_failed` when the signal aborts. At most once per
   * admission.
   */
  call(input: ScrapeInput, options: { readonly signal: AbortSignal }): Promise<ScrapeResult>
  release(): void
}

/**
 * `live`: it can be called. `unavailable`: no configured provider serves it, so a call is `scraper_unavailable`.
 */
export type ScraperState = 'live' | 'unavailable'

/** All providers behind one interface: which rows they serve, and which provider is called. */
export type Scraping = {
  /** A slot for a call, or why there is none now. In that case nothing was fetched, and no hold may be placed. */
  admit(row: ScraperRow): CallSlot | ScrapeFailure
  stateOf(row: ScraperRow): ScraperState
  /** The longest duration of a call of the row including second attempts, milliseconds. For leases. */
  longestMs(row: ScraperRow): number
  stop(): Promise<void>
}

export const isScrapeFailure = (slotOrFailure: CallSlot | ScrapeFailure): slotOrFailure is ScrapeFailure =>
  'kind' in slotOrFailure
