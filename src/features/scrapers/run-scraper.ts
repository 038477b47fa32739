import { Registry } from 'prom-client'
import { acceptedOf } from '../../domain/scrapers/check-input.ts'
import { findScrapers } from '../../domain/scrapers/find-scrapers.ts'
import { rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { platforms, scraperOf } from '../../domain/scrapers/scraper-table.ts'
import { parseDollarsToMicros } from '../../kernel/money.ts'
import { closeAfter } from '../../kernel/resource-scope.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import {
  CliMisuse,
  type CliOutput,
  CliRefusal,
  fields,
  type ListOutput,
  table,
} from '../../platform/cli/output.ts'
import { openProviders, type Providers } from './open-providers.ts'
import { isScrapeFailure } from './provider-port.ts'
import { answerDetails } from './sample-answer.ts'
import { inputOf } from './scrape.ts'
import { scraperView } from './scraper-schemas.ts'
import type { ScraperConfig } from './settings.ts'

const rowNamed = (name: string): ScraperRow => {
  const [platform = '', operation = ''] = name.split('/')
  const row = scraperOf(platform, operation)
  if (row === null)
    throw new CliMisuse(
      `there is no scraper ${name}; "scrapers list" has them all, e.g. tiktok/profile`,
      {},
      'unknown_scraper',
    )
  return row
}

/** The providers of a server with the same settings. */
export type ScraperAccess = {
  readonly settings: ScraperConfig
  /** Address of the sandbox provider; null if none runs. */
  readonly sandboxUrl: string | null
}

/** Runs work with the providers of a server with these settings. */
const withProviders = <Value>(
  access: ScraperAccess,
  context: CliContext,
  work: (opened: Providers) => Promise<Value>,
): Promise<Value> =>
  closeAfter((closing) =>
    work(
      openProviders(
        { ...context, monotonicMs: () => performance.now(), registry: new Registry() },
        closing,
        access,
      ),
    ),
  )

const percent = (share: number | null): string => (share === null ? '-' : `${(share * 100).toFixed(1)} %`)
const seconds = (ms: number | null): string => (ms === null ? '-' : `${(ms / 1000).toFixed(1)} s`)

/** A scraper in the table. */
type Listed = {
  readonly name: string
  readonly price: string
  readonly state: string
  readonly calls: number
  readonly good: string
  readonly p50: string
  readonly p95: string
  readonly lastGoodAt: string | null
}

type ListInput = {
  readonly platform?: string
  readonly search?: string
  readonly field?: string
  readonly maxPrice?: string
}

/** All scrapers with state and health; with `health`, only those called in the last 24 hours. */
const listed =
  (health: boolean) =>
  async (
    access: ScraperAccess,
    context: CliContext,
    { platform, search, field, maxPrice }: ListInput,
  ): Promise<ListOutput<Listed>> => {
    const maxPriceMicros = maxPrice === undefined ? undefined : parseDollarsToMicros(maxPrice)
    if (maxPriceMicros === null) throw new CliMisuse('--max-price must be dollars such as 0.005')
    if (platform !== undefined && !platforms.includes(platform))
      throw new CliMisuse(`there is no platform ${platform}; there are ${platforms.join(', ')}`)
    return withProviders(access, context, async ({ scraping, health: healthReader }) => {
      const healths = await healthReader.read()
      const views = findScrapers({ words: search, field, maxPriceMicros })
        .filter((row) => platform === undefined || row.platform === platform)
        .map((row) => ({ row, view: scraperView(row, scraping.stateOf(row), healths.get(rowName(row))) }))
        .filter(({ view }) => !health || view.health.calls > 0)
      return {
        json: { scrapers: views.map(({ view }) => view), total: views.length },
        rows: views.map(({ row, view: { priceUsd, state, health } }) => ({
          name: rowName(row),
          price: `$${priceUsd}`,
          state,
          calls: health.calls,
          good: percent(health.successShare),
          p50: seconds(health.p50Ms),
          p95: seconds(health.p95Ms),
          lastGoodAt: health.lastGoodAt,
        })),
      }
    })
  }

export const list = listed(false)
export const health = listed(true)

/** Prints a scraper with its fields. */
export const show = async (
  access: ScraperAccess,
  context: CliContext,
  { scraper }: { readonly scraper: string },
): Promise<CliOutput> => {
  const row = rowNamed(scraper)
  return withProviders(access, context, async ({ scraping, health }) => {
    const view = scraperView(row, scraping.stateOf(row), (await health.read()).get(rowName(row)))
    const { source } = row
    const inputs = table(row.inputs, {
      field: 'name',
      needed: ({ required }) => (required ? 'yes' : 'no'),
      is: acceptedOf,
    })
    const details = answerDetails(row)
    const answer = table(details.dataFields, {
      'field of the answer': 'path',
      type: 'type',
      meaning: ({ meaning, unit }) => (unit === null ? meaning : `${meaning} (${unit})`),
    })
    return {
      json: { ...view, ...details, credits: source.credits, maxCredits: source.maxCredits },
      text: `${fields({
        scraper: rowName(row),
        what: row.summary,
        price: `$${view.priceUsd}`,
        state: view.state,
        'credits a call':
          source.maxCredits > source.credits ? `${source.credits} to ${source.maxCredits}` : source.credits,
        'given up after': seconds(source.timeoutMs),
        'calls of 24 hours': view.health.calls,
        good: percent(view.health.successShare),
        'last good call': view.health.lastGoodAt,
      })}\n\n${inputs}\n\n${answer}`,
    }
  })
}

const parseInput = (text: string | undefined, row: ScraperRow): Readonly<Record<string, unknown>> => {
  if (text === undefined) return scraperView(row, 'live', undefined).example
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Readonly<Record<string, unknown>>
  } catch {
    // Reported below with the same message as JSON that is not an object.
  }
  throw new CliMisuse(
    `--input must be a JSON object such as '${JSON.stringify(scraperView(row, 'live', undefined).example)}'`,
  )
}

/** Calls the provider like a normal call. No wallet is charged. */
export const tryOut = async (
  access: ScraperAccess,
  context: CliContext,
  { scraper, input: inputJson }: { readonly scraper: string; readonly input?: string },
): Promise<CliOutput> => {
  const row = rowNamed(scraper)
  const body = parseInput(inputJson, row)
  const input = inputOf(row, body)
  return withProviders(access, context, async ({ scraping }) => {
    const slot = scraping.admit(row)
    if (isScrapeFailure(slot))
      throw new CliRefusal(slot.code, `${rowName(row)} cannot be called now: ${slot.code}`)
    try {
      const { outcome, cost } = await slot.call(input, {
        signal: AbortSignal.timeout(scraping.longestMs(row)),
      })
      const outputFields = {
        scraper: rowName(row),
        outcome: outcome.kind === 'failed' ? outcome.code : outcome.kind,
        provider: cost.provider,
        credits: cost.creditsCharged,
        seconds: Math.round(cost.tookMs) / 1000,
      }
      const data = 'data' in outcome ? outcome.data : null
      return {
        json: { ...outputFields, input, data },
        text: `${fields(outputFields)}${data === null ? '' : `\n\n${JSON.stringify(data, null, 2)}`}`,
        failed: outcome.kind === 'failed',
      }
    } finally {
      slot.release()
    }
  })
}
