import type { Calendar } from '../../kernel/calendar.ts'
import { isoTime } from '../../kernel/clock.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { choicesOf, fieldOf, problemsOf } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  displayNameOf,
  fileOf,
  financePage,
  goTo,
  type PersonVisit,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { bytesText, countText, oneOf, queryText, stateText, timeText } from '../../platform/ui/text.ts'
import {
  bookForms,
  checkBook,
  type JournalHead,
  linkedText,
  momentForms,
  nonEmptyFields,
  parseReportQuery,
  problemOf,
  textOf,
} from '../finance/index.ts'
import type { ExportRequest, ExportRun, ExportRuns } from './export-runs.ts'
import { type Format, formats } from './journal-formats.ts'

const path = '/console/finance/exports'

const formatTexts: Readonly<Record<Format, { readonly hint: string; readonly ending: string }>> = {
  csv: { hint: 'one posting per line, for spreadsheets', ending: 'csv' },
  hledger: { hint: 'a journal for hledger and ledger', ending: 'journal' },
  beancount: { hint: 'a journal for beancount and Fava', ending: 'beancount' },
  jsonl: {
    hint: 'every event in full, to restore the log and to check seals; always all books',
    ending: 'jsonl',
  },
}

type CompletedState = Extract<ExportRun['state'], { readonly kind: 'whole' }>
const completedState = ({ state }: ExportRun): CompletedState | null =>
  state.kind === 'whole' ? state : null

const stateOf = ({ state }: ExportRun): Html => {
  switch (state.kind) {
    case 'runs':
      return html`${stateText('streaming', 'warn')}<br><small class="soft">${countText(state.events, 'event')} so far</small>`
    case 'broke off':
      return stateText('interrupted', 'bad')
    case 'whole':
      return stateText('complete', 'good')
    default:
      return state satisfies never
  }
}

const commandOf = ({ format, book }: Pick<ExportRequest, 'format' | 'book'>, until: string): string =>
  `bin/farebox ledger export --format ${format}${book === null ? '' : ` --book ${book}`}${until === '' ? '' : ` --until ${until}`} --out ledger.${formatTexts[format].ending}`

/** Downloads the ledger as a file, and lists earlier exports. */
export const exportPages = ({
  db,
  calendar,
  journalHead,
  exports,
}: {
  readonly db: Db
  readonly calendar: Calendar
  readonly journalHead: JournalHead
  readonly exports: ExportRuns
}): readonly ConsolePage[] => {
  /** The requested export, or the problems of the input. */
  const readRequest = async ({ query, nowMs }: PersonVisit) => {
    const format = oneOf(formats, textOf(query, 'format')) ?? 'csv'
    const { range, problems, typed } = parseReportQuery(query, await journalHead(), { nowMs, calendar })
    const inputProblems: Record<string, string> = { ...problems }
    const book = typed.book === '' ? null : typed.book
    await checkBook(db, book ?? undefined).catch((error) => {
      inputProblems.book = problemOf(error)
    })
    if (format === 'jsonl' && book !== null)
      inputProblems.book = 'jsonl contains the whole log. Leave the book empty.'
    const until = 'asOf' in range ? (range.asOf ?? null) : null
    const request: ExportRequest = { format, book, until }
    return { request, typed, problems: inputProblems }
  }

  return [
    financePage({
      path,
      name: 'showExports',
      summary: 'Exports of the ledger',
      show: async (visit) => {
        const { request, typed, problems } = await readRequest(visit)
        const form = { ...visit.form, problems }
        const runs = exports.list()
        const latest = runs.find((run) => run.state.kind === 'whole')
        const latestState = latest && completedState(latest)
        const { ending } = formatTexts[latest?.format ?? request.format]
        const cellOf =
          (content: (state: CompletedState) => Html | string | number) =>
          (run: ExportRun): Html | string | number => {
            const state = completedState(run)
            return state === null ? '' : content(state)
          }
        return {
          title: 'Exports',
          body: html`<p>Download the ledger as a file. Exports of the same format up to the same position are identical.</p>
<p class="soft">Daily journals for Xero and QuickBooks need a file that maps accounts, so only the command writes them: <code>bin/farebox ledger export --format xero --from DAY --to DAY --mapping FILE</code></p>
${problemsOf(problems)}
<form method="get" action="${path}/file" class="stack" novalidate>
${choicesOf({ name: 'format', legend: 'Format', choices: formats.map((value) => ({ value, label: value, hint: formatTexts[value].hint })), chosen: [request.format], one: true }, form)}
${fieldOf({ name: 'book', label: 'Book', hint: `${bookForms}. Empty: every book.`, value: typed.book }, form)}
${fieldOf({ name: 'to', label: 'Until', hint: `Up to the last event at or before it: ${momentForms}. Empty: now.`, value: typed.to }, form)}
<div class="actions"><button class="first">Download</button></div>
</form>
<h2>Recent exports</h2>
<p class="soft">Since this process started. <a href="${path}">Refresh</a></p>
${tableOf({
  caption: 'Exports of this process, newest first',
  rows: runs,
  empty: 'None yet. After a download, its line count and SHA-256 are shown here.',
  columns: [
    {
      title: 'Export',
      head: true,
      cell: ({ format, book }) => html`${format}<br><small class="soft">${book ?? 'every book'}</small>`,
    },
    { title: 'State', cell: stateOf },
    {
      title: 'Through',
      cell: cellOf(({ position }) => linkedText(positionToken(position), visit.visitor.roles)),
    },
    { title: 'Events', number: true, cell: cellOf(({ events }) => events) },
    { title: 'Lines', number: true, cell: cellOf(({ lines }) => lines) },
    { title: 'Size', number: true, cell: cellOf(({ bytes }) => bytesText(bytes)) },
    { title: 'SHA-256', cell: cellOf(({ sha256 }) => html`<code>${sha256}</code>`) },
    { title: 'Started', cell: ({ startedAtMs }) => timeText(isoTime(startedAtMs)) },
    { title: 'By', cell: ({ by }) => by },
  ],
})}`,
          cliEquivalents: [
            latest && latestState
              ? commandOf(latest, positionToken(latestState.position))
              : commandOf(request, typed.to),
            `sha256sum ledger.${ending}`,
          ],
        }
      },
    }),
    financePage({
      path: `${path}/file`,
      name: 'downloadExport',
      summary: 'The ledger as a file in the chosen format',
      show: async (visit) => {
        const { request, typed, problems } = await readRequest(visit)
        const { format } = request
        if (Object.keys(problems).length > 0)
          return goTo(`${path}${queryText(nonEmptyFields({ ...typed, format }))}`)
        const file = exports.start(request, displayNameOf(visit.visitor), visit.nowMs)
        if (file === null)
          throw refuseWithRetryAfter(
            'rate_limited',
            'too many exports are streaming; wait for one to finish, or use the command',
            30,
          )
        const name = `ledger-${isoTime(visit.nowMs).slice(0, 10)}.${formatTexts[format].ending}`
        return fileOf(name, file, format === 'csv' ? 'text/csv' : 'text/plain')
      },
    }),
  ]
}
