import { isoTime } from '../../kernel/clock.ts'
import type { Period as Span } from '../../market/resellers/margins.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import {
  endOfPeriodMs,
  nextPeriod,
  type Period,
  parsePeriod,
  periodBefore,
  periodOf,
} from '../../terms/month.ts'

/** The month that a page is asked for; this one when it is asked for none. */
export const monthIn = (query: URLSearchParams, nowMs: number): Period =>
  parsePeriod(query.get('month') ?? '') ?? periodOf(isoTime(nowMs))

/** From its first instant on, and before that of the next month; milliseconds, UTC. */
export const spanOfMonth = (month: Period): Span & { readonly fromMs: number; readonly toMs: number } => ({
  fromMs: Date.parse(`${month}-01T00:00:00Z`),
  toMs: endOfPeriodMs(month),
})

/** `from` and `to` as calls of the API take them. */
export const monthQuery = (month: Period): string => `from=${month}-01&to=${nextPeriod(month)}-01`

/** Every day of a month that began by now: `2026-11-01` … */
export const daysOfMonth = (month: Period, nowMs: number): readonly string[] => {
  const { fromMs, toMs } = spanOfMonth(month)
  const days: string[] = []
  for (let at = fromMs; at < toMs && at <= nowMs; at += 86_400_000) days.push(isoTime(at).slice(0, 10))
  return days
}

/** Links to the months around one, which stay on the page. */
export const monthLinks = (
  path: string,
  month: Period,
  nowMs: number,
  more: Readonly<Record<string, string>> = {},
): Html => {
  const to = (each: Period): string => `${path}?${new URLSearchParams({ month: each, ...more })}`
  const next = nextPeriod(month)
  return html`<p><a href="${to(periodBefore(month))}">${periodBefore(month)}</a> <strong>${month}</strong>${next <= periodOf(isoTime(nowMs)) ? html` <a href="${to(next)}">${next}</a>` : null} <span class="soft">A month is UTC.</span></p>`
}
