import type { Calendar } from '../../../kernel/calendar.ts'
import { amountWriter } from '../../../kernel/money.ts'
import { fieldOf, problemsOf } from '../../../platform/ui/form.ts'
import { html } from '../../../platform/ui/html.ts'
import { type ConsolePage, fileOf, financePage, type PersonVisit } from '../../../platform/ui/page.ts'
import { figureCard, tableOf } from '../../../platform/ui/table.ts'
import { buttonLink, queryText } from '../../../platform/ui/text.ts'
import { daysText, deferredCsv, gigabytesText, totalDeferred } from '../deferred-revenue.ts'
import { momentForms } from '../input-forms.ts'
import type { JournalHead } from '../journal.ts'
import type { FinanceReader } from '../reader.ts'
import { nonEmptyFields, parseReportQuery, refuseProblems, spanOf } from './report-parts.ts'

const path = '/console/finance/deferred-revenue'

/** What was sold and not delivered at a moment. */
export const deferredRevenuePages = ({
  calendar,
  journalHead,
  reader,
}: {
  readonly calendar: Calendar
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'deferredRevenue'>
}): readonly ConsolePage[] => {
  const inputOf = async ({ query, nowMs }: PersonVisit) => {
    const head = await journalHead()
    const { typed, problems, range } = parseReportQuery(query, head, { nowMs, calendar })
    return { typed, problems, ...(await reader.deferredRevenue({ asOf: range.asOf }, head, null)) }
  }
  return [
    financePage({
      path,
      name: 'showDeferredRevenue',
      summary: 'What was sold and not yet delivered at a moment, by product',
      show: async (visit) => {
        const { typed, problems, span, lines } = await inputOf(visit)
        const total = totalDeferred(lines)
        const write = amountWriter([total, ...lines.map(({ deferredMicros }) => deferredMicros)])
        const fields = nonEmptyFields({ to: typed.to })
        const form = { ...visit.form, problems }
        return {
          title: 'Deferred revenue',
          actions: buttonLink(`${path}.csv${queryText(fields)}`, 'Download CSV'),
          body: html`<p>Revenue is booked at the sale. This is what of it was not delivered: rentals and plans of time by the rest of their time, plans of traffic by their unused bytes. It is computed from the log.</p>
${problemsOf(problems)}
<form method="get" action="${path}" class="stack" role="search" aria-label="Filter" novalidate>
${fieldOf({ name: 'to', label: 'As of', hint: `${momentForms}. Empty: now.`, value: typed.to }, form)}
<div class="actions"><button class="first">Show</button></div>
</form>
${spanOf(span, false, visit.visitor.roles, typed.to)}
<div class="cards">${figureCard('Not delivered, USD', write(total))}</div>
${tableOf({
  caption: 'Products with undelivered sales',
  rows: lines,
  empty: 'Everything that was sold is delivered.',
  columns: [
    { title: 'Product', head: true, cell: ({ productId }) => productId },
    { title: 'Orders', number: true, cell: ({ orders }) => String(orders) },
    { title: 'Days left', number: true, cell: daysText },
    { title: 'Unused GB', number: true, cell: gigabytesText },
    { title: 'Not delivered, USD', number: true, place: 'lead', cell: (line) => write(line.deferredMicros) },
  ],
})}`,
          cliEquivalents: [
            `bin/farebox ledger deferred-revenue${typed.to && ` --as-of ${typed.to}`}`,
            `curl "$FINANCE/deferred-revenue${queryText(nonEmptyFields({ as_of: typed.to }))}" -H "Authorization: Bearer $TOKEN"`,
          ],
        }
      },
    }),
    financePage({
      path: `${path}.csv`,
      name: 'downloadDeferredRevenue',
      summary: 'What was sold and not yet delivered as a file',
      show: async (visit) => {
        const { problems, lines } = await inputOf(visit)
        refuseProblems(problems)
        return fileOf('deferred-revenue.csv', `${deferredCsv(lines)}\n`)
      },
    }),
  ]
}
