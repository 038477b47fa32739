import type { CrashHooks } from '../../kernel/crash-points.ts'
import type { CloseStack } from '../../kernel/resource-scope.ts'
import type { Core } from '../../platform/feature/core.ts'
import { type BatchItems, createBatchItems } from './batch-items.ts'
import { createScrapeBatches, type ScrapeBatches } from './batch-service.ts'
import { createScrapeRate, type TakeScrape } from './call-rate.ts'
import type { ScraperHealth } from './provider-health.ts'
import type { Scraping } from './provider-port.ts'
import { createScrapes, type Scrapes } from './scrape.ts'
import { createResults, type Results } from './stored-results.ts'

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
  closing: CloseStack,
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
