import type { CsvValue } from '../../kernel/csv.ts'
import { type Html, html, nothing } from './html.ts'
import { amountText, type BadgeTone, idText, microsText, softText, stateText, timeText } from './text.ts'

type Cell = Html | string | number | null

export type Column<Row> = {
  readonly title: string
  readonly cell: (row: Row) => Cell
  /** The plain value, for files, search and order. Left out: the column is on the page only. */
  readonly value?: (row: Row) => CsvValue
  /** Numbers are right-aligned, with digits of one width. */
  readonly number?: true
  /** The column that names the row. */
  readonly head?: true
  /**
   * In a narrow window a row is a card. Its first line has the head and the `lead`. The other cells follow, with their
   * titles, or (`plain`) without. Cells that are `minor` are left out. `file`: the column is in files only.
   */
  readonly place?: 'lead' | 'plain' | 'minor' | 'file'
}

export const plainOf = <Row>({ value }: Column<Row>, row: Row): CsvValue => value?.(row) ?? null

type Place<Row> = Pick<Column<Row>, 'place'>

/** The name of a row, with a link and a short note. */
export const nameColumn = <Row>(
  title: string,
  nameOf: (row: Row) => {
    readonly text: string
    readonly href?: string | null
    readonly note?: Html | string | null
  },
): Column<Row> => ({
  title,
  head: true,
  value: (row) => nameOf(row).text,
  cell: (row) => {
    const { text, href, note } = nameOf(row)
    return html`${href ? html`<a href="${href}">${text}</a>` : text}${note ? html` <small>${note}</small>` : null}`
  },
})

/** A text; `none` is shown for null. */
export const textColumn = <Row>(
  title: string,
  textOf: (row: Row) => string | null,
  { none, place }: Place<Row> & { readonly none?: string } = {},
): Column<Row> => ({
  title,
  value: textOf,
  cell: (row) => textOf(row) ?? (none === undefined ? null : softText(none)),
  ...(place && { place }),
})

export const countColumn = <Row>(
  title: string,
  countOf: (row: Row) => number | null,
  { place }: Place<Row> = {},
): Column<Row> => ({
  title,
  number: true,
  value: countOf,
  cell: (row) => countOf(row)?.toLocaleString('en-US') ?? null,
  ...(place && { place }),
})

/** A text of an amount for files: `-1234.50`. */
const plainAmount = (text: string): string => text.replaceAll(',', '').replace('\u2212', '-')

/** Whole cents; `none` is shown for null. */
export const amountColumn = <Row>(
  title: string,
  centsOf: (row: Row) => number | null,
  { none = 'none', place }: Place<Row> & { readonly none?: string } = {},
): Column<Row> => ({
  title: `${title}, USD`,
  number: true,
  value: (row) => {
    const amount = centsOf(row)
    return amount === null ? null : plainAmount(amountText(amount))
  },
  cell: (row) => {
    const amount = centsOf(row)
    return amount === null ? softText(none) : amountText(amount)
  },
  ...(place && { place }),
})

/** Micro-dollars. Digits after the cents are shown only if they are not zero. */
export const microsColumn = <Row>(
  title: string,
  microsOf: (row: Row) => number | null,
  { place }: Place<Row> = {},
): Column<Row> => ({
  title: `${title}, USD`,
  number: true,
  value: (row) => {
    const micros = microsOf(row)
    return micros === null ? null : plainAmount(microsText(micros))
  },
  cell: (row) => {
    const micros = microsOf(row)
    return micros === null ? null : microsText(micros)
  },
  ...(place && { place }),
})

/** A time; `none` is shown for null. */
export const timeColumn = <Row>(
  title: string,
  timeOf: (row: Row) => string | null,
  { none = 'never', place }: Place<Row> & { readonly none?: string } = {},
): Column<Row> => ({
  title,
  value: timeOf,
  cell: (row) => timeText(timeOf(row), none),
  ...(place && { place }),
})

/** A state as a word with its tone. */
export const stateColumn = <Row>(
  title: string,
  stateOf: (row: Row) => readonly [word: string, tone: BadgeTone],
): Column<Row> => ({
  title,
  value: (row) => stateOf(row)[0],
  cell: (row) => stateText(...stateOf(row)),
  place: 'plain',
})

