import type { Micros } from '../../kernel/money.ts'
import { placedFieldsOf } from './sample.ts'
import { rowName, type ScraperRow } from './scraper.ts'
import { scrapers } from './scraper-table.ts'

/** Conditions on scrapers. All of them must hold. */
export type ScraperQuery = {
  /** Words with spaces between. Each must be a part of the name, the descriptions, or a field. */
  readonly words?: string | undefined
  /** A part of the path of a field of the answer. */
  readonly field?: string | undefined
  readonly maxPriceMicros?: Micros | undefined
}

/** Platforms write the same name as `followerCount` and `follower_count`. */
const plain = (text: string): string => text.toLowerCase().replaceAll('_', '')

const entries = scrapers.map((row) => {
  const fields = placedFieldsOf(row)
  const name = plain(rowName(row))
  const summary = plain(row.summary)
  const paths = fields.map(({ path }) => plain(path))
  const meanings = fields.map(({ meaning }) => plain(meaning))
  const descriptions = plain(`${row.note ?? ''} ${row.answer.description}`)
  const head = `${name} ${summary}`
  return { row, name, head, paths, text: [head, descriptions, ...paths, ...meanings].join('\n') }
})

/**
 * The scrapers that meet the conditions. Those with all words in the name come first, then those with all words in name
 * and summary. Otherwise the order is by name.
 */
export const findScrapers = ({ words = '', field, maxPriceMicros }: ScraperQuery): readonly ScraperRow[] => {
  const wanted = plain(words).split(/\s+/)
  const hasAll = (text: string): boolean => wanted.every((word) => text.includes(word))
  const wantedField = plain(field ?? '')
  const found = entries.filter(
    ({ row, paths, text }) =>
      hasAll(text) &&
      paths.some((path) => path.includes(wantedField)) &&
      (maxPriceMicros === undefined || row.priceMicros <= maxPriceMicros),
  )
  const rank = ({ name, head }: (typeof entries)[number]): number => (hasAll(name) ? 0 : hasAll(head) ? 1 : 2)
  return found.toSorted((one, other) => rank(one) - rank(other)).map(({ row }) => row)
}
