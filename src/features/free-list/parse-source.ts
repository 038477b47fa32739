import { isIP, isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { FeedFormat } from '../../domain/free-list/endpoint.ts'
import { type SocketAddress, socketAddressText } from '../../domain/free-list/endpoint.ts'

export type ParsedFeed = {
  /** Without duplicates, in feed order. */
  readonly candidates: readonly SocketAddress[]
  /** Lines or entries without an address and port. */
  readonly unreadable: number
  /** Dropped candidates: too many of one address, or more than the maximum of a feed. */
  readonly leftOut: number
}

const longestLine = 400
const maxCandidates = 500_000
/** Prevents port scans: a feed could list thousands of ports of one address. */
const maxPerAddress = 100

const parseAddress = (ip: string, portText: string): SocketAddress | null => {
  if (isIP(ip) === 0 || !/^\d{1,5}$/.test(portText)) return null
  const port = Number(portText)
  if (port < 1 || port > 65_535) return null
  return { ip: isIPv4(ip) ? ip : ipaddr.process(ip).toString(), port }
}

/** The first two fields of quoted CSV, without quotes. */
const withoutQuotes = (line: string): string =>
  line.replace(/^(?:"[^"]*"[\s,;|]*)+/, (quoted) => quoted.replaceAll('"', ''))

/**
 * Parses `ip:port`, with an optional scheme or login before it and any text after it. Blanks, commas and similar
 * characters are accepted as separators too.
 */
const parseAddressLine = (line: string): SocketAddress | null => {
  if (line.length > longestLine) return null
  const unquoted = withoutQuotes(line)
  const withoutScheme = unquoted.includes('://') ? unquoted.slice(unquoted.indexOf('://') + 3) : unquoted
  const [text = ''] = [withoutScheme.slice(withoutScheme.lastIndexOf('@') + 1).trim()]
  if (text.startsWith('[')) {
    const end = text.indexOf(']')
    const [port = ''] = text.slice(end + 2).split(/[\s,;|/#:]/, 1)
    return end === -1 || text[end + 1] !== ':' ? null : parseAddress(text.slice(1, end), port)
  }
  const [ip = '', port = ''] = text.split(/[\s,;|/#:]/).filter((part) => part !== '')
  return parseAddress(ip, port)
}

const linesOf = (text: string): readonly string[] =>
  text
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))

/** Nesting depth of objects around a list, such as `{"data": {"http": […]}}`. */
const maxAround = 3

/**
 * The list itself, or all lists of an object: one under any name, or one for each protocol. A line of NDJSON is one
 * entry.
 */
const listOf = (value: unknown, nesting = 0): readonly unknown[] => {
  if (Array.isArray(value)) return value
  if (parseAddressEntry(value) !== null) return [value]
  if (typeof value !== 'object' || value === null || nesting === maxAround) return []
  return Object.values(value)
    .filter((inner) => typeof inner === 'object')
    .flatMap((inner) => listOf(inner, nesting + 1))
}

const parseAddressEntry = (entry: unknown): SocketAddress | null => {
  if (typeof entry === 'string') return parseAddressLine(entry)
  if (typeof entry !== 'object' || entry === null) return null
  const { ip, host, ipAddress, address, port, proxy } = entry as Record<string, unknown>
  const hostText = [ip, ipAddress, address, host].find((one) => typeof one === 'string')
  if (hostText !== undefined && (typeof port === 'string' || typeof port === 'number'))
    return parseAddress(hostText as string, String(port))
  return typeof proxy === 'string' ? parseAddressLine(proxy) : null
}

const entriesOf = (text: string, format: FeedFormat): readonly (SocketAddress | null)[] =>
  format === 'text'
    ? linesOf(text).map(parseAddressLine)
    : jsonEntriesOf(text).map((entry) => parseAddressEntry(entry))

const jsonValue = (text: string): { readonly value: unknown } | null => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return null
  }
}

/**
 * The entries of a JSON text or of NDJSON. In NDJSON, a line without an entry, e.g. a line that is not JSON, counts as
 * an unreadable entry. Most lines must be JSON. Else the text is treated as invalid JSON, not as NDJSON.
 * @throws SyntaxError
 */
const jsonEntriesOf = (text: string): readonly unknown[] => {
  try {
    return listOf(JSON.parse(text))
  } catch (error) {
    const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== '')
    const parsed = lines.map(jsonValue)
    if (2 * parsed.filter((line) => line !== null).length <= lines.length) throw error
    return parsed.flatMap((line) => {
      const entries = listOf(line?.value)
      return entries.length === 0 ? [null] : entries
    })
  }
}

/**
 * The candidates of a feed. Its other data, such as protocols and countries, is unverified and not read: the checks
 * determine them.
 * @throws SyntaxError for invalid JSON
 */
export const parseFeed = (text: string, format: FeedFormat): ParsedFeed => {
  const found = new Map<string, SocketAddress>()
  const countByAddress = new Map<string, number>()
  let [unreadable, leftOut] = [0, 0]
  for (const proxyAddress of entriesOf(text.replace(/^\ufeff/, ''), format)) {
    if (proxyAddress === null) {
      unreadable += 1
      continue
    }
    const key = socketAddressText(proxyAddress)
    if (found.has(key)) continue
    const before = countByAddress.get(proxyAddress.ip) ?? 0
    if (before >= maxPerAddress || found.size >= maxCandidates) {
      leftOut += 1
      continue
    }
    countByAddress.set(proxyAddress.ip, before + 1)
    found.set(key, proxyAddress)
  }
  return { candidates: [...found.values()], unreadable, leftOut }
}
