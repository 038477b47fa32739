import { kindText } from '../../../domain/finance/entry-kinds.ts'
import { serviceBook } from '../../../domain/ledger/books.ts'
import type { Calendar } from '../../../kernel/calendar.ts'
import { positionToken } from '../../../kernel/log-position.ts'
import { amountWriter } from '../../../kernel/money.ts'
import { refuse } from '../../../platform/http/errors.ts'
import { maxReportRows } from '../../../platform/http/report-rows.ts'
import { fieldOf, problemsOf } from '../../../platform/ui/form.ts'
import { html } from '../../../platform/ui/html.ts'
import { pageRows, pagerOf } from '../../../platform/ui/list.ts'
import { type ConsolePage, fileOf, financePage, type PersonVisit } from '../../../platform/ui/page.ts'
import { tableOf } from '../../../platform/ui/table.ts'
import { buttonLink, queryText, timeText } from '../../../platform/ui/text.ts'
import type { JournalHead } from '../journal.ts'
import { manualEntriesCsv, movedMicros, sideOf, whyOf } from '../manual-entries.ts'
import type { FinanceReader } from '../reader.ts'
import { linkedText } from '../trail-pages.ts'
import { nonEmptyFields, parseReportQuery, refuseProblems, spanOf, textOf } from './report-parts.ts'

const path = '/console/finance/manual-entries'

/** Every entry by hand of a period: who, why, from which file. */
export const manualEntryPages = ({
  calendar,
  journalHead,
  reader,
}: {
  readonly calendar: Calendar
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'byHand'>
}): readonly ConsolePage[] => {
  const inputOf = async ({ query, nowMs }: PersonVisit) => {
    const head = await journalHead()
    return { head, ...parseReportQuery(query, head, { nowMs, calendar }) }
  }
  return [
    financePage({
      path,
      name: 'listManualEntries',
      summary: 'Every entry that a person made by hand',
      show: async (visit) => {
        const { roles } = visit.visitor
        const { head, range, problems, typed } = await inputOf(visit)
        const offset = Math.max(0, Math.trunc(Number(textOf(visit.query, 'before')) || 0))
        const { span, total, entries } = await reader.byHand(range, head, serviceBook, {
          limit: pageRows,
          offset,
        })
        const write = amountWriter(entries.map(movedMicros))
        const fields = nonEmptyFields({ from: typed.from, to: typed.to })
        const form = { ...visit.form, problems }
        const next = offset + entries.length < total ? String(offset + entries.length) : null
        return {
          title: 'Entries by hand',
          actions: buttonLink(`${path}.csv${queryText(fields)}`, 'Download CSV'),
          body: html`<p>Credits, adjustments and refunds by operators, fees and payouts that were posted from files, and their corrections.</p>
${problemsOf(problems)}
<form method="get" action="${path}" class="stack" role="search" aria-label="Filter" novalidate>
<div class="cards">
${fieldOf({ name: 'from', label: 'From', hint: 'A position, a date or a time.', value: typed.from }, form)}
${fieldOf({ name: 'to', label: 'Before', hint: 'Empty: now.', value: typed.to }, form)}
</div>
<div class="actions"><button class="first">Show</button></div>
</form>
${spanOf(span, true, roles, '')}
${tableOf({
  caption: `Entries by hand, oldest first: ${total}`,
  rows: entries,
  empty: 'There are no entries by hand.',
  columns: [
    {
      title: 'Entry',
      head: true,
      cell: ({ position, kind, at, recordedAt }) =>
        html`<a href="/console/trail/${positionToken(position)}">${kindText(kind)}</a><br><small class="soft">${timeText(recordedAt)}${at === recordedAt ? null : html`; in the books ${timeText(at)}`}</small>`,
    },
    {
      title: 'Who',
      cell: ({ actor, proposalId, proposedBy, approvedBy }) =>
        proposalId === null
          ? html`<code>${actor}</code>`
          : html`<code>${approvedBy}</code><br><small>approved <code>${proposalId}</code> of <code>${proposedBy}</code></small>`,
    },
    { title: 'Why', cell: (entry) => linkedText(whyOf(entry) ?? '', roles) },
    {
      title: 'File',
      cell: ({ file, fileSha256 }) =>
        file === null ? null : html`${file}<br><small><code>${fileSha256}</code></small>`,
    },
    { title: 'Debit', place: 'minor', cell: (entry) => sideOf(entry, 'debit') },
    { title: 'Credit', place: 'minor', cell: (entry) => sideOf(entry, 'credit') },
    { title: 'Amount, USD', number: true, place: 'lead', cell: (entry) => write(movedMicros(entry)) },
  ],
})}
${pagerOf(path, fields, { before: offset === 0 ? null : String(offset), next }, { first: 'First entries', next: 'Later entries' })}`,
          cliEquivalents: [
            `bin/farebox ledger manual-entries${typed.from && ` --from ${typed.from}`}${typed.to && ` --to ${typed.to}`}`,
            `curl "$FINANCE/manual-entries${queryText(fields)}" -H "Authorization: Bearer $TOKEN"`,
          ],
        }
      },
    }),
    financePage({
      path: `${path}.csv`,
      name: 'downloadManualEntries',
      summary: 'The entries by hand as a file',
      show: async (visit) => {
        const { head, range, problems } = await inputOf(visit)
        refuseProblems(problems)
        const { total, entries } = await reader.byHand(range, head, null, { limit: maxReportRows, offset: 0 })
        if (total > entries.length)
          throw refuse('invalid_parameter', `${total} entries are too many for a file: choose a shorter time`)
        return fileOf('manual-entries.csv', `${manualEntriesCsv(entries)}\n`)
      },
    }),
  ]
}
