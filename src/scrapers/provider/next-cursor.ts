import { packed } from '../catalog/position.ts'
import type { ScraperRow } from '../catalog/row.ts'
import type { ScrapeInput } from './port.ts'

const valueAt = (data: unknown, path: string): unknown => {
  let value: unknown = data
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/** Platforms say it as true, as 1, or not at all: then the position decides. */
const saysMore = (
  data: unknown,
  { more, moreIsInverted }: { more?: string; moreIsInverted?: true },
): boolean => {
  const flag = more === undefined ? undefined : valueAt(data, more)
  if (flag === undefined || flag === null) return true
  const isOn = flag === true || (typeof flag === 'number' && flag !== 0)
  return isOn !== (moreIsInverted ?? false)
}

const positionText = (value: unknown): string | null => {
  if (typeof value === 'number') return Number.isFinite(value) && value !== 0 ? String(value) : null
  return typeof value === 'string' && value !== '' ? value : null
}

const nextPage = (row: ScraperRow, input: ScrapeInput, data: unknown): string | null => {
  const list = row.answer.items === null ? undefined : valueAt(data, row.answer.items.path)
  if (!Array.isArray(list) || list.length === 0) return null
  const max = row.inputs.find(({ kind }) => kind === 'page')?.max ?? Number.POSITIVE_INFINITY
  const page = (typeof input.page === 'number' ? input.page : 1) + 1
  return page <= max ? String(page) : null
}

/**
 * What the next page is asked with, from an answer; null after the last one, and where the answer leads back to the page that
 * was asked for.
 */
export const nextCursorOf = (row: ScraperRow, input: ScrapeInput, data: unknown): string | null => {
  const { paging } = row
  if (paging === null || !saysMore(data, paging)) return null
  if (paging.read === null) return nextPage(row, input, data)
  const first = positionText(valueAt(data, paging.read))
  if (first === null) return null
  if (paging.second === undefined) return first === input.cursor ? null : first
  const second = positionText(valueAt(data, paging.second))
  return second === null ? null : packed({ first, second })
}
