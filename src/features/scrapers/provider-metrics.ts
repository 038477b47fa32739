import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ProviderName } from './provider-port.ts'

/** Metrics of the scraper providers. Labels contain no customer and no target. */
export type ScraperMetrics = {
  /** A call ended. @param outcome the kind of the outcome, or the code of a failure */
  callEnded(platform: string, provider: ProviderName, outcome: string, seconds: number): void
  retried(provider: ProviderName): void
  /** The row was fetched from another provider than the preferred one. */
  failedOver(provider: ProviderName): void
  breaker(provider: ProviderName, platform: string, isOpen: boolean): void
  account(provider: ProviderName, isGood: boolean): void
  creditsLeft(provider: ProviderName, credits: number): void
  creditsCharged(provider: ProviderName, platform: string, credits: number): void
  callsInProgress(calls: number): void
}

const buckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export const createScraperMetrics = (registry: Registry): ScraperMetrics => {
  const registers = [registry]
  const callEnded = new Counter({
    name: 'farebox_scraper_calls_total',
    help: 'Calls of scrapers that were let through, by platform, provider and what they came to.',
    labelNames: ['platform', 'provider', 'outcome'] as const,
    registers,
  })
  const seconds = new Histogram({
    name: 'farebox_scraper_call_duration_seconds',
    help: 'How long the providers took for a call, with every second try.',
    labelNames: ['platform'] as const,
    buckets,
    registers,
  })
  const retries = new Counter({
    name: 'farebox_scraper_second_tries_total',
    help: 'Requests that were sent a second time because the first cannot have been charged.',
    labelNames: ['provider'] as const,
    registers,
  })
  const failovers = new Counter({
    name: 'farebox_scraper_takeovers_total',
    help: 'Calls that this provider fetched after another one could not.',
    labelNames: ['provider'] as const,
    registers,
  })
  const breaker = new Gauge({
    name: 'farebox_scraper_breaker_open',
    help: '1 while calls of this platform to a provider are stopped because too many failed; all: the provider cannot be reached.',
    labelNames: ['provider', 'platform'] as const,
    registers,
  })
  const account = new Gauge({
    name: 'farebox_scraper_account_refused',
    help: '1 while a provider refuses our key or has no credits of ours.',
    labelNames: ['provider'] as const,
    registers,
  })
  const creditsGauge = new Gauge({
    name: 'farebox_scraper_credits_left',
    help: 'Our remaining credits at a provider, from its last answer.',
    labelNames: ['provider'] as const,
    registers,
  })
  const charged = new Counter({
    name: 'farebox_scraper_credits_charged_total',
    help: 'Credits that a provider said it charged us.',
    labelNames: ['provider', 'platform'] as const,
    registers,
  })
  const runningCalls = new Gauge({
    name: 'farebox_scraper_calls_under_way',
    help: 'Calls of scrapers that hold a place now.',
    registers,
  })
  return {
    callEnded: (platform, provider, outcome, took) => {
      callEnded.inc({ platform, provider, outcome })
      seconds.observe({ platform }, took)
    },
    retried: (provider) => retries.inc({ provider }),
    failedOver: (provider) => failovers.inc({ provider }),
    breaker: (provider, platform, isOpen) => breaker.set({ provider, platform }, isOpen ? 1 : 0),
    account: (provider, isGood) => account.set({ provider }, isGood ? 0 : 1),
    creditsLeft: (provider, credits) => creditsGauge.set({ provider }, credits),
    creditsCharged: (provider, platform, credits) => charged.inc({ provider, platform }, credits),
    callsInProgress: (calls) => runningCalls.set(calls),
  }
}
