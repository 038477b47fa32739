import { cents, micros, parseDecimal } from '../../kernel/money.ts'
import { type Html, html } from './html.ts'

/** The word in a list that equals the text. */
export const oneOf = <const Word extends string>(
  words: readonly Word[],
  text: string | null,
): Word | undefined => words.find((word) => word === text)

/** Parses the whole cents of a hidden field; undefined for any other text. */
export const parseWholeCents = (text: string): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined

/** A word for a missing value. */
export const softText = (word: string): Html => html`<span class="soft">${word}</span>`

/** A query string: `?a=1`, or an empty text without values. */
export const queryText = (values: Readonly<Record<string, string>>): string => {
  const text = new URLSearchParams(values).toString()
  return text === '' ? '' : `?${text}`
}

/** A link that looks like a button. */
export const buttonLink = (href: string, label: string | Html, kind: '' | 'first' | 'danger' = ''): Html =>
  html`<a class="button${kind === '' ? '' : ` ${kind}`}" href="${href}">${label}</a> `

export type BadgeTone = 'good' | 'warn' | 'bad' | 'off'

/** A state as a word with its own shape. The colour is only an aid. */
export const stateText = (word: string, tone: BadgeTone): Html =>
  html`<span class="state ${tone}">${word}</span>`

/** The start of a list page: the time and id of the row before it, as text for a link. */
export const afterText = (at: string, id: string): string => `${at}_${id}`

/** Parses the text of `afterText`. Null for any other text: the list then starts with the newest row. */
export const afterOf = (text: string | null): { readonly at: string; readonly id: string } | null => {
  const [, at = '', id = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_([a-z]{3}_[0-9a-f]{32})$/.exec(text ?? '') ?? []
  return at === '' || Number.isNaN(Date.parse(at)) ? null : { at, id }
}

const groupedDollars = /^\d{1,3}(?:,\d{3})+(?:\.\d*)?$/

/**
 * Parses typed dollars (`$1,000.50`) to whole cents. Undefined for text that is not an amount, and for more than
 * `maxCents`. A comma separates thousands only: `25,50` is not an amount.
 */
export const parseCents = (text: string, maxCents: number): number | undefined => {
  const dollars = text.replace(/^\$/, '')
  const value = parseDecimal(groupedDollars.test(dollars) ? dollars.replaceAll(',', '') : dollars, 2)
  return value === null || value > maxCents ? undefined : value
}

const minus = '\u2212'

/** Groups digits by three. There are at most 16 digits, as in a safe integer. */
const grouped = (digits: string): string => {
  const groups: string[] = []
  for (let end = digits.length; end > 0; end -= 3) groups.unshift(digits.slice(Math.max(0, end - 3), end))
  return groups.join(',')
}

/**
 * Writes a whole number with `fractionDigits` digits after the point, without arithmetic, so that nothing is rounded.
 * Zeros at the end are left out down to `minFractionDigits` digits.
 */
const decimal = (value: number, fractionDigits: number, minFractionDigits: number): string => {
  const digits = String(Math.abs(value)).padStart(fractionDigits + 1, '0')
  const fraction = digits.slice(-fractionDigits)
  let trimmed = fraction
  while (trimmed.length > minFractionDigits && trimmed.endsWith('0')) trimmed = trimmed.slice(0, -1)
  return `${value < 0 ? minus : ''}${grouped(digits.slice(0, -fractionDigits))}.${trimmed}`
}

/** Whole cents for a column in USD: `1,234.50`, with a true minus sign. */
export const amountText = (value: number): string => decimal(cents(value), 2, 2)

/** Micro-dollars without zeros at the end, but with at least two decimals: `0.003` is 3,000. */
export const microsText = (value: number): string => decimal(micros(value), 6, 2)

/** Whole cents in a sentence: `$1,234.50`. */
export const dollarText = (value: number): string => {
  const text = amountText(value)
  return text.startsWith(minus) ? `${minus}$${text.slice(1)}` : `$${text}`
}

/** The type of an event for people: `WalletDebited` is `Wallet debited`. */
export const eventName = (type: string): string =>
  type.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

/** An instant for people, to the minute, in UTC. */
export const utcText = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`

/** The same for pages. The machine-readable instant is complete. */
export const timeText = (iso: string | null, none = 'never'): Html =>
  iso === null ? softText(none) : html`<time datetime="${iso}">${utcText(iso)}</time>`

/** A button of `<copy-text>`. Without script it stays hidden. */
export const copyButton = (label: string): Html =>
  html`<button type="button" class="copy" hidden aria-label="${label}">Copy</button>`

/**
 * An id with a button that copies it. Lists shorten it by style: it stays complete for selection, search in the page
 * and screen readers. Other texts are shown whole.
 */
export const idText = (id: string, href?: string): Html => {
  const [, start, middle, end] = /^([a-z]{3}_[0-9a-f]{6})([0-9a-f]{22})([0-9a-f]{4})$/.exec(id) ?? []
  if (start === undefined || middle === undefined || end === undefined)
    return html`<code class="id">${id}</code>`
  const code = html`<code title="${id}">${start}<span>${middle}</span>${end}</code>`
  return html`<copy-text class="id">${href === undefined ? code : html`<a href="${href}">${code}</a>`}${copyButton('Copy the id')}</copy-text>`
}

const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const

/** Bytes in the fitting unit, with up to two decimals: 1 GB is 1,000,000,000 bytes. */
export const bytesText = (bytes: number): string => {
  let unit = 0
  let scale = 1
  while (bytes >= scale * 1000 && unit < units.length - 1) {
    scale *= 1000
    unit += 1
  }
  const hundredths = Math.floor((bytes / scale) * 100)
  const wholePart = Math.floor(hundredths / 100)
  const rest = hundredths % 100
  return `${grouped(String(wholePart))}${rest === 0 ? '' : `.${String(rest).padStart(2, '0')}`} ${units[unit]}`
}

/** The unit of a price in words: `IP/30d` is `IP for 30 days`. */
export const perText = (per: string): string =>
  per.replace(/\/(\d+)d$/, (_, days: string) => ` for ${countText(Number(days), 'day')}`)

/** A count with its noun: `1 key`, `2 keys`. */
export const countText = (count: number, one: string, many = `${one}s`): string =>
  `${grouped(String(count))} ${count === 1 ? one : many}`

const known: ReadonlySet<string> = new Set(
  Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC'),
)

/** The names of the time zones that pages can show. UTC, the default, is not one of them. */
export const zones: readonly string[] = [...known]

/** A time zone by its name; null for UTC and for an unknown name. */
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

/** An instant in a time zone, to the minute, with its offset from UTC: `2026-11-26 03:10 UTC+1`. */
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

/**
 * Rewrites the instants of a page (`timeText`) to a time zone. Days and months stay in UTC, because the books use UTC.
 */
export const pageInZone = (page: string, zone: string): string =>
  page.replace(
    /<time datetime="(\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]{2,6}Z)">[^<]*<\/time>/g,
    (_, iso: string) => `<time datetime="${iso}">${textInZone(iso, zone)}</time>`,
  )
