import { Readable } from 'node:stream'
import { isoTime } from '../../kernel/clock.ts'
import { type CsvValue, csvHead, csvLines } from '../../kernel/csv.ts'
import { choicesFrom, hiddenOf, optionsOf } from './form.ts'
import type { View } from './frame.ts'
import { type Html, html, nothing } from './html.ts'
import { type Act, type Common, type ConsolePage, fileOf, type PageOutcome, type Visit } from './page.ts'
import { type Column, plainOf, tableOf } from './table.ts'
import { afterOf, buttonLink, queryText } from './text.ts'

/** The maximum number of rows of a page. */
export const pageRows = 50
const fileRowsAtOnce = 1_000
const dayMs = 86_400_000

/** A filter of a list: one of some choices with their labels, or (without choices) a text. */
export type Filter = {
  readonly label: string
  readonly choices?: Readonly<Record<string, string>>
  /** The value without a choice. Left out: the list is not filtered then. */
  readonly standard?: string
  readonly hint?: string
}

export type Filters = Readonly<Record<string, Filter>>

type NoFilters = Readonly<Record<never, Filter>>

export type FilterValues<Declared extends Filters> = {
  readonly [Name in keyof Declared]:
    | (Declared[Name] extends { readonly choices: infer Choices } ? keyof Choices & string : string)
    | undefined
}

/** Choices with readable labels. */
export const labelled = <const Value extends string>(
  values: readonly Value[],
  labels: Partial<Readonly<Record<Value, string>>> = {},
): Readonly<Record<Value, string>> =>
  Object.fromEntries(
    choicesFrom(values).map(({ value, label }) => [value, labels[value as Value] ?? label]),
  ) as Record<Value, string>

/** The rows that a list needs. Times are ISO texts. */
export type ListQuery<Key> = {
  /** After the row with this key; null: from the start. */
  readonly after: Key | null
  readonly limit: number
  /** The text of the search field; empty: none. */
  readonly search: string
  /** From this time on; null: no limit. */
  readonly from: string | null
  /** Before this time; null: no limit. */
  readonly until: string | null
  readonly oldestFirst: boolean
}

type CommonList<V extends ListVisit, Row, Declared extends Filters> = {
  /** The content of the list, for screen readers. */
  readonly caption: string
  readonly filters?: Declared
  /** What the search field accepts. Left out: no search field. */
  readonly search?: string
  /** Shown if there is no row at all: the next step. */
  readonly empty: string | Html
  /** The list has a date range. */
  readonly dated?: true
  /** The name of the file with all rows, e.g. `orders`. Left out: there is no file. */
  readonly file?: string
  readonly limit?: number
  /** Write it after the function that reads the rows: TypeScript then knows their type. */
  readonly columns: (visit: V) => readonly Column<Row>[]
}

/** A list whose rows are read page by page. */
type PagedList<V extends ListVisit, Row, Key, Declared extends Filters> = CommonList<V, Row, Declared> & {
  readonly load: (visit: V, query: ListQuery<Key> & FilterValues<Declared>) => Promise<readonly Row[]>
  /** The key of a row as the text of a link, and its inverse; default: `afterOf`. */
  readonly keyOf: (row: Row) => string
  readonly parseKey?: (text: string | null) => Key | null
  /** The column of the time that orders the rows. It has a date range, and links that reverse the order. */
  readonly orderedBy?: string
  readonly labels?: { readonly first: string; readonly next: string }
}

/** A list that is small enough to be read whole. It is searched and sorted by the values of its columns. */
type WholeList<V extends ListVisit, Row, Declared extends Filters> = CommonList<V, Row, Declared> & {
  readonly rows: (visit: V, values: FilterValues<Declared>) => readonly Row[] | Promise<readonly Row[]>
}

type List<V extends ListVisit, Row, Key, Declared extends Filters> =
  | PagedList<V, Row, Key, Declared>
  | WholeList<V, Row, Declared>

type ListVisit = Pick<Visit, 'path' | 'query' | 'nowMs'>

/** The state of a list in its URL. */
type ListState = {
  readonly values: Readonly<Record<string, string>>
  readonly search: string
  readonly from: string
  readonly to: string
  readonly sort: string
  readonly before: string | null
}

const dayText = /^\d{4}-\d\d-\d\d$/

const dayOf = (text: string | null): string =>
  text !== null && dayText.test(text) && !Number.isNaN(Date.parse(text)) ? text : ''

