import { createHash } from 'node:crypto'
import { mainListOf } from '../../domain/scrapers/sample.ts'
import type { AnswerField, InputValue, ScraperRow } from '../../domain/scrapers/scraper.ts'

export type Parameters = Readonly<Record<string, string>>

/** A parsed call, or the error in its parameters. */
export type ParsedScrapeCall =
  | { readonly wrong: string }
  | {
      readonly page: number
      readonly call: string
      readonly texts: readonly string[]
    }

/** The parameters of the row, by their protocol names. */
const inputsByName = (row: ScraperRow): ReadonlyMap<string, ScraperRow['inputs'][number]> =>
  new Map(row.inputs.map((input) => [input.sentAs ?? input.name, input]))

const isOneOf = (values: readonly InputValue[], raw: string): boolean =>
  values.some((value) => String(value) === raw)

const wrongValue = (
  name: string,
  raw: string,
  input: ScraperRow['inputs'][number] | undefined,
): string | null => {
  if (input === undefined) return `${name} is not a parameter`
  if (input.values && !isOneOf(input.values, raw)) return `${name} must be one of ${input.values.join(', ')}`
  if (input.kind === 'boolean' && raw !== 'true' && raw !== 'false') return `${name} must be true or false`
  if (input.kind === 'page' && !(/^[1-9]\d*$/.test(raw) && Number(raw) <= (input.max ?? 10_000)))
    return `${name} is out of range`
  return null
}

const namesOf = (row: ScraperRow, group: readonly string[]): readonly string[] =>
  row.inputs.filter(({ name }) => group.includes(name)).map(({ name, sentAs }) => sentAs ?? name)

/** The requested page; null for an unknown position. */
const pageOfCall = (row: ScraperRow, parameters: Parameters): number | null => {
  const { paging } = row
  const raw = paging === null ? undefined : parameters[paging.send]
  if (paging === null || raw === undefined) return 1
  if (paging.read === null) return Number(raw)
  // If the position is a required parameter, any other value means the first page: replies begin at a token of their
  // comment.
  const isNeeded = row.inputs.some(({ name, required }) => name === paging.input && required)
  const page = pageOf(row, raw) ?? (isNeeded ? 1 : null)
  if (page !== null && page > 1 && paging.second && parameters[paging.second] !== secondOf(page)) return null
  return page
}

/** Parses the parameters of a call according to the row. It refuses the same parameters as the platform. */
export const parseScrapeCall = (row: ScraperRow, parameters: Parameters): ParsedScrapeCall => {
  const inputs = inputsByName(row)
  for (const [name, value] of Object.entries(parameters)) {
    const wrong = wrongValue(name, value, inputs.get(name))
    if (wrong !== null) return { wrong }
  }
  const missing = [...inputs].find(([name, { required }]) => required && (parameters[name] ?? '') === '')
  if (missing) return { wrong: `${missing[0]} is required` }
  const group = row.oneOf
    .map((names) => namesOf(row, names))
    .find((names) => !names.some((name) => parameters[name]))
  if (group) return { wrong: `one of ${group.join(', ')} is required` }
  const page = pageOfCall(row, parameters)
  if (page === null) return { wrong: 'the position is not known' }
  const positionNames = [row.paging?.send, row.paging?.second]
  const callParameters = Object.entries(parameters)
    .filter(([name]) => !positionNames.includes(name))
    .sort(([one], [other]) => (one < other ? -1 : 1))
  return {
    page: Math.min(page, pages + 1),
    call: JSON.stringify(callParameters),
    texts: Object.values(parameters),
  }
}

/** A call and the status of its answer. */
export type JournalCall = {
  readonly at: number
  readonly method: string
  readonly path: string
  readonly parameters: Readonly<Record<string, string>>
  /** The first characters of the key. */
  readonly key: string
  readonly status: number | null
  readonly creditsCharged: number
}

export type Journal = {
  add(call: JournalCall): void
  begin(): void
  end(): void
  /** Statistics since the last `clear`, with the latest ten thousand calls. */
  read(): {
    readonly total: number
    readonly underWay: number
    readonly mostAtOnce: number
    readonly creditsCharged: number
    readonly calls: readonly JournalCall[]
  }
  clear(): void
}

const maxStoredCalls = 10_000

/** Records all calls, in memory. */
export const createJournal = (): Journal => {
  let calls: JournalCall[] = []
  let total = 0
  let creditsCharged = 0
  let underWay = 0
  let mostAtOnce = 0
  return {
    add: (call) => {
      total += 1
      creditsCharged += call.creditsCharged
      calls.push(call)
      if (calls.length > 2 * maxStoredCalls) calls = calls.slice(-maxStoredCalls)
    },
    begin: () => {
      underWay += 1
      mostAtOnce = Math.max(mostAtOnce, underWay)
    },
    end: () => {
      underWay -= 1
    },
    read: () => ({ total, underWay, mostAtOnce, creditsCharged, calls: calls.slice(-maxStoredCalls) }),
    clear: () => {
      calls = []
      total = 0
      creditsCharged = 0
      mostAtOnce = underWay
    },
  }
}

