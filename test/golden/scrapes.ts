import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import { decideAccept, decideFinish, scrapeBatchRef } from '../../src/domain/scrapers/batches.ts'
import { scrapeFold } from '../../src/domain/scrapers/calls.ts'
import {
  type AttemptEnd,
  decideFinish as decideEnd,
  decideStart,
} from '../../src/domain/scrapers/decide-call.ts'
import { decidePrices, pricesDigest } from '../../src/domain/scrapers/prices.ts'
import { type AccountId, type KeyId, scrapeBatchIdOf, scrapeIdOf } from '../../src/kernel/ids.ts'
import type { KeyCap } from '../../src/kernel/scopes.ts'
import {
  ledgerStream,
  scrapeBatchStream,
  scraperPricesStream,
  scrapeStream,
} from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

const prices = [{ scraper: 'tiktok/profile', priceMicros: 3_000 }]
const digest = pricesDigest(prices)

/** Calls of a key. Each attempt ends at once. */
export const scraperOf =
  ({ write, state, now }: History, accountId: AccountId, keyId: KeyId, cap: KeyCap | null = null) =>
  (requestId: string, ...endings: readonly AttemptEnd[]): void => {
    const scrapeId = scrapeIdOf(accountId, requestId)
    const states = () => ({
      scrape: state(scrapeStream(scrapeId), scrapeFold),
      ledger: state(ledgerStream(accountId), ledgerFold),
    })
    const draft = {
      scrapeId,
      accountId,
      keyId,
      requestId,
      platform: 'tiktok',
      operation: 'profile',
      fingerprint: 'fingerprint',
      priceMicros: 3_000,
      pricesDigest: digest,
      process: 'run_golden',
      leaseMs: 45_000,
      isFree: endings.every(({ cached }) => cached),
      capKeyId: keyId,
      cap,
    }
    for (const [n, ending] of endings.entries()) {
      write(decideStart(states(), draft, now()).appends)
      write(decideEnd(states(), { attempt: n + 1, ending }).appends)
    }
  }

const none = { body: null, cached: false, creditsCharged: null }
const body = { hash: 'ab'.repeat(32), bytes: 1_234 }
export const foundEnd: AttemptEnd = { outcome: 'found', body, cached: false, creditsCharged: 1 }

/** A scrape that is billed, and one that fails and then finds nothing. */
export const makeScrapes = (history: History, accountId: AccountId): void => {
  const { fact, write, state } = history
  fact(scraperPricesStream, ...decidePrices(null, { digest, prices }).events)
  const scrape = scraperOf(history, accountId, 'key_golden' as KeyId)
  scrape('found', foundEnd)
  const batchId = scrapeBatchIdOf(accountId, 'many')
  const batchRequest = {
    batchId,
    accountId,
    keyId: 'key_golden' as KeyId,
    requestId: 'many',
    platform: 'tiktok',
    operation: 'profile',
    fingerprint: 'fingerprint',
    inputs: 2,
  }
  const stream = scrapeBatchStream(batchId)
  const batch = () => state(stream, scrapeBatchRef(batchId).fold)
  const taken = decideAccept(batch(), batchRequest)
  if (taken.outcome === 'decided') write([{ stream, events: taken.events }])
  const tally = {
    found: 1,
    empty: 0,
    notFound: 1,
    restricted: 0,
    failed: 0,
    canceledCalls: 0,
    chargedMicros: 6_000,
  }
  write([{ stream, events: decideFinish(batch(), batchRequest, tally, false).events }])
  scrape('again', { ...foundEnd, cached: true, creditsCharged: 0 })
  scrape('absent', { ...none, outcome: 'provider_failed' }, { ...none, outcome: 'empty', body })
}
