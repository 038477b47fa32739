import type { TestContext } from 'node:test'
import pino from 'pino'
import { Registry } from 'prom-client'
import type { InputValue, ScraperRow } from '../../../src/domain/scrapers/scraper.ts'
import { scraperOf } from '../../../src/domain/scrapers/scraper-table.ts'
import type { ConcurrencyLimits } from '../../../src/features/scrapers/concurrency-limits.ts'
import { createScraping } from '../../../src/features/scrapers/open-providers.ts'
import {
  createProvider,
  defaultProviderLimits,
  type ProviderLimits,
} from '../../../src/features/scrapers/provider.ts'
import { createScraperMetrics } from '../../../src/features/scrapers/provider-metrics.ts'
import {
  isScrapeFailure,
  type ProviderName,
  type ScrapeResult,
} from '../../../src/features/scrapers/provider-port.ts'
import { type SendLimits, sandboxOutgoing } from '../../../src/platform/outgoing/send.ts'
import { startSandbox } from '../../../src/sandbox/sandbox-server.ts'
import type { JournalCall } from '../../../src/sandbox/scrapers/scraper-request.ts'
import { memoryRecords } from '../../support/memory-records.ts'

/** A separate stand-in with its journal. */
export const openStandIn = async (t: TestContext) => {
  const sandbox = await startSandbox({ records: memoryRecords(), clock: Date.now, port: 0 })
  t.after(sandbox.close)
  const url = `${sandbox.baseUrl}/_sandbox/scrapers`
  return {
    baseUrl: `${sandbox.baseUrl}/scrapecreators`,
    journal: async () =>
      (await (await fetch(`${url}/journal`)).json()) as {
        total: number
        mostAtOnce: number
        creditsCharged: number
        calls: JournalCall[]
      },
    clear: () => fetch(`${url}/journal`, { method: 'DELETE' }),
    setCredits: (key: string, credits: number) =>
      fetch(`${url}/keys`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key, credits }),
      }),
  }
}
export type StandIn = Awaited<ReturnType<typeof openStandIn>>

const sendLimits: SendLimits = { connectMs: 3_000, requestMs: 65_000, responseBytes: 1_048_576 }

/** Lines of the log, as objects. */
export const loggedTo = (lines: Record<string, unknown>[]) =>
  pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) })

/** The adapter over stand-ins, in the given order. */
export const openScraping = (
  t: TestContext,
  providers: readonly {
    readonly name: ProviderName
    readonly baseUrl: string
    readonly apiKey?: string
    readonly serves?: (row: ScraperRow) => boolean
  }[],
  options: {
    readonly limits?: Partial<ProviderLimits>
    readonly places?: ConcurrencyLimits
    readonly monotonicMs?: () => number
  } = {},
) => {
  const lines: Record<string, unknown>[] = []
  const registry = new Registry()
  const metrics = createScraperMetrics(registry)
  const monotonicMs = options.monotonicMs ?? (() => performance.now())
  const scraping = createScraping({
    providers: providers.map(({ name, baseUrl, apiKey = 'test-key', serves = () => true }) =>
      createProvider(
        { name, baseUrl, apiKey, serves, outgoing: sandboxOutgoing(baseUrl, sendLimits) },
        {
          limits: { ...defaultProviderLimits, ...options.limits },
          clock: Date.now,
          monotonicMs,
          random: () => 0,
          logger: loggedTo(lines),
          metrics,
        },
      ),
    ),
    ...(options.places && { concurrency: options.places }),
    monotonicMs,
    metrics,
  })
  t.after(scraping.stop)
  /** One call, as the service makes it. */
  const call = async (
    row: ScraperRow,
    input: Readonly<Record<string, InputValue>>,
    more: { readonly signal?: AbortSignal } = {},
  ): Promise<ScrapeResult> => {
    const admitted = scraping.admit(row)
    if (isScrapeFailure(admitted))
      return { outcome: admitted, cost: { provider: 'first', creditsCharged: null, tookMs: 0 } }
    try {
      return await admitted.call(input, { signal: AbortSignal.timeout(60_000), ...more })
    } finally {
      admitted.release()
    }
  }
  return { scraping, call, lines, registry }
}

/** A row that a test is about. */
export const row = (name: string): ScraperRow => {
  const [platform = '', operation = ''] = name.split('/')
  const found = scraperOf(platform, operation)
  if (!found) throw new Error(`no row ${name}`)
  return found
}

/** The examples of a row's fields: all of them but positions, and one of each group that needs one. */
export const exampleOf = (of: ScraperRow): Readonly<Record<string, InputValue>> =>
  Object.fromEntries(
    of.inputs
      .filter(({ kind, required }) => required || (kind !== 'position' && kind !== 'page'))
      .map(({ name, example }) => [name, example]),
  )
