import { type Html, html, nothing } from './html.ts'
import { dollarText } from './text.ts'

/** A bar: its label, its value (below zero it hangs from the line), and the value as text. */
export type PlotBar = { readonly label: string; readonly value: number; readonly text: string }

/** Whole cents of a day. */
export type Bar = { readonly label: string; readonly cents: number }

const width = 640
const height = 120
/** Space above the tallest bar and below the lowest. */
const margin = 2

const tallest = (bars: readonly PlotBar[]): PlotBar | null =>
  bars.reduce<PlotBar | null>((highest, bar) => (bar.value > (highest?.value ?? 0) ? bar : highest), null)

/**
 * Draws values in order as bars. Those below zero hang from the line. The tallest is labelled. The page shows the
 * figures in a table as well.
 */
export const plotOf = (title: string, bars: readonly PlotBar[]): Html => {
  const values = bars.map(({ value }) => value)
  const highest = Math.max(0, ...values)
  const smallest = Math.min(0, ...values)
  const scale = (height - 2 * margin) / Math.max(1, highest - smallest)
  const zero = margin + highest * scale
  const step = width / Math.max(1, bars.length)
  const barThickness = Math.max(1, step - Math.min(3, step / 4))
  const shapes = bars.map(({ label, value, text }, at) => {
    const barHeight = value === 0 ? 0 : Math.max(1, Math.abs(value) * scale)
    const top = value < 0 ? zero : zero - barHeight
    return html`<rect${value < 0 ? html` class="below"` : nothing} x="${(at * step + 1.5).toFixed(1)}" y="${top.toFixed(1)}" width="${barThickness.toFixed(1)}" height="${barHeight.toFixed(1)}" rx="1.5"><title>${label}: ${text}</title></rect>`
  })
  const first = bars[0]?.label ?? ''
  const last = bars.at(-1)?.label ?? ''
  const top = tallest(bars)
  return html`${top === null ? nothing : html`<p class="axis"><span>At most ${top.text}, ${top.label}</span></p>`}
<svg class="plot" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}">
<line x1="0" y1="${zero.toFixed(1)}" x2="${width}" y2="${zero.toFixed(1)}"></line>
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