/** An id, shortened, with a button that copies it. */
export const idColumn = <Row>(
  title: string,
  idOf: (row: Row) => string | null,
  { hrefOf, place = 'minor' }: Place<Row> & { readonly hrefOf?: (row: Row) => string | null } = {},
): Column<Row> => ({
  title,
  value: idOf,
  cell: (row) => {
    const id = idOf(row)
    return id === null ? null : idText(id, hrefOf?.(row) ?? undefined)
  },
  place,
})

type TableView<Row> = {
  /** The content of the table, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Shown in place of a table without rows. Left out: nothing. */
  readonly empty?: Html | string | undefined
  /** The link that sorts by a column, and its order; null: it does not sort. */
  readonly sortHead?:
    | ((title: string) => { readonly href: string; readonly order: 'ascending' | 'descending' | null } | null)
    | undefined
}

/** The attributes of a cell. The style reads the title of the column in a narrow window. */
const cellAttributes = <Row>({ number, head, place, title }: Column<Row>): Html => {
  const classes = [number ? 'number' : '', place === 'lead' || place === 'minor' ? place : ''].filter(
    (each) => each,
  )
  const isLabelled = !head && place === undefined
  return html`${classes.length === 0 ? null : html` class="${classes.join(' ')}"`}${isLabelled ? html` data-label="${title}"` : null}`
}

/** A table. In a narrow window its rows are cards. */
export const tableOf = <Row>(view: TableView<Row>): Html => {
  const { empty, caption, sortHead } = view
  if (view.rows.length === 0)
    return empty === undefined
      ? nothing
      : html`<div class="empty">${typeof empty === 'string' ? html`<p>${empty}</p>` : empty}</div>`
  const columns = view.columns
    .filter(({ place }) => place !== 'file')
    .map((column) => ({ ...column, attributes: cellAttributes(column) }))
  const heads = columns.map(({ title, number }) => {
    const sort = sortHead?.(title) ?? null
    return html`<th scope="col"${number ? { html: ' class="number"' } : null}${sort?.order ? html` aria-sort="${sort.order}"` : null}>${sort === null ? title : html`<a href="${sort.href}">${title}</a>`}</th>`
  })
  return html`<div class="table" role="region" aria-label="${caption}" tabindex="0"><table>
<caption>${caption}</caption>
<thead><tr>${heads}</tr></thead>
<tbody>${view.rows.map(
    (row) =>
      html`<tr>${columns.map(({ cell, head, attributes }) =>
        head
          ? html`<th scope="row"${attributes}>${cell(row)}</th>`
          : html`<td${attributes}>${cell(row)}</td>`,
      )}</tr>\n`,
  )}</tbody>
</table></div>`
}

/** Rows of a label and a value. Rows without a value are left out. */
export const detailsOf = (rows: readonly (readonly [string, Html | string | 0 | null | undefined])[]): Html =>
  html`<dl class="facts">${rows.map(([label, value]) =>
    value ? html`<dt>${label}</dt><dd>${value}</dd>\n` : nothing,
  )}</dl>`

/** A card with a figure. */
export const figureCard = (title: string, figure: string, more: Html | null = null): Html =>
  html`<section class="card"><h2>${title}</h2><p class="figure">${figure}</p>${more}</section>`

/** The events of a resource for its owner, oldest first. */
export const timelineOf = (
  events: readonly { readonly heading: string; readonly detail: Html | string | null; readonly at: Html }[],
): Html =>
  html`<ol class="timeline">${events.map(
    ({ heading, detail, at }) =>
      html`<li><strong>${heading}</strong>${detail === null ? null : html`<br>${detail}`}<br><small>${at}</small></li>\n`,
  )}</ol>`

const plotWidth = 640
const plotHeight = 140
/** Space above the highest tick and below the lowest. */
const plotMargin = 8

