import { z } from 'zod'
import { parseDollarsToMicros } from '../../kernel/money.ts'
import { named } from './answers/fields.ts'
import { answers } from './answers/index.ts'
import { sampleOf, valueAt } from './sample.ts'
import { type AnswerShape, type Input, inputKinds, type Paging, rowName, type ScraperRow } from './scraper.ts'
import scrapersJson from './scrapers.json' with { type: 'json' }

/** Words with spaces between. */
const Words = z.string().transform((text) => text.split(' '))

const Price = z.string().transform((dollars, issues) => {
  const priceMicros = parseDollarsToMicros(dollars)
  if (priceMicros === null) issues.addIssue('must be dollars such as 0.0030')
  return priceMicros ?? z.NEVER
})

/** A value that is not stated comes from the shared input of the same name. */
const InputEntry = z.strictObject({
  /** `text` by default. */
  kind: z.enum(inputKinds).exactOptional(),
  description: z.string().exactOptional(),
  /** Inputs of a `oneOf` group are never required. */
  required: z.boolean().exactOptional(),
  values: z.union([Words, z.array(z.number())]).exactOptional(),
  also: Words.exactOptional(),
  max: z.int().exactOptional(),
  /** False by default for `boolean`. */
  default: z.union([z.string(), z.number()]).exactOptional(),
  /** By default the input's default, or a day for `date`. A position has that of the sample answer. */
  example: z.string().exactOptional(),
  /** The input of the position is sent as `send` of `paging`. */
  sentAs: z.string().exactOptional(),
})
type InputEntry = z.output<typeof InputEntry>

const SharedInputs = z.record(z.string(), InputEntry)

const ScraperEntry = z.strictObject({
  summary: z.string(),
  note: z.string().nullable().default(null),
  /** Dollars with four decimals. */
  price: Price.prefault('0.0030'),
  /** A text is the example of a shared input. */
  inputs: z.record(z.string(), z.union([InputEntry, z.string().transform((example) => ({ example }))])),
  oneOf: z.array(z.string()).optional(),
  needs: z.array(z.strictObject({ field: z.string(), value: z.string(), needs: z.string() })).default([]),
  isSearch: z.boolean().default(false),
  nothingWhenNull: z.string().nullable().default(null),
  /** For scrapers with an input `cursor` or `page`. */
  paging: z
    .strictObject({
      send: z.string().default('cursor'),
      /** `send` by default. */
      read: z.string().optional(),
      more: z.string().exactOptional(),
      moreIsInverted: z.literal(true).exactOptional(),
      second: z.string().exactOptional(),
    })
    .prefault({}),
  /** A description of the answer. `answers/` has its fields. */
  answer: z.string(),
  isBareList: z.boolean().default(false),
  /** `/v1/{platform}/{operation}` by default. */
  path: z.string().optional(),
  takesPost: z.boolean().default(false),
  credits: z.int().default(1),
  /** `credits` by default. */
  maxCredits: z.int().optional(),
  isCacheable: z.boolean().default(false),
  timeoutSeconds: z.int().default(30),
  isWithdrawn: z.boolean().default(false),
})
type ScraperEntry = z.output<typeof ScraperEntry>

/** The schema of scrapers.json. */
const ScraperFile = z.strictObject({
  inputs: SharedInputs,
  platforms: z.record(
    z.string(),
    z.strictObject({
      /** The hosts of the platform's links. */
      hosts: z.array(z.string()).optional(),
      /** Inputs that several scrapers of the platform have. They extend the shared inputs of all platforms. */
      inputs: SharedInputs.default({}),
      scrapers: z.record(z.string(), ScraperEntry),
    }),
  ),
})

const pagingOf = ({ inputs, paging: { send, read, ...more } }: ScraperEntry): Paging | null => {
  if (inputs.cursor) return { input: 'cursor', send, read: read ?? send, ...more }
  return inputs.page ? { input: 'page', send: 'page', read: null, ...more } : null
}

/** The examples of the inputs with a position: the positions of the sample answer. */
const positionsOf = (answer: AnswerShape, paging: Paging | null): Readonly<Record<string, string>> => {
  if (paging === null || paging.read === null) return {}
  const sample = sampleOf({ answer })
  const { input, read, second } = paging
  return {
    [input]: String(valueAt(sample, read)),
    ...(second !== undefined && { [second]: String(valueAt(sample, second)) }),
  }
}

/** @throws RangeError if the description or the example is missing */
const inputOf = (name: string, entry: InputEntry, hosts: readonly string[] | undefined): Input => {
  const { kind = 'text', description, required = false, ...options } = entry
  const defaultValue = kind === 'boolean' ? false : entry.default
  const example = entry.example ?? defaultValue ?? (kind === 'date' ? '2026-01-31' : undefined)
  if (description === undefined || example === undefined)
    throw new RangeError(`${name} has no description or no example`)
  return {
    ...options,
    name,
    kind,
    required,
    description,
    example,
    ...(defaultValue !== undefined && { default: defaultValue }),
    ...(kind === 'url' && hosts && { hosts }),
  }
}

const { inputs: commonInputs, platforms: platformEntries } = ScraperFile.parse(scrapersJson)

const rowsOf = ([platform, { hosts, inputs: platformInputs, scrapers }]: [
  string,
  (typeof platformEntries)[string],
]): readonly ScraperRow[] =>
  Object.entries(scrapers).map(([operation, entry]): ScraperRow => {
    const { price, inputs, oneOf } = entry
    const shape = answers[platform]?.[operation]
    if (shape === undefined) throw new RangeError(`the answer of ${platform}/${operation} has no fields`)
    const answer = { description: entry.answer, fields: named(shape), isBareList: entry.isBareList }
    const paging = pagingOf(entry)
    const positions = positionsOf(answer, paging)
    return {
      platform,
      operation,
      priceMicros: price,
      summary: entry.summary,
      note: entry.note,
      inputs: Object.entries(inputs).map(([name, input]) =>
        inputOf(
          name,
          {
            ...commonInputs[name],
            ...platformInputs[name],
            ...(positions[name] !== undefined && { example: positions[name] }),
            ...input,
            ...(oneOf?.includes(name) && { required: false }),
            ...(paging?.input === name && paging.send !== name && { sentAs: paging.send }),
          },
          hosts,
        ),
      ),
      oneOf: oneOf ? [oneOf] : [],
      needs: entry.needs,
      isSearch: entry.isSearch,
      nothingWhenNull: entry.nothingWhenNull,
      paging,
      answer,
      source: {
        path: entry.path ?? `/v1/${platform}/${operation}`,
        takesPost: entry.takesPost,
        credits: entry.credits,
        maxCredits: entry.maxCredits ?? entry.credits,
        isCacheable: entry.isCacheable,
        timeoutMs: entry.timeoutSeconds * 1000,
        isWithdrawn: entry.isWithdrawn,
      },
    }
  })

/** Every scraper, in alphabetical order of platform and operation. */
export const scrapers: readonly ScraperRow[] = Object.entries(platformEntries).flatMap(rowsOf)

const byName: ReadonlyMap<string, ScraperRow> = new Map(scrapers.map((row) => [rowName(row), row]))

/** The row of `/v1/scrape/{platform}/{operation}`; null if there is none. */
export const scraperOf = (platform: string, operation: string): ScraperRow | null =>
  byName.get(rowName({ platform, operation })) ?? null

/** The platforms, in alphabetical order. */
export const platforms: readonly string[] = Object.keys(platformEntries)
