import type { AccountId, KeyId, ScrapeBatchId } from '../../kernel/ids.ts'
import { type EventOf, fact } from '../../platform/eventstore/fact.ts'
import { id, micros, type ShapeValue, text, whole } from '../../terms/fields.ts'

const stream = 'batch-{batch}'

/** What both events of a `batch-{id}` stream say. */
const batch = {
  batchId: id<ScrapeBatchId>('scb', 'the batch'),
  accountId: id<AccountId>('acc', 'who pays'),
  platform: text('e.g. `tiktok`'),
  operation: text('e.g. `profile`'),
  inputs: whole('calls', 'above 0', 'how many calls it is'),
}

export const scrapeBatchAccepted = fact('ScrapeBatchAccepted', {
  stream,
  means: 'Calls were taken on. What they ask for stands outside the log: it may name people.',
  fields: {
    ...batch,
    keyId: id<KeyId>('key', 'the key that asked'),
    requestId: text('the `X-Request-Id`'),
    fingerprint: text('SHA-256 of scraper and inputs: what a retry must ask for again'),
  },
})
export type ScrapeBatchAccepted = EventOf<typeof scrapeBatchAccepted>

const tallyFields = {
  found: whole('calls', '0 or more', 'that found what they asked for'),
  empty: whole('calls', '0 or more', 'that found nothing there'),
  notFound: whole('calls', '0 or more', 'whose target does not exist'),
  restricted: whole('calls', '0 or more', 'whose target is not public'),
  failed: whole('calls', '0 or more', 'that came to no result, also for want of money'),
}
/** How many of the calls came to what. */
export type BatchTally = ShapeValue<typeof tallyFields>

export const scrapeBatchFinished = fact('ScrapeBatchFinished', {
  stream,
  means: 'Every call is over. What each cost stands in its own stream and in the ledger.',
  fields: { ...batch, ...tallyFields, chargedMicros: micros('0 or more', 'what all of them cost') },
})
export type ScrapeBatchFinished = EventOf<typeof scrapeBatchFinished>

export const scrapeBatchFacts = [scrapeBatchAccepted, scrapeBatchFinished] as const
export type ScrapeBatchEvent = EventOf<(typeof scrapeBatchFacts)[number]>
