import { createHash } from 'node:crypto'
import type { AnswerField, ScraperRow } from '../../domain/scrapers/scraper.ts'

/** Number of pages of a list. */
export const pages = 3
const itemsPerPage = 3

/** Hex digits derived from the words. The same words always give the same digits. */
const hashOf = (...parts: readonly (string | number)[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')

const digits = (seed: string): string => String(Number.parseInt(seed.slice(0, 12), 16))

const isAddress = (name: string): boolean =>
  /url$|uri$|link$|permalink|avatar|thumbnail|image$|picture|website$|cover$/i.test(name)

const textOf = (name: string, seed: string): string => {
  if (/(^|_)(id|pk|cid|sec_uid)$|Id$/i.test(name)) return digits(seed)
  if (isAddress(name)) return `https://stand-in.invalid/${name}/${seed.slice(0, 8)}`
  if (/(_at|date|time|published)$/i.test(name)) return '2026-01-31T12:00:00.000Z'
  return `stand-in ${name} ${seed.slice(0, 6)}`
}

const sampleValue = ({ name, type }: AnswerField, seed: string): unknown => {
  const fieldSeed = hashOf(seed, name)
  switch (type) {
    case 'string':
      return textOf(name, fieldSeed)
    case 'number':
      return Number.parseInt(fieldSeed.slice(0, 5), 16)
    case 'boolean':
      return Number.parseInt(fieldSeed.slice(0, 1), 16) % 2 === 0
    case 'object':
      return { stand_in: true, id: digits(fieldSeed), name: textOf('name', fieldSeed) }
    case 'any':
      return null
    case 'array':
      return []
    case 'object[]':
      return [0, 1].map((at) => ({ stand_in: true, id: digits(hashOf(fieldSeed, at)) }))
    case 'string[]':
      return [textOf(name, fieldSeed)]
    case 'number[]':
      return [Number.parseInt(fieldSeed.slice(0, 4), 16)]
    default:
      return type satisfies never
  }
}

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
 * The answer of a row, with data that is visibly invented. The same call always gives the same body.
 * @param call all parameters of the call except its page
 */
export const bodyOf = (row: ScraperRow, call: string, page: number, isEmpty: boolean): unknown => {
  const seed = hashOf(row.platform, row.operation, call, page)
  const { fields, items, isBareList } = row.answer
  const list = isEmpty
    ? []
    : Array.from({ length: itemsPerPage }, (_, at) =>
        Object.fromEntries(
          (items?.fields ?? []).map((field) => [field.name, sampleValue(field, hashOf(seed, 'item', at))]),
        ),
      )
  if (isBareList) return list
  const body: Record<string, unknown> = {}
  for (const field of fields) {
    const isList = field.type === 'object[]' || field.type === 'array'
    body[field.name] = isEmpty && isList ? [] : sampleValue(field, seed)
  }
  if (items) body[items.path] = list
  putPaging(row, body, isEmpty ? pages : page)
  return body
}