/** Number of pages of a list. */
export const pages = 3
const itemsPerPage = 3

/** Hex digits derived from the words. The same words always give the same digits. */
const hashOf = (...parts: readonly (string | number)[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')

const digits = (seed: string): string => String(Number.parseInt(seed.slice(0, 12), 16))

const variedText = (example: string, seed: string): string => `stand-in ${example} ${seed.slice(0, 6)}`

/** Another id of the same form. */
const variedId = (example: string, seed: string): string =>
  /^\d*$/.test(example) ? digits(seed) : `${example.slice(0, -6)}${seed.slice(0, 6)}`

/** The example of a field in another form: ids differ, and texts say that they are invented. */
const variedExample = ({ example, variation }: AnswerField, seed: string): unknown => {
  if (variation === 'id')
    return typeof example === 'number' ? Number(digits(seed)) : variedId(String(example), seed)
  if (variation === 'none') return example
  return Array.isArray(example)
    ? example.map((each) => variedText(String(each), seed))
    : variedText(String(example), seed)
}

const sampleValue = (field: AnswerField, seed: string, length = 1): unknown => {
  const fieldSeed = hashOf(seed, field.name)
  switch (field.type) {
    case 'object':
      return objectOf(field.fields, fieldSeed)
    case 'object[]':
      return Array.from({ length }, (_, at) => objectOf(field.fields, hashOf(fieldSeed, at)))
    default:
      return variedExample(field, fieldSeed)
  }
}

const objectOf = (fields: readonly AnswerField[], seed: string): Record<string, unknown> =>
  Object.fromEntries(fields.map((field) => [field.name, sampleValue(field, seed)]))

const put = (body: Record<string, unknown>, path: string, value: unknown): void => {
  const [head = '', ...remainingPath] = path.split('.')
  if (remainingPath.length === 0) body[head] = value
  else {
    const child = { ...(body[head] as Record<string, unknown> | undefined) }
    put(child, remainingPath.join('.'), value)
    body[head] = child
  }
}

/** A page position in the format of the row's platform: a number if the field is a number. */
export const positionOf = (row: ScraperRow, page: number): string | number => {
  const type = row.answer.fields.find(({ name }) => name === row.paging?.read)?.type
  return type === 'number' ? page * 10 : `standin-${page * 10}`
}

/** The second part of a position, for platforms with two paging parameters. */
export const secondOf = (page: number): string => `standin-second-${page * 10}`

/** The page of a position; null for an unknown position. */
export const pageOf = (row: ScraperRow, position: string): number | null => {
  for (let page = 2; page <= pages; page += 1) if (String(positionOf(row, page)) === position) return page
  return null
}

const flagValue = (row: ScraperRow, path: string, isOn: boolean): boolean | number =>
  row.answer.fields.find(({ name }) => name === path)?.type === 'number' ? Number(isOn) : isOn

/**
 * Sets the position and the flag of the next page. The last page also has a position if a flag marks it as the last.
 */
const putPaging = (row: ScraperRow, body: Record<string, unknown>, page: number): void => {
  const { paging } = row
  if (!paging) return
  const hasMore = page < pages
  if (paging.more)
    put(body, paging.more, flagValue(row, paging.more, hasMore !== (paging.moreIsInverted ?? false)))
  if (paging.read === null) return
  const hasPosition = hasMore || paging.more !== undefined
  put(body, paging.read, hasPosition ? positionOf(row, page + 1) : null)
  if (paging.second) put(body, paging.second, hasPosition ? secondOf(page + 1) : null)
}

/**
 * The answer of a row: its sample with other ids and texts, so that it is visibly invented. The same call always gives
 * the same body.
 * @param call all parameters of the call except its page
 */
export const bodyOf = (row: ScraperRow, call: string, page: number, isEmpty: boolean): unknown => {
  const seed = hashOf(row.platform, row.operation, call, page)
  const { answer } = row
  const mainList = mainListOf(answer)
  if (answer.isBareList && mainList !== null) return isEmpty ? [] : sampleValue(mainList, seed, itemsPerPage)
  const body: Record<string, unknown> = {}
  for (const field of answer.fields) {
    const isList = field.type === 'object[]' || field.type === 'array'
    body[field.name] = isEmpty && isList ? [] : sampleValue(field, seed, itemsPerPage)
  }
  putPaging(row, body, isEmpty ? pages : page)
  return body
}
