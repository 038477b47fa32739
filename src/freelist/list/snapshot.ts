import { etagOf } from '../../platform/http/fixed-text.ts'
import type { ReadyAnswer } from '../../platform/http/route.ts'
import { placeText } from '../record/endpoint.ts'
import type { ListEntry } from './entry.ts'
import { type Filter, type ListQuery, nameOf, passes } from './filter.ts'

/** A page of the list that a filter leaves. */
export type Page = {
  /** When the newest check of the whole list was made; null while the list is empty. */
  readonly updatedAt: string | null
  /** How many the filter leaves. */
  readonly total: number
  readonly entries: readonly ListEntry[]
}

/** The list at one moment, with the answers that were made of it. */
export type Snapshot = {
  /** In the order of the list. */
  readonly entries: readonly ListEntry[]
  /** Whether a proxy of the list listens at the address or goes out by it. */
  has(ip: string): boolean
  page(filter: Filter, limit: number): Page
  answer(query: ListQuery): ReadyAnswer
}

/** Answers kept of one moment. More than so many filters are asked by nobody who wants proxies. */
const keptAnswers = 500

/** JSON in which each character is one byte. */
const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

const newest = (entries: readonly ListEntry[]): string | null =>
  entries.reduce<string | null>(
    (latest, { last_checked }) =>
      last_checked !== null && (latest === null || last_checked > latest) ? last_checked : latest,
    null,
  )

/**
 * @param entries in the order of the list
 * @param exits addresses that they go out by
 * @param note what all entries lack, or null
 */
export const snapshotOf = (
  entries: readonly ListEntry[],
  exits: ReadonlySet<string>,
  note: string | null,
): Snapshot => {
  const updatedAt = newest(entries)
  const addresses = new Set(entries.map(({ ip }) => ip))
  const texts = new Map<ListEntry, string>()
  const answers = new Map<string, ReadyAnswer>()

  const page = (filter: Filter, limit: number): Page => {
    const left = entries.filter((entry) => passes(entry, filter))
    return { updatedAt, total: left.length, entries: left.slice(0, limit) }
  }

  const textOf = (entry: ListEntry): string => {
    const text = texts.get(entry) ?? asciiJson(entry)
    texts.set(entry, text)
    return text
  }

  const jsonOf = ({ total, entries: shown }: Page): string => {
    const head = asciiJson({ updated_at: updatedAt, total, count: shown.length, note })
    return `${head.slice(0, -1)},"proxies":[${shown.map(textOf).join(',')}]}\n`
  }

  const make = (query: ListQuery): ReadyAnswer => {
    const found = page(query, query.limit)
    const lines = query.format === 'txt'
    const text = lines ? found.entries.map((entry) => `${placeText(entry)}\n`).join('') : jsonOf(found)
    return { mediaType: lines ? 'text/plain' : 'application/json', text, etag: etagOf(text) }
  }

  return {
    entries,
    has: (ip) => addresses.has(ip) || exits.has(ip),
    page,
    answer: (query) => {
      const name = nameOf(query)
      const before = answers.get(name)
      if (before !== undefined) return before
      const made = make(query)
      if (answers.size < keptAnswers) answers.set(name, made)
      return made
    },
  }
}