/** Round values of an axis, e.g. 0, 50, 100: at most four from `from` to `to`. */
const ticksOf = (from: number, to: number): readonly number[] => {
  const least = Math.max(1, (to - from) / 3)
  const power = 10 ** Math.floor(Math.log10(least))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least) ?? least
  const first = Math.floor(from / step)
  return Array.from({ length: Math.max(2, Math.ceil(to / step) - first + 1) }, (_, at) => (first + at) * step)
}

type Plot = {
  /** The content of the plot, for screen readers. */
  readonly title: string
  /** In order of time. Values below zero hang from the line. */
  readonly bars: readonly { readonly label: string; readonly value: number }[]
  /** Writes a value with its unit. */
  readonly write: (value: number) => string
  /** The values of the period before, drawn as a line over the bars. */
  readonly before?: { readonly label: string; readonly values: readonly number[] }
  /** Adds the figures as a table, with this title of the first column. */
  readonly table?: string
}

const plotTable = ({ title, bars, write, before, table = '' }: Plot): Html => {
  const rows = bars
    .map(({ label, value }, at) => ({ label, value, earlier: before?.values[at] ?? 0 }))
    .filter(({ value, earlier }) => value !== 0 || earlier !== 0)
  return html`<details><summary>Show as table</summary>${tableOf<(typeof rows)[number]>({
    caption: title,
    rows: rows.toReversed(),
    empty: 'All values are zero.',
    columns: [
      { title: table, head: true, cell: ({ label }) => label },
      { title: 'Value', number: true, place: 'lead', cell: ({ value }) => write(value) },
      ...(before
        ? [
            {
              title: 'Period before',
              number: true as const,
              cell: ({ earlier }: (typeof rows)[number]) => write(earlier),
            },
          ]
        : []),
    ],
  })}</details>`
}

/** Draws values as bars with an axis. */
export const plotOf = (plot: Plot): Html => {
  const { title, bars, write, before } = plot
  const values = [0, ...bars.map(({ value }) => value), ...(before?.values ?? [])]
  const ticks = ticksOf(Math.min(...values), Math.max(...values))
  const [lowest = 0, highest = lowest + 1] = [ticks[0], ticks.at(-1)]
  const yOf = (value: number): number =>
    plotMargin + ((highest - value) / (highest - lowest)) * (plotHeight - 2 * plotMargin)
  const step = plotWidth / bars.length
  const barWidth = Math.max(1, step - Math.min(3, step / 4))
  const marks = [0, Math.floor(bars.length / 2), bars.length - 1].map((at) => bars[at]?.label ?? '')
  const points = before?.values.map(
    (value, at) => `${((at + 0.5) * step).toFixed(1)},${yOf(value).toFixed(1)}`,
  )
  return html`<figure class="plot"><svg class="scale" width="72" height="${plotHeight}" aria-hidden="true">${ticks.map((tick) => html`<text x="66" y="${(yOf(tick) + 4).toFixed(1)}">${write(tick)}</text>`)}</svg>
<svg class="bars" viewBox="0 0 ${plotWidth} ${plotHeight}" preserveAspectRatio="none" role="img" aria-label="${title}">
${ticks.map((tick) => html`<line${tick === 0 ? html` class="zero"` : null} x2="${plotWidth}" y1="${yOf(tick).toFixed(1)}" y2="${yOf(tick).toFixed(1)}"></line>`)}
${bars.map(({ label, value }, at) => {
  if (value === 0) return nothing
  const barHeight = Math.max(1, Math.abs(yOf(value) - yOf(0)))
  return html`<rect${value < 0 ? html` class="below"` : nothing} x="${(at * step).toFixed(1)}" y="${(value < 0 ? yOf(0) : yOf(0) - barHeight).toFixed(1)}" width="${barWidth.toFixed(1)}" height="${barHeight.toFixed(1)}"><title>${label}: ${write(value)}</title></rect>`
})}
${points === undefined ? null : html`<polyline points="${points.join(' ')}"></polyline>`}</svg>
<figcaption class="axis">${marks.map((mark) => html`<span>${mark}</span>`)}</figcaption>${before === undefined ? null : html`<p class="key">Line: ${before.label}</p>`}</figure>${plot.table === undefined ? null : plotTable(plot)}`
}
