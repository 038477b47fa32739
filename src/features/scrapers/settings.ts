import { z } from 'zod'
import { rowName, type ScraperRow } from '../../domain/scrapers/scraper.ts'
import { platforms, scraperOf } from '../../domain/scrapers/scraper-table.ts'
import { trimEnd } from '../../kernel/formats.ts'
import { parseDollarsToMicros } from '../../kernel/money.ts'
import { parseTarget } from '../../platform/outgoing/target.ts'

const text = (expected: string) => z.string({ error: expected })

const isPublic = (value: string): boolean => {
  try {
    const { search, hash } = parseTarget(value, { allowLoopback: false })
    return search === '' && hash === ''
  } catch {
    return false
  }
}

const addressExpected = 'an https address of the public internet, e.g. https://api.example.com'
const address = text(addressExpected)
  .refine(isPublic, addressExpected)
  .transform((url) => trimEnd(url, '/'))

const keyExpected = 'a text of 1 to 200 printable characters without spaces'
const apiKey = text(keyExpected).regex(/^[!-~]{1,200}$/, keyExpected)

const isRowPattern = (word: string): boolean => {
  if (word === '*') return true
  const [platform = '', operation] = word.split('/')
  return operation === undefined ? platforms.includes(platform) : scraperOf(platform, operation) !== null
}

const rowsExpected =
  'names separated by commas, each a platform (tiktok), a scraper (tiktok/popular-hashtags) or *'
const rows = text(rowsExpected).transform((value, context): readonly string[] => {
  const words = value.split(',').map((word) => word.trim())
  if (words.every(isRowPattern)) return words
  context.addIssue(rowsExpected)
  return z.NEVER
})

const creditsExpected = 'a whole number from 0 to 1000000000'

const creditExpected = 'dollars above 0 with at most six decimals, e.g. 0.00188'
const credit = text(creditExpected).transform((value, context): number => {
  const micros = parseDollarsToMicros(value)
  if (micros !== null && micros > 0) return micros
  context.addIssue(creditExpected)
  return z.NEVER
})

/** The settings of the scraper providers, part of the one schema in `src/app/config.ts`. */
export const scraperSettings = {
  FAREBOX_SCRAPERS_KEY: apiKey
    .optional()
    .describe("Your key at ScrapeCreators, the scrapers' provider. Without a key they answer 503."),
  FAREBOX_SCRAPERS_URL: address
    .prefault('https://api.scrapecreators.com')
    .describe('The address of the provider, or of another one with the same protocol.'),
  FAREBOX_SCRAPERS_SECOND_KEY: apiKey
    .optional()
    .describe('A key at a second provider of the same protocol, which is used if the first fails.'),
  FAREBOX_SCRAPERS_SECOND_URL: address.optional().describe('The address of the second provider.'),
  FAREBOX_SCRAPERS_SECOND_ROWS: rows
    .prefault('*')
    .describe(
      'The scrapers of the second provider: * for all, platforms and scrapers, separated by commas. A scraper whose platform removed its page must be named.',
    ),
  FAREBOX_SCRAPERS_LOW_CREDITS: text(creditsExpected)
    .regex(/^(?:\d{1,9}|1000000000)$/, creditsExpected)
    .transform(Number)
    .prefault('1000')
    .describe('The log has a warning below this number of your credits at a provider.'),
  FAREBOX_SCRAPERS_CREDIT_USD: credit
    .optional()
    .describe(
      'The price of a credit in dollars: finance then shows cost and margin of the scrapers with their revenue.',
    ),
} as const

type Values = z.output<z.ZodObject<typeof scraperSettings>>

/** Settings whose values are never shown. */
export const scraperSecrets: readonly string[] = ['FAREBOX_SCRAPERS_KEY', 'FAREBOX_SCRAPERS_SECOND_KEY']

/** Connection data of a real provider. */
export type ConfiguredProvider = {
  readonly name: 'first' | 'second'
  readonly baseUrl: string
  readonly apiKey: string
  readonly serves: (row: ScraperRow) => boolean
}

export type ScraperConfig = {
  /** In order of preference; empty if no key is set. */
  readonly providers: readonly ConfiguredProvider[]
  readonly lowCredits: number
  /** Our cost of a credit, micro-dollars; null: not known. */
  readonly creditMicros: number | null
}

type Environment = Readonly<Record<string, string | undefined>>

/** Whether a real provider is configured. Development features are then not allowed. */
export const hasScraperKey = (env: Environment): boolean =>
  scraperSecrets.some((name) => env[name] !== undefined)

/** Problems of the settings as a whole. */
export const scraperProblems = (env: Environment): string[] => {
  const { FAREBOX_SCRAPERS_KEY: first, FAREBOX_SCRAPERS_SECOND_KEY: second } = env
  const problems: string[] = []
  if (second !== undefined && first === undefined)
    problems.push('FAREBOX_SCRAPERS_KEY is required with FAREBOX_SCRAPERS_SECOND_KEY')
  for (const [name, other] of [
    ['FAREBOX_SCRAPERS_SECOND_KEY', 'FAREBOX_SCRAPERS_SECOND_URL'],
    ['FAREBOX_SCRAPERS_SECOND_URL', 'FAREBOX_SCRAPERS_SECOND_KEY'],
  ] as const)
    if (env[name] !== undefined && env[other] === undefined)
      problems.push(`${other} is required with ${name}`)
  return problems
}

/** The effective settings. They must have no problems. */
export const scraperConfigOf = (values: Values): ScraperConfig => {
  const {
    FAREBOX_SCRAPERS_KEY: firstKey,
    FAREBOX_SCRAPERS_SECOND_KEY: secondKey,
    FAREBOX_SCRAPERS_SECOND_URL: secondUrl,
    FAREBOX_SCRAPERS_SECOND_ROWS: rowPatterns,
  } = values
  const hasRow = (row: ScraperRow): boolean =>
    rowPatterns.includes(rowName(row)) ||
    (!row.source.isWithdrawn && rowPatterns.some((word) => word === '*' || word === row.platform))
  return {
    providers: [
      ...(firstKey === undefined
        ? []
        : [
            {
              name: 'first' as const,
              baseUrl: values.FAREBOX_SCRAPERS_URL,
              apiKey: firstKey,
              serves: (row: ScraperRow) => !row.source.isWithdrawn,
            },
          ]),
      ...(secondKey === undefined || secondUrl === undefined
        ? []
        : [{ name: 'second' as const, baseUrl: secondUrl, apiKey: secondKey, serves: hasRow }]),
    ],
    lowCredits: values.FAREBOX_SCRAPERS_LOW_CREDITS,
    creditMicros: values.FAREBOX_SCRAPERS_CREDIT_USD ?? null,
  }
}