const stateOf = ({ query }: ListVisit, filters: Filters): ListState => {
  const values: Record<string, string> = {}
  for (const [name, { choices, standard }] of Object.entries(filters)) {
    const text = query.get(name)?.trim().slice(0, 100)
    // An empty choice means all rows, also if the list has a standard value.
    const value =
      text === undefined || (choices && text !== '' && !Object.hasOwn(choices, text)) ? standard : text
    if (value !== undefined) values[name] = value
  }
  return {
    values,
    search: (query.get('search') ?? '').trim().slice(0, 100),
    from: dayOf(query.get('from')),
    to: dayOf(query.get('to')),
    sort: (query.get('sort') ?? '').slice(0, 60),
    before: query.get('before'),
  }
}

/** The state as the query of a link, without the start of the page. */
const queryOf = ({ values, search, from, to, sort }: ListState): Readonly<Record<string, string>> => ({
  ...values,
  ...(search && { search }),
  ...(from && { from }),
  ...(to && { to }),
  ...(sort && { sort }),
})

const filterValues = (
  { values }: ListState,
  filters: Filters,
): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(Object.keys(filters).map((name) => [name, values[name] || undefined]))

const controlOf = (name: string, { label, choices, standard, hint }: Filter, value: string): Html =>
  html`<span><label for="${name}">${label}</label>${
    choices === undefined
      ? html`<input id="${name}" name="${name}" value="${value}" size="12" maxlength="100"${hint === undefined ? null : html` placeholder="${hint}"`}>`
      : html`<select id="${name}" name="${name}">${optionsOf(
          [
            ...(standard === undefined || !Object.hasOwn(choices, standard) || value === ''
              ? [{ value: '', label: 'All' }]
              : []),
            ...Object.entries(choices).map(([each, text]) => ({ value: each, label: text })),
          ],
          value,
        )}</select>`
  }</span> `

const presetsOf = (nowMs: number): readonly { readonly label: string; readonly from: string }[] => {
  const day = (ms: number): string => isoTime(ms).slice(0, 10)
  return [
    { label: 'Today', from: day(nowMs) },
    { label: '7 days', from: day(nowMs - 6 * dayMs) },
    { label: '30 days', from: day(nowMs - 29 * dayMs) },
    { label: 'This month', from: `${day(nowMs).slice(0, 7)}-01` },
  ]
}

/** The filter form above a list. A narrow window shows it on request. */
const controlsOf = (
  { path, nowMs }: ListVisit,
  {
    filters = {},
    search,
    dates,
  }: { readonly filters?: Filters; readonly search?: string | undefined; readonly dates: boolean },
  state: ListState,
  isFiltered: boolean,
): Html => {
  if (Object.keys(filters).length === 0 && search === undefined && !dates) return nothing
  const link = (change: Partial<ListState>): string => `${path}${queryText(queryOf({ ...state, ...change }))}`
  const dateField = (name: 'from' | 'to', label: string): Html =>
    html`<span><label for="${name}">${label}</label><input type="date" id="${name}" name="${name}" value="${state[name]}"></span> `
  return html`<details class="filters wide-open"${isFiltered ? { html: ' open' } : null}><summary>Search and filter</summary><form method="get" action="${path}" role="search" aria-label="Search and filter">${
    search === undefined
      ? null
      : html`<span><label for="search">Search</label><input type="search" id="search" name="search" value="${state.search}" maxlength="100" placeholder="${search}"></span> `
  }${Object.entries(filters).map(([name, filter]) => controlOf(name, filter, state.values[name] ?? ''))}${
    dates ? html`${dateField('from', 'From, UTC')}${dateField('to', 'Through, UTC')}` : null
  }${state.sort === '' ? null : hiddenOf('sort', state.sort)}<button>Apply</button></form>
${
  dates
    ? html`<p class="presets">${presetsOf(nowMs).map(
        ({ label, from }) =>
          html`<a href="${link({ from, to: '' })}"${state.from === from && state.to === '' ? { html: ' aria-current="true"' } : null}>${label}</a> `,
      )}${state.from || state.to ? html`<a href="${link({ from: '', to: '' })}">All dates</a>` : null}</p>`
    : null
}</details>
<h2 class="skip">Results</h2>`
}

/** A form of filters above other content than a list, with its button. */
export const filterForm = (
  path: string,
  filters: Filters,
  values: Readonly<Record<string, string | undefined>>,
  button = 'Show',
): Html =>
  html`<div class="filters"><form method="get" action="${path}" role="search" aria-label="Filter">${Object.entries(
    filters,
  ).map(([name, filter]) =>
    controlOf(name, filter, values[name] ?? ''),
  )}<button>${button}</button></form></div>
<h2 class="skip">Results</h2>`

