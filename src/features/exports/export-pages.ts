import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { choicesOf, emptyFormInput, fieldOf, problemsOf } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  displayNameOf,
  type PageOutcome,
  type PersonVisit,
  personPage,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { bytesText, countText, stateText, timeText } from '../../platform/ui/text.ts'
import {
  bookForms,
  checkBook,
  type JournalHead,
  linkedText,
  momentForms,
  nonEmptyFields,
  problemOf,
  questionOf,
  textOf,
} from '../finance/index.ts'
import type { ExportRequest, ExportRun, ExportRuns } from './export-runs.ts'
import { type Format, formats } from './journal-formats.ts'

const path = '/console/finance/exports'

const formatTexts: Readonly<
  Record<Format, { readonly label: string; readonly hint: string; readonly ending: string }>
> = {
  csv: { label: 'csv', hint: 'a posting a line, for spreadsheets', ending: 'csv' },
  hledger: { label: 'hledger', hint: 'a journal that hledger and ledger read', ending: 'journal' },
  beancount: { label: 'beancount', hint: 'a journal that beancount and Fava read', ending: 'beancount' },
  jsonl: {
    label: 'jsonl',
    hint: 'every event, whole: the same log is made of it, and seals are checked over it; of no single book',
    ending: 'jsonl',
  },
}

const formatIn = (query: URLSearchParams): Format =>
  formats.find((each) => each === textOf(query, 'format')) ?? 'csv'

type ExportServices = {
  readonly pool: pg.Pool
  readonly journalHead: JournalHead
  readonly exports: ExportRuns
}

/** The requested export, or the problems of the input. */
const readRequest = async (
  { pool, journalHead }: Pick<ExportServices, 'pool' | 'journalHead'>,
  { query, nowMs }: PersonVisit,
) => {
  const format = formatIn(query)
  const { asked: exportRequest, problems, typed } = questionOf(query, await journalHead(), nowMs)
  const inputProblems: Record<string, string> = { ...problems }
  const book = typed.book === '' ? null : typed.book
  await checkBook(pool, book ?? undefined).catch((error) => {
    inputProblems.book = problemOf(error)
  })
  if (format === 'jsonl' && book !== null)
    inputProblems.book = 'jsonl is the whole log: leave the book empty.'
  const until = 'asOf' in exportRequest ? (exportRequest.asOf ?? null) : null
  return { asked: { format, book, until } satisfies ExportRequest, typed, problems: inputProblems }
}

const commandOf = ({ format, book }: ExportRequest, until: string): string =>
  `npx farebox ledger export --format ${format}${book === null ? '' : ` --book ${book}`}${until === '' ? '' : ` --until ${until}`} --out ledger.${formatTexts[format].ending}`

const stateOf = ({ state }: ExportRun): Html => {
  switch (state.kind) {
    case 'runs':
      return html`${stateText('streams', 'warn')}<br><small class="soft">${countText(state.events, 'event')} so far</small>`
    case 'broke off':
      return stateText('broke off', 'bad')
    case 'whole':
      return stateText('whole', 'good')
    default:
      return state satisfies never
  }
}

const exportsPage = async (services: ExportServices, visit: PersonVisit) => {
  const { asked: exportRequest, typed, problems } = await readRequest(services, visit)
  const { roles } = visit.visitor
  const list = services.exports.list()
  const completedState = ({ state }: ExportRun) => (state.kind === 'whole' ? state : null)
  const latest = list.flatMap((run) => {
    const state = completedState(run)
    return state === null ? [] : [{ run, until: positionToken(state.position) }]
  })[0]
  const command = latest ? commandOf(latest.run, latest.until) : commandOf(exportRequest, typed.to)
  return show({
    title: 'Exports',
    body: html`<p>The ledger as a file. It streams from the log as it is at that moment; through the same position it is always the same bytes, whoever exports it.</p>
${problemsOf(problems)}
<form method="get" action="${path}/file" class="stack" novalidate>
${choicesOf({ name: 'format', legend: 'Format', choices: formats.map((value) => ({ value, ...formatTexts[value] })), chosen: [exportRequest.format], one: true }, emptyFormInput)}
${fieldOf({ name: 'book', label: 'Book', hint: `${bookForms}. Left empty: every book.`, value: typed.book }, emptyFormInput, problems)}
${fieldOf({ name: 'to', label: 'Until', hint: `Through the last event at or before it: ${momentForms}. Left empty: all that is there by now.`, value: typed.to }, emptyFormInput, problems)}
<div class="acts"><button class="first">Download</button></div>
</form>
<h2>Streamed lately</h2>
<p class="soft">By this process, since it began. <a href="${path}">Refresh</a></p>
${tableOf({
  caption: 'Exports of this process, newest first',
  rows: list,
  empty: html`<p>None yet. Once a file has streamed, its lines and its SHA-256 stand here.</p>`,
  columns: [
    {
      title: 'What',
      head: true,
      cell: ({ format, book }) => html`${format}<br><small class="soft">${book ?? 'every book'}</small>`,
    },
    { title: 'State', cell: stateOf },
    {
      title: 'Through',
      cell: (run) => {
        const state = completedState(run)
        return state === null ? '' : linkedText(positionToken(state.position), roles)
      },
    },
    { title: 'Events', number: true, cell: (run) => String(completedState(run)?.events ?? '') },
    { title: 'Lines', number: true, cell: (run) => String(completedState(run)?.lines ?? '') },
    {
      title: 'Size',
      number: true,
      cell: (run) => {
        const state = completedState(run)
        return state === null ? '' : bytesText(state.bytes)
      },
    },
    {
      title: 'SHA-256',
      cell: (run) => {
        const state = completedState(run)
        return state === null ? '' : html`<code>${state.sha256}</code>`
      },
    },
    { title: 'Began', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
    { title: 'By', cell: ({ by }) => by },
  ],
})}`,
    same: [command, `sha256sum ledger.${formatTexts[latest?.run.format ?? exportRequest.format].ending}`],
  })
}

const download = async (services: ExportServices, visit: PersonVisit): Promise<PageOutcome> => {
  const { asked: exportRequest, typed, problems } = await readRequest(services, visit)
  if (Object.keys(problems).length > 0) {
    const query = new URLSearchParams(nonEmptyFields({ ...typed, format: exportRequest.format }))
    return { kind: 'redirect', to: `${path}?${query}` }
  }
  const file = services.exports.start(exportRequest, displayNameOf(visit.visitor), visit.nowMs)
  if (file === null)
    throw refuseWithRetryAfter(
      'rate_limited',
      'as many exports stream as may at once: wait for one of them, or use the command',
      30,
    )
  return {
    kind: 'file',
    name: `ledger-${isoTime(visit.nowMs).slice(0, 10)}.${formatTexts[exportRequest.format].ending}`,
    mediaType: exportRequest.format === 'csv' ? 'text/csv' : 'text/plain',
    content: file,
  }
}

/** Downloads the ledger as a file, and lists earlier exports. */
export const exportPages = (services: ExportServices): readonly ConsolePage[] => [
  personPage({
    path,
    name: 'showExports',
    summary: 'What can be exported of the ledger, and what was',
    for: ['finance'],
    nav: { label: 'Exports', group: 'Finance' },
    show: (visit) => exportsPage(services, visit),
  }),
  personPage({
    path: `${path}/file`,
    name: 'downloadExport',
    summary: 'The ledger as a file, in the format that was chosen',
    for: ['finance'],
    show: (visit) => download(services, visit),
  }),
]
