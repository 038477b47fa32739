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
import {
  ledgerStream,
  scrapeBatchStream,
  scraperPricesStream,
  scrapeStream,
} from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

/** A scrape that is billed, and one that fails and then finds nothing. */
export const makeScrapes = ({ fact, write, state, now }: History, accountId: AccountId): void => {
  const prices = [{ scraper: 'tiktok/profile', priceMicros: 3_000 }]
  const digest = pricesDigest(prices)
  fact(scraperPricesStream, ...decidePrices(null, { digest, prices }).events)
  const scrape = (requestId: string, ...endings: readonly AttemptEnd[]): void => {
    const scrapeId = scrapeIdOf(accountId, requestId)
    const states = () => ({
      scrape: state(scrapeStream(scrapeId), scrapeFold),
      ledger: state(ledgerStream(accountId), ledgerFold),
    })
    const draft = {
      scrapeId,
      accountId,
      keyId: 'key_golden' as KeyId,
      requestId,
      platform: 'tiktok',
      operation: 'profile',
      fingerprint: 'fingerprint',
      priceMicros: 3_000,
      pricesDigest: digest,
      leaseMs: 45_000,
    }
    for (const [n, ending] of endings.entries()) {
      write(decideStart(states(), draft, now()).appends)
      write(decideEnd(states(), { attempt: n + 1, ending }).appends)
    }
  }
  const none = { body: null, cached: false, creditsCharged: null }
  const body = { hash: 'ab'.repeat(32), bytes: 1_234 }
  scrape('found', { outcome: 'found', body, cached: false, creditsCharged: 1 })
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
  const tally = { found: 1, empty: 0, notFound: 1, restricted: 0, failed: 0, chargedMicros: 6_000 }
  write([{ stream, events: decideFinish(batch(), batchRequest, tally, false).events }])
  scrape('absent', { ...none, outcome: 'provider_failed' }, { ...none, outcome: 'empty', body })
}
