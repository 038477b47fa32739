import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ScrapeEvent, ScrapeFinished, ScrapeOutcome } from '../src/scrapers/calls/events.ts'
import type { ReadModel, Table } from './engine/read-model.ts'

/** What one key of an account made of one scraper on one day (UTC): tries that are over, by what came of them. */
export type ScrapeUsageRow = {
  readonly account_id: string
  /** `2026-11-21` */
  readonly day: string
  readonly platform: string
  readonly operation: string
  /** Empty where no key asked. */
  readonly key_id: string
  readonly billed: number
  readonly found: number
  readonly empty: number
  readonly not_found: number
  readonly restricted: number
  /** All that was no result: refused, failed or interrupted. */
  readonly failed: number
  /** Of those that were found, answers from the provider's cache. */
  readonly cached: number
  readonly charged_micros: number
  /** What providers said that they charged, in their credits. */
  readonly credits: number
}

export const scrapeUsageTable: Table<ScrapeUsageRow> = {
  name: 'scrape_usage',
  columns: {
    account_id: { type: 'text' },
    day: { type: 'text' },
    platform: { type: 'text' },
    operation: { type: 'text' },
    key_id: { type: 'text' },
    billed: { type: 'bigint' },
    found: { type: 'bigint' },
    empty: { type: 'bigint' },
    not_found: { type: 'bigint' },
    restricted: { type: 'bigint' },
    failed: { type: 'bigint' },
    cached: { type: 'bigint' },
    charged_micros: { type: 'bigint' },
    credits: { type: 'bigint' },
  },
  key: ['account_id', 'day', 'platform', 'operation', 'key_id'],
  // What all accounts cost and brought.
  indexes: ['day, platform'],
  rewritten: true,
}

type Count = 'found' | 'empty' | 'not_found' | 'restricted' | 'failed'

const counts: Partial<Record<ScrapeOutcome, Count>> = {
  found: 'found',
  empty: 'empty',
  target_not_found: 'not_found',
  target_restricted: 'restricted',
}

const isFinished = (event: RecordedEvent): event is RecordedEvent<ScrapeFinished> =>
  (event as RecordedEvent<ScrapeEvent>).type === 'ScrapeFinished'

const keyOf = ({ data, metadata }: RecordedEvent<ScrapeFinished>) => {
  const { accountId, platform, operation, keyId } = data
  return [accountId, metadata.recordedAt.slice(0, 10), platform, operation, keyId ?? ''] as const
}

const nothingYet = (event: RecordedEvent<ScrapeFinished>): ScrapeUsageRow => {
  const [account_id, day, platform, operation, key_id] = keyOf(event)
  const none = { billed: 0, found: 0, empty: 0, not_found: 0, restricted: 0, failed: 0, cached: 0 }
  return { account_id, day, platform, operation, key_id, ...none, charged_micros: 0, credits: 0 }
}

/** Calls of scrapers, counted by account, day, scraper and key. */
export const scrapeUsage: ReadModel = {
  name: 'scrape-usage',
  version: 2,
  tables: [scrapeUsageTable],
  reads: (event) => (isFinished(event) ? [{ table: scrapeUsageTable.name, key: keyOf(event) }] : []),
  apply: (event, rows) => {
    if (!isFinished(event)) return
    const { outcome, billed, amountMicros, cached, creditsCharged } = event.data
    const row = rows.get(scrapeUsageTable, keyOf(event)) ?? nothingYet(event)
    const count = counts[outcome] ?? 'failed'
    rows.put(scrapeUsageTable, {
      ...row,
      [count]: row[count] + 1,
      billed: row.billed + (billed ? 1 : 0),
      cached: row.cached + (cached ? 1 : 0),
      charged_micros: row.charged_micros + amountMicros,
      credits: row.credits + (creditsCharged ?? 0),
    })
  },
}
