import { type Html, html } from '../../platform/pages/html.ts'
import { dollarText } from '../frame/text.ts'

/** A bar: how tall it is, and what it says. */
export type PlotBar = { readonly label: string; readonly value: number; readonly text: string }

/** Whole cents of a day. */
export type Bar = { readonly label: string; readonly cents: number }

const width = 640
const height = 120
const bottom = 2

/** Values one after the other as bars, drawn here; the figures stand in a table that the page shows as well. */
export const plotOf = (title: string, bars: readonly PlotBar[]): Html => {
  const most = Math.max(1, ...bars.map(({ value }) => value))
  const step = width / Math.max(1, bars.length)
  const thick = Math.max(1, step - Math.min(3, step / 4))
  const shapes = bars.map(({ label, value, text }, at) => {
    const tall = value <= 0 ? 0 : Math.max(1, Math.round((value / most) * (height - bottom - 8)))
    return html`<rect x="${(at * step + 1.5).toFixed(1)}" y="${height - bottom - tall}" width="${thick.toFixed(1)}" height="${tall}" rx="1.5"><title>${label}: ${text}</title></rect>`
  })
  const first = bars[0]?.label ?? ''
  const last = bars.at(-1)?.label ?? ''
  return html`<svg class="plot" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}">
<line x1="0" y1="${height - bottom}" x2="${width}" y2="${height - bottom}"></line>
${shapes}
</svg>
<p class="axis"><span>${first}</span><span>${last}</span></p>`
}

/** Money by day as bars. */
export const barsOf = (title: string, bars: readonly Bar[]): Html =>
  plotOf(
    title,
    bars.map(({ label, cents }) => ({ label, value: cents, text: dollarText(cents) })),
  )
