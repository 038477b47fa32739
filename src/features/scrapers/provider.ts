import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { Outgoing } from '../../platform/outgoing/send.ts'
import {
  type Attempt,
  attempt,
  buildProviderRequest,
  failure,
  secondAttemptDelayMs,
} from './call-provider.ts'
import {
  type Breaker,
  createAccountGate,
  createBreaker,
  type ReportCallOutcome,
} from './concurrency-limits.ts'
import type { ScraperMetrics } from './provider-metrics.ts'
import type { ProviderName, ScrapeFailure, ScrapeInput } from './provider-port.ts'

/** Connection data of a provider. */
export type ProviderAccess = {
  readonly name: ProviderName
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly apiKey: string
  /** Whether it serves the row. */
  readonly serves: (row: ScraperRow) => boolean
  readonly outgoing: Outgoing
}

/** When calls to a provider are paused, and for how long. */
export type ProviderLimits = {
  readonly breaker: {
    readonly windowMs: number
    readonly minCalls: number
    readonly failedShare: number
    readonly openMs: number
  }
  /** Pause after a refused account, milliseconds. */
  readonly shutMs: number
  /** Below this number of credits, log and metrics raise an alarm. */
  readonly lowCredits: number
}

/** A platform is paused for 15 seconds after failures of half of at least 20 calls in 30 seconds. */
export const defaultProviderLimits: ProviderLimits = {
  breaker: { windowMs: 30_000, minCalls: 20, failedShare: 0.5, openMs: 15_000 },
  shutMs: 45_000,
  lowCredits: 1_000,
}

export type ProviderDependencies = {
  readonly limits: ProviderLimits
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly random: () => number
  readonly logger: Logger
  readonly metrics: ScraperMetrics
}

/** Admission by a provider's breakers: `fetch` at most once, `release` in every case. */
export type Admission = {
  fetch(input: ScrapeInput, options: { readonly signal: AbortSignal }): Promise<Attempt>
  release(): void
}

export type Provider = {
  readonly name: ProviderName
  serves(row: ScraperRow): boolean
  enter(row: ScraperRow): Admission | ScrapeFailure
  close(): Promise<void>
}

const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000))

/** Whether a platform behind the provider works; null for problems of our account or of the table. */
const isGood = ({ trouble }: Attempt): boolean | null =>
  trouble === 'key' || trouble === 'credits' ? null : trouble === null || trouble === 'drift'

/** Whether the caller canceled the request. Unlike a time-out, this is no failure of the provider. */
const isCanceledByCaller = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && (reason as Error | undefined)?.name !== 'TimeoutError'

/** One provider of the protocol, with its breakers and its account gate. */
export const createProvider = (access: ProviderAccess, dependencies: ProviderDependencies): Provider => {
  const { name, baseUrl, apiKey, outgoing } = access
  const { limits, clock, monotonicMs, random, logger, metrics } = dependencies
  let isLow = false

  const breakerOf = (what: string): Breaker =>
    createBreaker({
      ...limits.breaker,
      monotonicMs,
      onChange: (isOpen) => {
        metrics.breaker(name, what, isOpen)
        if (isOpen)
          logger.warn({ provider: name, platform: what }, 'scrapers fail: nothing is fetched for a while')
        else logger.info({ provider: name, platform: what }, 'scrapers are fetched again')
      },
    })
  const platforms = new Map<string, Breaker>()
  const platform = (platformName: string): Breaker => {
    const known = platforms.get(platformName)
    if (known) return known
    const made = breakerOf(platformName)
    platforms.set(platformName, made)
    return made
  }
  const providerBreaker = breakerOf('all')

  const noteCredits = (remainingCredits: number): void => {
    metrics.creditsLeft(name, remainingCredits)
    if (remainingCredits < limits.lowCredits && !isLow)
      logger.error(
        { provider: name, creditsLeft: remainingCredits },
        'the credits at a provider of scrapers run low: buy more',
      )
    isLow = remainingCredits < limits.lowCredits
  }
  const balance = async (): Promise<boolean> => {
    const { status, text } = await outgoing.send(`${baseUrl}/v1/account/credit-balance`, {
      headers: { 'x-api-key': apiKey, accept: 'application/json' },
      signal: AbortSignal.timeout(10_000),
    })
    const { creditCount } = JSON.parse(await text()) as { creditCount?: unknown }
    if (typeof creditCount === 'number') noteCredits(creditCount)
    return status === 200 && typeof creditCount === 'number' && creditCount > 0
  }
  const accountGate = createAccountGate({
    monotonicMs,
    shutMs: limits.shutMs,
    isGood: balance,
    onChange: (trouble) => {
      metrics.account(name, trouble === null)
      if (trouble === null) logger.info({ provider: name }, 'the provider of scrapers takes calls again')
      else logger.error({ provider: name, trouble }, 'the provider of scrapers refuses our account')
    },
  })

  const learn = (row: ScraperRow, made: Attempt): void => {
    const { trouble, creditsLeft, creditsCharged, status, fault } = made
    if (trouble === 'key' || trouble === 'credits') accountGate.close(trouble)
    if (creditsLeft !== null) noteCredits(creditsLeft)
    const scraper = rowName(row)
    if (trouble === 'drift')
      logger.warn({ provider: name, scraper, status }, 'a scraper is not as the table has it')
    if (creditsCharged !== null && creditsCharged > row.source.maxCredits)
      logger.error({ provider: name, scraper, creditsCharged }, 'a scraper cost more than the table has it')
    if (fault !== null) logger.debug({ provider: name, scraper, fault }, 'a scraper was not answered')
  }

  const fetchWith = async (
    row: ScraperRow,
    input: ScrapeInput,
    options: { readonly signal: AbortSignal },
  ): Promise<Attempt> => {
    const what = { row, input, request: buildProviderRequest(row, input) }
    const sendOptions = { send: outgoing.send, baseUrl, apiKey, signal: options.signal, clock }
    const first = await attempt(what, sendOptions)
    learn(row, first)
    const waitMs = secondAttemptDelayMs(row, first, random)
    if (waitMs === null) return first
    const waited = await sleep(waitMs, true, { signal: options.signal }).catch(() => false)
    if (!waited) return first
    metrics.retried(name)
    const second = await attempt(what, sendOptions)
    learn(row, second)
    return second
  }

  return {
    name,
    serves: access.serves,
    enter: (row) => {
      const problem = accountGate.problem()
      if (problem) return problem
      const platformBreaker = platform(row.platform)
      const reports: ReportCallOutcome[] = []
      for (const breaker of [providerBreaker, platformBreaker]) {
        const pass = breaker.enter()
        if (pass === null) {
          for (const cancelReport of reports) cancelReport(null)
          return failure('provider_failed', secondsOf(breaker.waitMs()))
        }
        reports.push(pass)
      }
      const [reportToProvider, reportToPlatform] = reports
      let isReported = false
      const reportOnce = (made: Attempt | null): void => {
        if (isReported) return
        isReported = true
        reportToProvider?.(made === null ? null : made.trouble !== 'unsent')
        reportToPlatform?.(made === null ? null : isGood(made))
      }
      return {
        fetch: async (input, options) => {
          const made = await fetchWith(row, input, options)
          reportOnce(isCanceledByCaller(options.signal) && made.status === null ? null : made)
          return made
        },
        release: () => reportOnce(null),
      }
    },
    close: outgoing.close,
  }
}
