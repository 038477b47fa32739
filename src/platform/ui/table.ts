import { type Html, html, nothing } from './html.ts'

export type Column<Row> = {
  readonly title: string
  readonly cell: (row: Row) => Html | string
  /** Numbers are right-aligned, with digits of one width. */
  readonly number?: true
  /** The column that names the row. */
  readonly head?: true
}

export type TableView<Row> = {
  /** The content of the table, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Shown in place of a table without rows. */
  readonly empty: Html
}

const cells = <Row>({ columns }: TableView<Row>, row: Row): readonly Html[] =>
  columns.map(({ cell, number, head }) => {
    const cellView = cell(row)
    const numbers = number ? { html: ' class="number"' } : null
    return head ? html`<th scope="row"${numbers}>${cellView}</th>` : html`<td${numbers}>${cellView}</td>`
  })

/** A table that scrolls sideways if it is too wide, also by keyboard. */
export const tableOf = <Row>(view: TableView<Row>): Html => {
  if (view.rows.length === 0) return html`<div class="empty">${view.empty}</div>`
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
  const to = (more: Readonly<Record<string, string>>): string => {
    const text = new URLSearchParams({ ...query, ...more }).toString()
    return text === '' ? path : `${path}?${text}`
  }
  return html`<nav class="pager" aria-label="Pages">
${before === null ? null : html`<a href="${to({})}" rel="first">${words.first}</a>`}
${next === null ? null : html`<a href="${to({ before: next })}" rel="next">${words.next}</a>`}
</nav>`
}

/** A filter of a list: one of some choices, or (without choices) a text. */
export type Filter = {
  readonly name: string
  readonly label: string
  readonly value: string
  readonly choices?: readonly { readonly value: string; readonly label: string }[]
  readonly hint?: string
}

const filterControl = ({ name, value, choices, hint }: Filter): Html =>
  choices === undefined
    ? html`<input id="${name}" name="${name}" value="${value}" size="6" maxlength="100"${hint === undefined ? null : html` placeholder="${hint}"`}>`
    : html`<select id="${name}" name="${name}">${choices.map(
        (each) =>
          html`<option value="${each.value}"${each.value === value ? { html: ' selected' } : null}>${each.label}</option>`,
      )}</select>`

/** The filter form above a list. The hidden heading names the list for screen readers. */
export const filtersOf = (path: string, filters: readonly Filter[]): Html =>
  html`<form method="get" action="${path}" class="filters" role="search">${filters.map(
    (filter) =>
      html`<span><label for="${filter.name}">${filter.label}</label> ${filterControl(filter)}</span> `,
  )}<button>Show</button></form>
<h2 class="skip">The list</h2>`
