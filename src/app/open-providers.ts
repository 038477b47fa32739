import type { Registry } from 'prom-client'
import { createProvider, defaultProviderLimits, type ProviderAccess } from '../features/scrapers/provider.ts'
import { type ScraperHealth, startScraperHealth } from '../features/scrapers/provider-health.ts'
import { createScraperMetrics } from '../features/scrapers/provider-metrics.ts'
import type { Scraping } from '../features/scrapers/provider-port.ts'
import { createScraping } from '../features/scrapers/scraping.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { Core } from '../platform/feature/core.ts'
import { publicOutgoing, type SendLimits, sandboxOutgoing } from '../platform/outgoing/send.ts'
import { scrapersPath } from '../sandbox/scrapers/stand-in.ts'

/** Answers of half a megabyte are common; sixty seconds are given to rows that listen to speech. */
const sendLimits: SendLimits = { connectMs: 3_000, requestMs: 65_000, responseBytes: 16_777_216 }

/** The key of the stand-in, which takes any. */
const sandboxKey = 'sandbox'

const sandboxProvider = (url: string): ProviderAccess => {
  const baseUrl = `${url}${scrapersPath}`
  return {
    name: 'sandbox',
    baseUrl,
    apiKey: sandboxKey,
    serves: () => true,
    outgoing: sandboxOutgoing(baseUrl, sendLimits),
  }
}

/**
 * Opens the providers of the scrapers: those that are configured; else the stand-in where one runs; else none, and every
 * call answers `upstream_auth_rejected`.
 */
export const openProviders = (
  {
    config,
    pool,
    clock,
    logger,
    scheduler,
  }: Pick<Core, 'pool' | 'clock' | 'logger' | 'scheduler'> & {
    readonly config: Pick<Core['config'], 'scrapers'>
  },
  closing: CloseStack,
  parts: {
    /** Where the stand-ins answer; null where none run. */
    readonly sandboxUrl: string | null
    readonly monotonicMs: MonotonicClock
    readonly registry: Registry
  },
): { readonly scraping: Scraping; readonly health: ScraperHealth } => {
  const { monotonicMs, registry, sandboxUrl } = parts
  const { providers, lowCredits } = config.scrapers
  const metrics = createScraperMetrics(registry)
  const real = providers.map(
    (one): ProviderAccess => ({ ...one, outgoing: publicOutgoing({ limits: sendLimits }) }),
  )
  const used = real.length > 0 || sandboxUrl === null ? real : [sandboxProvider(sandboxUrl)]
  const limits = { ...defaultProviderLimits, lowCredits }
  const health = startScraperHealth({ scheduler, pool, clock, monotonicMs })
  closing.add(health.stop)
  const scraping = createScraping({
    providers: used.map((access) =>
      createProvider(access, { limits, monotonicMs, random: Math.random, logger, metrics }),
    ),
    monotonicMs,
    metrics,
    onResult: health.note,
  })
  closing.add(scraping.stop)
  return { scraping, health }
}
