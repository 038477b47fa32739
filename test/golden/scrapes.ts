import { type AccountId, type KeyId, scrapeIdOf } from '../../src/kernel/ids.ts'
import { ledgerFold } from '../../src/money/ledger/fold.ts'
import { decideFinish, decideStart, type Ending } from '../../src/scrapers/calls/decide.ts'
import { scrapeFold } from '../../src/scrapers/calls/fold.ts'
import { ledgerStream, scrapeStream } from '../../src/terms/streams.ts'
import type { History } from './acts.ts'

/** A scrape that is billed, and one that fails and then finds nothing. */
export const makeScrapes = ({ write, state, now }: History, accountId: AccountId): void => {
  const scrape = (requestId: string, ...endings: readonly Ending[]): void => {
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
      leaseMs: 45_000,
    }
    for (const [n, ending] of endings.entries()) {
      write(decideStart(states(), draft, now()).appends)
      write(decideFinish(states(), { attempt: n + 1, ending }).appends)
    }
  }
  const none = { body: null, cached: false, creditsCharged: null }
  const body = { hash: 'ab'.repeat(32), bytes: 1_234 }
  scrape('found', { outcome: 'found', body, cached: false, creditsCharged: 1 })
  scrape('absent', { ...none, outcome: 'provider_failed' }, { ...none, outcome: 'empty', body })
}
