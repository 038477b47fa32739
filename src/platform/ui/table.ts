import { type Choice, choicesFrom, optionsOf } from './form.ts'
import { type Html, html, nothing } from './html.ts'
import { afterOf, dollarText, queryText } from './text.ts'

export type Column<Row> = {
  readonly title: string
  readonly cell: (row: Row) => Html | string | number | null
  /** Numbers are right-aligned, with digits of one width. */
  readonly number?: true
  /** The column that names the row. */
  readonly head?: true
}

type TableView<Row> = {
  /** The content of the table, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Shown in place of a table without rows. Left out: nothing. */
  readonly empty?: Html | string | undefined
}

const cells = <Row>({ columns }: TableView<Row>, row: Row): readonly Html[] =>
  columns.map(({ cell, number, head }) => {
    const cellView = cell(row)
    const numbers = number ? { html: ' class="number"' } : null
    return head ? html`<th scope="row"${numbers}>${cellView}</th>` : html`<td${numbers}>${cellView}</td>`
  })

/** A table that scrolls sideways if it is too wide, also by keyboard. */
export const tableOf = <Row>(view: TableView<Row>): Html => {
  const { empty } = view
  if (view.rows.length === 0)
    return empty === undefined
      ? nothing
      : html`<div class="empty">${typeof empty === 'string' ? html`<p>${empty}</p>` : empty}</div>`
  const heads = view.columns.map(
    ({ title, number }) => html`<th scope="col"${number ? { html: ' class="number"' } : null}>${title}</th>`,
  )
  return html`<div class="table" role="region" aria-label="${view.caption}" tabindex="0"><table>
<caption>${view.caption}</caption>
<thead><tr>${heads}</tr></thead>
<tbody>${view.rows.map((row) => html`<tr>${cells(view, row)}</tr>\n`)}</tbody>
</table></div>`
}

/** A page of a list, and the start of the next page; null: there is none. */
export type Paged<Row> = { readonly rows: readonly Row[]; readonly next: string | null }

/** The maximum number of rows of a page. */
export const pageRows = 50

/**
 * Splits rows into a page and the key of the next page. `found` has one row more than the page if there is a next page.
 */
export const pagedOf = <Row>(
  found: readonly Row[],
  keyOf: (row: Row) => string,
  limit = pageRows,
): Paged<Row> => {
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  return { rows, next: found.length > limit && last !== undefined ? keyOf(last) : null }
}

/** Links of a list that pages by key: to its start and to the next page. */
export const pagerOf = (
  path: string,
  query: Readonly<Record<string, string>>,
  { before, next }: { readonly before: string | null; readonly next: string | null },
  words: { readonly first: string; readonly next: string } = { first: 'Newest', next: 'Older' },
): Html => {
  if (before === null && next === null) return nothing
  const to = (more: Readonly<Record<string, string>>): string => `${path}${queryText({ ...query, ...more })}`
  return html`<nav class="pager" aria-label="Pages">
${before === null ? null : html`<a href="${to({})}" rel="first">${words.first}</a>`}
${next === null ? null : html`<a href="${to({ before: next })}" rel="next">${words.next}</a>`}
</nav>`
}

/** A filter of a list: one of some choices, or (without choices) a text. */
export type Filter = {
  readonly name: string
  readonly label: string
  readonly value: string | undefined
  /** The list is unfiltered without a choice, unless it is `required`. */
  readonly choices?: readonly (string | Choice)[]
  readonly required?: true
  readonly hint?: string
}

const filterControl = ({ name, value = '', choices, required, hint }: Filter): Html => {
  if (choices === undefined)
    return html`<input id="${name}" name="${name}" value="${value}" size="8" maxlength="100"${hint === undefined ? null : html` placeholder="${hint}"`}>`
  const all = choices.flatMap((choice) => (typeof choice === 'string' ? choicesFrom([choice]) : [choice]))
  return html`<select id="${name}" name="${name}">${optionsOf(required ? all : [{ value: '', label: 'any' }, ...all], value)}</select>`
}

/** The filter form above a list. The hidden heading names the list for screen readers. */
export const filtersOf = (path: string, filters: readonly Filter[], label = 'Show'): Html =>
  html`<form method="get" action="${path}" class="filters" role="search">${filters.map(
    (filter) =>
      html`<span><label for="${filter.name}">${filter.label}</label> ${filterControl(filter)}</span> `,
  )}<button>${label}</button></form>
<h2 class="skip">The list</h2>`

/** The values of the filters that are set, for links. */
export const filterQuery = (filters: readonly Filter[]): Readonly<Record<string, string>> =>
  Object.fromEntries(filters.flatMap(({ name, value }) => (value ? [[name, value]] : [])))

/** A list that pages by key, with its filters. */
type PagedList<Row, Key> = Pick<TableView<Row>, 'caption' | 'columns'> & {
  readonly filters?: readonly Filter[]
  /** Loads up to `limit` rows after the key; null: from the start. */
  readonly load: (page: { readonly after: Key | null; readonly limit: number }) => Promise<readonly Row[]>
  /** The key of a row as the text of a link, and its inverse; default: `afterOf`. */
  readonly keyOf: (row: Row) => string
  readonly parseKey?: (text: string | null) => Key | null
  /** Shown if there is no row at all. */
  readonly empty: string | Html
  readonly limit?: number
  readonly labels?: { readonly first: string; readonly next: string }
}

/** A page of a list: filters, table, and links to its start and to the next page. */
export const listOf = async <Row, Key = { readonly at: string; readonly id: string }>(
  { path, query }: { readonly path: string; readonly query: URLSearchParams },
  list: PagedList<Row, Key>,
): Promise<Html> => {
  const { filters = [], limit = pageRows, parseKey = afterOf as (text: string | null) => Key | null } = list
  const before = query.get('before')
  const after = parseKey(before)
  const { rows, next } = pagedOf(await list.load({ after, limit: limit + 1 }), list.keyOf, limit)
  const values = filterQuery(filters)
  const isFiltered = filters.some(({ value, required }) => value && !required)
  const empty = isFiltered
    ? html`Nothing matches. <a href="${path}">Show all</a>`
    : after === null
      ? list.empty
      : 'There are no more entries.'
  return html`${filters.length === 0 ? null : filtersOf(path, filters)}
${tableOf({ caption: list.caption, columns: list.columns, rows, empty: html`<p>${empty}</p>` })}
${pagerOf(path, values, { before: after === null ? null : before, next }, list.labels)}`
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

/** A bar: its label, its value (below zero it hangs from the line), and the value as text. */
type PlotBar = { readonly label: string; readonly value: number; readonly text: string }

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
  return html`${top === null ? nothing : html`<p class="axis"><span>Peak ${top.text}, ${top.label}</span></p>`}
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
