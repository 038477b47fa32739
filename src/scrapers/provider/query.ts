import { unpacked } from '../catalog/position.ts'
import type { InputValue, ScraperRow } from '../catalog/row.ts'
import type { CacheDays, ScrapeInput } from './port.ts'

/** Longer queries are refused by many servers: the parameters go as JSON where the row takes them so. */
const maxQueryLength = 6_000

/** One request of the protocol, without the provider's address and key. */
export type Asked = {
  readonly method: 'GET' | 'POST'
  /** The path with its query. */
  readonly target: string
  readonly body?: string
}

/** The parameters as they are sent: names of the protocol, and the two halves of a packed position apart. */
export const parametersOf = (row: ScraperRow, input: ScrapeInput): Readonly<Record<string, InputValue>> => {
  const sent: Record<string, InputValue> = {}
  for (const { name, sentAs } of row.inputs) {
    const value = input[name]
    if (value !== undefined) sent[sentAs ?? name] = value
  }
  const second = row.paging?.second
  const pair = second !== undefined && typeof input.cursor === 'string' ? unpacked(input.cursor) : null
  if (row.paging && second !== undefined && pair !== null) {
    sent[row.paging.send] = pair.first
    sent[second] = pair.second
  }
  return sent
}

/** The request that fetches the row, from the provider's cache where an age is given and the row allows it. */
export const askedOf = (row: ScraperRow, input: ScrapeInput, maxAgeDays?: CacheDays): Asked => {
  const parameters = {
    ...parametersOf(row, input),
    ...(maxAgeDays !== undefined && row.source.isCacheable && { cache_max_age: `${maxAgeDays}d` }),
  }
  const query = new URLSearchParams(
    Object.entries(parameters).map(([name, value]): [string, string] => [name, String(value)]),
  ).toString()
  const { path, takesPost } = row.source
  if (takesPost && query.length > maxQueryLength)
    return { method: 'POST', target: path, body: JSON.stringify(parameters) }
  return { method: 'GET', target: query === '' ? path : `${path}?${query}` }
}
