import type { ScraperRow } from '../../domain/scrapers/scraper.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { CloseStack } from '../../kernel/resource-scope.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import { publicOutgoing, type SendLimits, sandboxOutgoing } from '../../platform/outgoing/send.ts'
import { type Attempt, failure, mayTryAnotherProvider } from './call-provider.ts'
import { type ConcurrencyLimits, createConcurrencySlots } from './concurrency-limits.ts'
import {
  type Admission,
  createProvider,
  defaultProviderLimits,
  type Provider,
  type ProviderAccess,
} from './provider.ts'
import { type ScraperHealth, startScraperHealth } from './provider-health.ts'
import { createScraperMetrics, type ScraperMetrics } from './provider-metrics.ts'
import type { ScrapeFailure, ScrapeOutcome, ScrapeResult, Scraping } from './provider-port.ts'
import type { ScraperConfig } from './settings.ts'

/** Answers of half a megabyte are common. Rows that transcribe speech may take sixty seconds. */
const sendLimits: SendLimits = { connectMs: 3_000, requestMs: 65_000, responseBytes: 16_777_216 }

/** The key for the sandbox provider, which accepts any. */
const sandboxKey = 'sandbox'

const sandboxProvider = (baseUrl: string): ProviderAccess => ({
  name: 'sandbox',
  baseUrl,
  apiKey: sandboxKey,
  serves: ({ source }) => !source.isWithdrawn,
  outgoing: sandboxOutgoing(baseUrl, sendLimits),
})

export type Providers = { readonly scraping: Scraping; readonly health: ScraperHealth }

/**
 * Opens the providers of the scrapers: the configured ones, else the sandbox provider if one runs. Without any, every
 * call answers `scraper_unavailable`.
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

/** Two hundred calls to one slow platform still leave slots for all others. */
export const defaultConcurrencyLimits: ConcurrencyLimits = { perPlatform: 250, total: 1_000 }

/** Added to the time limit of a row, for the last check of the signal. Milliseconds. */
const marginMs = 1_000

export type ScrapingDependencies = {
  /** In order of preference. */
  readonly providers: readonly Provider[]
  readonly concurrency?: ConcurrencyLimits
  readonly monotonicMs: MonotonicClock
  readonly metrics: ScraperMetrics
  /** Called at the end of each call. */
  readonly onResult?: (row: ScraperRow, result: ScrapeResult) => void
}

const outcomeWord = (outcome: ScrapeOutcome): string =>
  outcome.kind === 'failed' ? outcome.code : outcome.kind

type ProviderEntry = { readonly provider: Provider; readonly entry: Admission }

/**
 * All providers behind one interface: a row is fetched from the first working provider that serves it, else from the
 * next.
 */
export const createScraping = ({
  providers,
  concurrency: limits = defaultConcurrencyLimits,
  monotonicMs,
  metrics,
  onResult,
}: ScrapingDependencies): Scraping => {
  const concurrencySlots = createConcurrencySlots(limits)
  const providersFor = (row: ScraperRow): readonly Provider[] => providers.filter(({ serves }) => serves(row))

  /** The first working provider and the ones after it; if none works, the failure of the first. */
  const enterFirst = (
    row: ScraperRow,
    candidates: readonly Provider[],
  ): (ProviderEntry & { readonly others: readonly Provider[] }) | ScrapeFailure => {
    let firstFailure: ScrapeFailure | null = null
    for (const [at, provider] of candidates.entries()) {
      const entry = provider.enter(row)
      if (!('kind' in entry)) return { provider, entry, others: candidates.slice(at + 1) }
      firstFailure ??= entry
    }
    if (firstFailure !== null) return firstFailure
    return failure('scraper_unavailable')
  }

  const finish = (row: ScraperRow, result: ScrapeResult): ScrapeResult => {
    const { outcome, cost } = result
    metrics.callEnded(row.platform, cost.provider, outcomeWord(outcome), cost.tookMs / 1_000)
    if (cost.creditsCharged !== null && cost.creditsCharged > 0)
      metrics.creditsCharged(cost.provider, row.platform, cost.creditsCharged)
    onResult?.(row, result)
    return result
  }

  return {
    admit: (row) => {
      const candidates = providersFor(row)
      const first = enterFirst(row, candidates)
      if ('kind' in first) return first
      if (!concurrencySlots.tryAcquire(row.platform)) {
        first.entry.release()
        return failure('overloaded', 1)
      }
      metrics.callsInProgress(concurrencySlots.taken())
      let isReleased = false
      return {
        call: async (input, { signal }) => {
          const startedMs = monotonicMs()
          const callSignal = AbortSignal.any([signal, AbortSignal.timeout(row.source.timeoutMs)])
          let currentEntry: ProviderEntry = first
          let { others } = first
          for (;;) {
            const attemptResult: Attempt = await currentEntry.entry.fetch(input, { signal: callSignal })
            const next =
              mayTryAnotherProvider(attemptResult) && !callSignal.aborted && others.length > 0
                ? enterFirst(row, others)
                : null
            if (next === null || 'kind' in next) {
              if (currentEntry.provider !== candidates[0]) metrics.failedOver(currentEntry.provider.name)
              const cost = {
                provider: currentEntry.provider.name,
                creditsCharged: attemptResult.creditsCharged,
                tookMs: Math.round(monotonicMs() - startedMs),
              }
              return finish(row, { outcome: attemptResult.outcome, cost })
            }
            others = next.others
            currentEntry = next
          }
        },
        release: () => {
          if (isReleased) return
          isReleased = true
          first.entry.release()
          concurrencySlots.release(row.platform)
          metrics.callsInProgress(concurrencySlots.taken())
        },
      }
    },
    stateOf: (row) => (providersFor(row).length > 0 ? 'live' : 'unavailable'),
    longestMs: (row) => row.source.timeoutMs + marginMs,
    stop: async () => {
      await Promise.all(providers.map((provider) => provider.close()))
    },
  }
}