/** Splits rows into a page and the key of the next page. `found` has one row more than the page if there is a next page. */
export const pagedOf = <Row>(
  found: readonly Row[],
  keyOf: (row: Row) => string,
  limit = pageRows,
): { readonly rows: readonly Row[]; readonly next: string | null } => {
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  return { rows, next: found.length > limit && last !== undefined ? keyOf(last) : null }
}

/** Links of a list that pages by key: to its start and to the next page. */
export const pagerOf = (
  path: string,
  query: Readonly<Record<string, string>>,
  { before, next }: { readonly before: string | null; readonly next: string | null },
  labels: { readonly first: string; readonly next: string } = { first: 'Newest', next: 'Older' },
): Html => {
  if (before === null && next === null) return nothing
  const to = (more: Readonly<Record<string, string>>): string => `${path}${queryText({ ...query, ...more })}`
  return html`<nav class="pager" aria-label="Pages">
${before === null ? null : html`<a href="${to({})}" rel="first">${labels.first}</a>`}
${next === null ? null : html`<a href="${to({ before: next })}" rel="next">${labels.next}</a>`}
</nav>`
}

const compare = (one: CsvValue, other: CsvValue): number => {
  if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1
  if (typeof one === 'number' && typeof other === 'number') return one - other
  const [first, second] = [Number(one), Number(other)]
  return Number.isNaN(first) || Number.isNaN(second) || one === '' || other === ''
    ? String(one).localeCompare(String(other), 'en')
    : first - second
}

/** Rows that are in memory as a list that is read page by page. The key of a row is its number. */
const pagedFrom = <V extends ListVisit, Row, Declared extends Filters>(
  list: WholeList<V, Row, Declared>,
  columns: readonly Column<Row>[],
  sort: string,
): PagedList<V, Row, number, Declared> => {
  const descending = sort.startsWith('-')
  const sorted = columns.find(({ title }) => title === sort.replace('-', ''))
  const numbers = new Map<Row, number>()
  return {
    ...list,
    keyOf: (row) => String(numbers.get(row)),
    parseKey: (text) => (text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null),
    labels: { first: 'First page', next: 'Next page' },
    load: async (visit, query) => {
      const all = await list.rows(visit, query)
      const wanted = query.search.toLowerCase()
      const found =
        wanted === ''
          ? all
          : all.filter((row) =>
              columns.some((column) =>
                String(plainOf(column, row) ?? '')
                  .toLowerCase()
                  .includes(wanted),
              ),
            )
      const ordered = sorted
        ? found.toSorted(
            (one, other) => compare(plainOf(sorted, one), plainOf(sorted, other)) * (descending ? -1 : 1),
          )
        : found
      for (const [at, row] of ordered.entries()) numbers.set(row, at)
      const start = query.after === null ? 0 : query.after + 1
      return ordered.slice(start, start + query.limit)
    },
  }
}

/** The links of the column heads that sort the list, and their state. */
const sortHead =
  (path: string, state: ListState, isSortable: (title: string) => boolean, newestFirst: string | undefined) =>
  (title: string): { readonly href: string; readonly order: 'ascending' | 'descending' | null } | null => {
    if (!isSortable(title)) return null
    const sort = state.sort === '' && newestFirst === title ? `-${title}` : state.sort
    const isSorted = sort.replace('-', '') === title
    const descending = isSorted && sort.startsWith('-')
    const next =
      newestFirst === title ? (descending ? title : '') : isSorted && !descending ? `-${title}` : title
    return {
      href: `${path}${queryText(queryOf({ ...state, sort: next }))}`,
      order: isSorted ? (descending ? 'descending' : 'ascending') : null,
    }
  }

async function* fileLines<Row>(
  columns: readonly Column<Row>[],
  pages: AsyncIterable<readonly Row[]>,
): AsyncGenerator<string> {
  const inFile = columns.filter(({ value }) => value !== undefined)
  yield csvHead(inFile.map(({ title }) => title))
  for await (const rows of pages)
    yield csvLines(rows.map((row) => inFile.map((column) => plainOf(column, row))))
}

/**
 * A list with its search, filters, date range, order, pages and file. The file has the rows that the page finds, in the
 * same order.
 */
export const listOf = async <
  V extends ListVisit,
  Row,
  Key = { readonly at: string; readonly id: string },
  const Declared extends Filters = NoFilters,
