import type { Closing } from '../kernel/closing.ts'
import type { CrashHooks } from '../kernel/crash.ts'
import { type BatchItems, createBatchItems } from '../scrapers/batches/items.ts'
import { createScrapeBatches, type ScrapeBatches } from '../scrapers/batches/service.ts'
import { createScrapeRate, type TakeScrape } from '../scrapers/calls/rate.ts'
import { createResults, type Results } from '../scrapers/calls/results.ts'
import { createScrapes, type Scrapes } from '../scrapers/calls/service.ts'
import type { ScraperHealth } from '../scrapers/provider/health.ts'
import type { Scraping } from '../scrapers/provider/port.ts'
import type { Core } from './core.ts'

/** The scrapers, as this process has them. */
export type Scrapers = {
  readonly scraping: Scraping
  readonly health: ScraperHealth
  readonly scrapes: Scrapes
  readonly batches: ScrapeBatches
  readonly batchItems: BatchItems
  readonly results: Results
  /** Null where limits are switched off. */
  readonly rate: TakeScrape | null
}

/** Opens what makes calls of scrapers; they are over before it is closed. */
export const openScrapers = (
  core: Core,
  closing: Closing,
  {
    hooks,
    scraping,
    health,
  }: { readonly hooks: CrashHooks; readonly scraping: Scraping; readonly health: ScraperHealth },
): Scrapers => {
  const { config, pool, log, clock } = core
  const results = createResults({ pool, clock, isLogHere: config.eventStoreUrl === null })
  const scrapes = createScrapes({ ...core, log, results, scraping, hooks })
  closing.add(scrapes.stop)
  const batchItems = createBatchItems({ pool, clock })
  return {
    scraping,
    health,
    scrapes,
    batches: createScrapeBatches({ ...core, log, items: batchItems, results }),
    batchItems,
    results,
    rate: config.rates && createScrapeRate(pool, config.rates.scrapes),
  }
}
