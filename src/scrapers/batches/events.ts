import type { AccountId, KeyId, ScrapeBatchId } from '../../kernel/ids.ts'
import type { DomainEvent } from '../../platform/eventstore/event.ts'

/** What both events of a `batch-{id}` stream say. */
type Batch = {
  readonly batchId: ScrapeBatchId
  readonly accountId: AccountId
  readonly platform: string
  readonly operation: string
  /** How many calls it is. */
  readonly inputs: number
}

/** Calls were taken on. What they ask for stands outside the log: it may name people. */
export type ScrapeBatchAccepted = DomainEvent<
  'ScrapeBatchAccepted',
  Batch & {
    readonly keyId: KeyId
    readonly requestId: string
    /** Of scraper and inputs, SHA-256: what a retry must ask for again. */
    readonly fingerprint: string
  }
>

/** How many of the calls came to what. */
export type BatchTally = {
  readonly found: number
  readonly empty: number
  readonly notFound: number
  readonly restricted: number
  /** All that came to no result, also for want of money. */
  readonly failed: number
}

/** Every call is over. What each cost stands in its own stream and in the ledger. */
export type ScrapeBatchFinished = DomainEvent<
  'ScrapeBatchFinished',
  Batch & BatchTally & { readonly chargedMicros: number }
>

export type ScrapeBatchEvent = ScrapeBatchAccepted | ScrapeBatchFinished
