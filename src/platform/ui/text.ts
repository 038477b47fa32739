import { cents, micros, parseDecimal } from '../../kernel/money.ts'
import { type Html, html } from './html.ts'

export type BadgeTone = 'good' | 'warn' | 'bad' | 'off'

/** A state by its word and a shape of its own; colour only helps. */
export const stateText = (word: string, look: BadgeTone): Html =>
  html`<span class="state ${look}">${word}</span>`

/** Where a page of a list begins: the time and id of the row before it, as they stand in a link. */
export const afterText = (at: string, id: string): string => `${at}_${id}`

/** What `afterText` wrote, or null for anything else: the list then begins with the newest. */
export const afterOf = (text: string | null): { readonly at: string; readonly id: string } | null => {
  const [, at = '', id = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([a-z]{3}_[0-9a-f]{32})$/.exec(text ?? '') ?? []
  return at === '' || Number.isNaN(Date.parse(at)) ? null : { at, id }
}

const groupedDollars = /^\d{1,3}(?:,\d{3})+(?:\.\d*)?$/

/**
 * Dollars as they were typed (`$1,000.50`), as whole cents; undefined for what is no amount or more than `most` cents. A comma
 * separates thousands only: `25,50` is no amount.
 */
export const parseCents = (text: string, most: number): number | undefined => {
  const dollars = text.replace(/^\$/, '')
  const value = parseDecimal(groupedDollars.test(dollars) ? dollars.replaceAll(',', '') : dollars, 2)
  return value === null || value > most ? undefined : value
}

const minus = '\u2212'

/** Digits in groups of three: at most 16 of them, as a safe integer has. */
const grouped = (digits: string): string => {
  const groups: string[] = []
  for (let end = digits.length; end > 0; end -= 3) groups.unshift(digits.slice(Math.max(0, end - 3), end))
  return groups.join(',')
}

/** Digits of a whole number with so many of them after the point, written without arithmetic: nothing is rounded. */
const decimal = (value: number, places: number, least: number): string => {
  const digits = String(Math.abs(value)).padStart(places + 1, '0')
  const fraction = digits.slice(-places)
  let shown = fraction
  while (shown.length > least && shown.endsWith('0')) shown = shown.slice(0, -1)
  return `${value < 0 ? minus : ''}${grouped(digits.slice(0, -places))}.${shown}`
}

/** Whole cents for a column that says USD: `1,234.50`, with a true minus. */
export const amountText = (value: number): string => decimal(cents(value), 2, 2)

/** Micro-dollars, every digit that is not zero and at least two: `0.003`. */
export const microsText = (value: number): string => decimal(micros(value), 6, 2)

/** Whole cents in a sentence: `$1,234.50`. */
export const dollarText = (value: number): string => {
  const text = amountText(value)
  return text.startsWith(minus) ? `${minus}$${text.slice(1)}` : `$${text}`
}

/** An instant for people, to the minute, in UTC; the machine-readable one is whole. */
export const timeText = (iso: string | null, none = 'never'): Html =>
  iso === null
    ? html`<span class="soft">${none}</span>`
    : html`<time datetime="${iso}">${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC</time>`

/** The day of an instant, in UTC. */
export const dayText = (iso: string): Html =>
  html`<time datetime="${iso.slice(0, 10)}">${iso.slice(0, 10)}</time>`

/** An id as it is: whole, in one piece to select and copy. */
export const idText = (id: string): Html => html`<code class="id">${id}</code>`

const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

/** Bytes with up to two decimals of the unit that fits: 1 GB is 1,000,000,000 bytes. */
export const bytesText = (bytes: number): string => {
  let unit = 0
  let scale = 1
  while (bytes >= scale * 1000 && unit < units.length - 1) {
    scale *= 1000
    unit += 1
  }
  const hundredths = Math.floor((bytes / scale) * 100)
  const whole = Math.floor(hundredths / 100)
  const rest = hundredths % 100
  return `${grouped(String(whole))}${rest === 0 ? '' : `.${String(rest).padStart(2, '0')}`} ${units[unit]}`
}

/** What a price is for, as people say it: `IP/30d` is `IP for 30 days`. */
export const perText = (per: string): string =>
  per.replace(/\/(\d+)d$/, (_, days: string) => ` for ${countText(Number(days), 'day')}`)

/** How many of what: `1 key`, `2 keys`. */
export const countText = (count: number, one: string, many = `${one}s`): string =>
  `${grouped(String(count))} ${count === 1 ? one : many}`

const known: ReadonlySet<string> = new Set(
  Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC'),
)

/** The time zones that pages can show, by name; UTC, which they show unless asked otherwise, is none of them. */
export const zones: readonly string[] = [...known]

/** A zone by its name; null for UTC and for what is none. */
export const zoneOf = (name: string | null): string | null => (name !== null && known.has(name) ? name : null)

const writers = new Map<string, Intl.DateTimeFormat>()

const writerOf = (zone: string): Intl.DateTimeFormat => {
  const writer =
    writers.get(zone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'shortOffset',
    })
  writers.set(zone, writer)
  return writer
}

/** An instant in a zone, to the minute, with how far it is from UTC: `2026-11-26 03:10 UTC+1`. */
export const textInZone = (iso: string, zone: string): string => {
  const parts = new Map(
    writerOf(zone)
      .formatToParts(new Date(iso))
      .map(({ type, value }) => [type, value]),
  )
  const part = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? ''
  const offset = part('timeZoneName').replace('GMT', 'UTC').replace('-', '\u2212')
  return `${part('year')}-${part('month')}-${part('day')} ${part('hour')}:${part('minute')} ${offset}`
}

/** A page with its instants (`timeText`) in a zone; days and months are those of UTC, by which the books are kept. */
export const pageInZone = (page: string, zone: string): string =>
  page.replace(
    /<time datetime="(\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]{2,6}Z)">[^<]*<\/time>/g,
    (_, iso: string) => `<time datetime="${iso}">${textInZone(iso, zone)}</time>`,
  )