>(
  visit: V,
  declared: List<V, Row, Key, Declared>,
): Promise<{ readonly body: Html; readonly file: PageOutcome | null; readonly fileLink: Html }> => {
  const { path, query } = visit
  const filters: Filters = declared.filters ?? {}
  const state = stateOf(visit, filters)
  const isPaged = 'load' in declared
  const columns = declared.columns(visit)
  const list = (isPaged ? declared : pagedFrom(declared, columns, state.sort)) as PagedList<
    V,
    Row,
    Key,
    Declared
  >
  const { limit = pageRows, orderedBy, parseKey = afterOf as (text: string | null) => Key | null } = list
  const oldestFirst = state.sort !== '' && state.sort === orderedBy
  const load = (after: Key | null, count: number): Promise<readonly Row[]> =>
    list.load(visit, {
      ...(filterValues(state, filters) as FilterValues<Declared>),
      after,
      limit: count,
      search: state.search,
      from: (state.from && isoTime(Date.parse(state.from))) || null,
      until: (state.to && isoTime(Date.parse(state.to) + dayMs)) || null,
      oldestFirst,
    })
  if (declared.file !== undefined && query.get('format') === 'csv') {
    const pages = async function* (): AsyncGenerator<readonly Row[]> {
      for (let after: Key | null = null; ; ) {
        const rows = await load(after, fileRowsAtOnce)
        yield rows
        const last = rows.at(-1)
        if (rows.length < fileRowsAtOnce || last === undefined) return
        after = parseKey(list.keyOf(last))
      }
    }
    const name = `${declared.file}-${isoTime(visit.nowMs).slice(0, 10)}.csv`
    return {
      body: nothing,
      fileLink: nothing,
      file: fileOf(name, Readable.from(fileLines(columns, pages()))),
    }
  }
  const after = parseKey(state.before)
  const { rows, next } = pagedOf(await load(after, limit + 1), list.keyOf, limit)
  const standards = Object.entries(filters).some(
    ([name, { standard = '' }]) => (state.values[name] ?? '') !== standard,
  )
  const isFiltered = standards || state.search !== '' || state.from !== '' || state.to !== ''
  const empty = isFiltered
    ? html`<p>Nothing matches. <a href="${path}">Reset the filters</a></p>`
    : after === null
      ? typeof list.empty === 'string'
        ? html`<p>${list.empty}</p>`
        : list.empty
      : html`<p>There are no more entries.</p>`
  const hasValue = new Set(columns.flatMap(({ title, value }) => (value === undefined ? [] : [title])))
  const isSortable = (title: string): boolean => (isPaged ? title === orderedBy : hasValue.has(title))
  return {
    file: null,
    fileLink:
      declared.file === undefined || (rows.length === 0 && after === null)
        ? nothing
        : buttonLink(`${path}${queryText({ ...queryOf(state), format: 'csv' })}`, 'Download CSV'),
    body: html`${controlsOf(visit, { filters, search: declared.search, dates: declared.dated || orderedBy !== undefined }, state, isFiltered)}
${tableOf({
  caption: list.caption,
  columns,
  rows,
  empty,
  sortHead: rows.length < 2 && after === null ? undefined : sortHead(path, state, isSortable, orderedBy),
})}
${pagerOf(path, queryOf(state), { before: after === null ? null : state.before, next }, oldestFirst ? { first: 'Oldest', next: 'Newer' } : list.labels)}`,
  }
}

/** A page that is a list. */
export const listPage = <
  V extends Visit,
  Row,
  Key = { readonly at: string; readonly id: string },
  const Declared extends Filters = NoFilters,
>(
  createPage: (
    page: Common & { show(visit: V): Promise<View | PageOutcome>; readonly act?: Act<V> },
  ) => ConsolePage,
  page: Common &
    List<V, Row, Key, Declared> & {
      readonly title: string
      readonly actions?: Html
      /** Shown above the list. */
      readonly intro?: (visit: V) => Html | Promise<Html>
      readonly cliEquivalents?: (visit: V) => readonly string[]
      readonly act?: Act<V>
    },
): ConsolePage => {
  const { path, name, summary, crumb, act, title, actions = nothing, intro, cliEquivalents, ...list } = page
  return createPage({
    path,
    name,
    summary,
    ...(crumb && { crumb }),
    ...(act && { act }),
    show: async (visit) => {
      const { body, file, fileLink } = await listOf<V, Row, Key, Declared>(visit, list as typeof page)
      if (file !== null) return file
      return {
        title,
        actions: html`${actions}${fileLink}`,
        body: html`${(await intro?.(visit)) ?? null}${body}`,
        cliEquivalents: cliEquivalents?.(visit) ?? [],
      }
    },
  })
}
