import { type Html, html } from '../../platform/pages/html.ts'
import { cents, micros } from '../../terms/money.ts'

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
