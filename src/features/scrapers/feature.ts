import { scrapers as rows } from '../../domain/scrapers/scraper-table.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Rate } from '../../platform/http/rate-limiter.ts'
import { createBatchItems } from './batch-items.ts'
import { scrapeBatchRoutes } from './batch-routes.ts'
import { createScrapeBatches } from './batch-service.ts'
import { startBatchWorker } from './batch-worker.ts'
import { startScrapeSweeper } from './call-commands.ts'
import { announceCallOwner } from './call-owner.ts'
import { createScrapeRate } from './call-rate.ts'
import { openProviders } from './open-providers.ts'
import { playgroundPages } from './playground-pages.ts'
import { operationRoutes, scrapeRoutes } from './routes.ts'
import { createScrapes } from './scrape.ts'
import { scrapeFinanceRoutes, scrapeUsageRoutes } from './scrape-usage-routes.ts'
import { scraperListRoutes } from './scraper-list-routes.ts'
import { scrapeBatchPages, scraperPages, scrapeUsagePages } from './scraper-pages.ts'
import type { ScraperConfig } from './settings.ts'
import { createResults } from './stored-results.ts'

// For the list of workers (src/app/worker-list.ts).
export { batchWorker } from './batch-worker.ts'
export { scrapeSweeper } from './call-commands.ts'
export { scraperHealth } from './provider-health.ts'

type ScrapersFeature = Feature & {
  readonly batchRoutes: NonNullable<Feature['routes']>
  readonly financeRoutes: NonNullable<Feature['routes']>
  /** A separate operation for each scraper, for the interface description. */
  readonly operations: NonNullable<Feature['routes']>
  /** The number of scrapers that a provider currently serves. */
  readonly liveCount: () => number
}

export const open = (
  core: ServerCore,
  needs: {
    readonly settings: ScraperConfig
    /** Rate limit of one account; null: limits are off. */
    readonly callRate: Rate | null
    /** Address of the sandbox provider; null if none runs. */
    readonly sandboxUrl: string | null
  },
): ScrapersFeature => {
  const { pool, log, clock, runner, bookReads, monotonicMs, isLogInPostgres } = core
  const { settings, callRate } = needs
  const { scraping, health } = openProviders(core, core.closing, needs)
  const results = createResults({ pool, clock, isLogHere: isLogInPostgres })
  const owner = announceCallOwner(core)
  core.closing.add(owner.stop)
  const scrapes = createScrapes({ ...core, results, scraping, owner })
  core.closing.add(scrapes.stop)
  const items = createBatchItems({ pool, clock, keys: core.keys })
  const batches = createScrapeBatches({ ...core, items, scrapes })
  const rate = callRate && createScrapeRate(pool, callRate)
  const calls = scrapeRoutes({ scrapes, clock, rate })
  return {
    batchRoutes: [...scrapeBatchRoutes({ batches, rate }), ...scrapeUsageRoutes({ pool, reads: bookReads })],
    financeRoutes: scrapeFinanceRoutes({
      pool,
      log,
      progress: core.projecting.progress,
      creditMicros: settings.creditMicros,
    }),
    routes: [...calls, ...scraperListRoutes({ scraping, health, monotonicMs })],
    operations: calls.flatMap(operationRoutes),
    liveCount: () => rows.filter((row) => scraping.stateOf(row) === 'live').length,
    pages: [
      ...scraperPages({ scraping, health }),
      ...scrapeUsagePages({ pool, bookReads }),
      ...scrapeBatchPages({ batches, batchItems: items }),
      ...playgroundPages({ scraping, health, scrapes, rate }),
    ],
    workers: [
      ({ workers }) => startBatchWorker({ scrapes, rate, items, workers, pool, runner, clock }),
      () => startScrapeSweeper({ ...core, results }),
    ],
  }
}
