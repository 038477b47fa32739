import type { CloseStack } from '../../kernel/resource-scope.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import { publicOutgoing, type SendLimits, sandboxOutgoing } from '../../platform/outgoing/send.ts'
import { createProvider, defaultProviderLimits, type ProviderAccess } from './provider.ts'
import { type ScraperHealth, startScraperHealth } from './provider-health.ts'
import { createScraperMetrics } from './provider-metrics.ts'
import type { Scraping } from './provider-port.ts'
import { createScraping } from './scraping.ts'
import type { ScraperConfig } from './settings.ts'

/** Answers of half a megabyte are common. Rows that transcribe speech may take sixty seconds. */
const sendLimits: SendLimits = { connectMs: 3_000, requestMs: 65_000, responseBytes: 16_777_216 }

/** The key for the sandbox provider, which accepts any. */
const sandboxKey = 'sandbox'

const sandboxProvider = (baseUrl: string): ProviderAccess => ({
  name: 'sandbox',
  baseUrl,
  apiKey: sandboxKey,
  serves: () => true,
  outgoing: sandboxOutgoing(baseUrl, sendLimits),
})

export type Providers = { readonly scraping: Scraping; readonly health: ScraperHealth }

/**
 * Opens the providers of the scrapers: the configured ones, else the sandbox provider if one runs. Without any, every
 * call answers `upstream_auth_rejected`.
 */
export const openProviders = (
  core: Pick<ServerCore, 'scheduler' | 'pool' | 'clock' | 'logger' | 'monotonicMs' | 'registry'>,
  closing: CloseStack,
  needs: {
    readonly settings: ScraperConfig
    /** Address of the sandbox provider; null if none runs. */
    readonly sandboxUrl: string | null
  },
): Providers => {
  const { clock, monotonicMs, registry, logger } = core
  const { settings, sandboxUrl } = needs
  const { providers, lowCredits } = settings
  const metrics = createScraperMetrics(registry)
  const real = providers.map(
    (one): ProviderAccess => ({ ...one, outgoing: publicOutgoing({ limits: sendLimits }) }),
  )
  const providersInUse = real.length > 0 || sandboxUrl === null ? real : [sandboxProvider(sandboxUrl)]
  const limits = { ...defaultProviderLimits, lowCredits }
  const health = startScraperHealth(core)
  closing.add(health.stop)
  const scraping = createScraping({
    providers: providersInUse.map((access) =>
      createProvider(access, { limits, clock, monotonicMs, random: Math.random, logger, metrics }),
    ),
    monotonicMs,
    metrics,
    onResult: health.note,
  })
  closing.add(scraping.stop)
  return { scraping, health }
}
