import { setTimeout as sleep } from 'node:timers/promises'
import { serviceBook } from '../../../domain/ledger/books.ts'
import { isoTime } from '../../../kernel/clock.ts'
import { closingDelayMs, endOfPeriodMs, type Period, parsePeriod } from '../../../kernel/months.ts'
import { refuse } from '../../../platform/http/errors.ts'
import { keyField, type Problems, problemsOf } from '../../../platform/ui/form.ts'
import { type Html, html } from '../../../platform/ui/html.ts'
import {
  type ConsolePage,
  displayNameOf,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../../platform/ui/page.ts'
import { tableOf } from '../../../platform/ui/table.ts'
import { countText, timeText } from '../../../platform/ui/text.ts'
import type { JournalHead } from '../journal.ts'
import type { PeriodStatus, Periods } from '../period-service.ts'
import type { FinanceReader } from '../reader.ts'
import { movedPath, periodsPath } from './period-pages.ts'
import type { ClosingRuns } from './question.ts'
import { sumsRow, sumsTable, totalRow } from './sums.ts'

/**
 * How long the answer waits for a closing. A small log is closed in this time; of a long one the list shows progress.
 */
const waitMs = 1_000

type ClosingServices = {
  readonly periods: Pick<Periods, 'list'>
  readonly journalHead: JournalHead
  readonly reader: Pick<FinanceReader, 'trialBalance'>
  readonly closings: ClosingRuns
}

type ClosingForm = {
  readonly period: Period
  readonly closes: readonly PeriodStatus[]
  readonly fromMs: number
}

/** @throws not_found if the log has no such month */
const parseClosingForm = async (
  periods: ClosingServices['periods'],
  { params, nowMs }: PersonVisit,
): Promise<ClosingForm | null> => {
  const period = parsePeriod(params.period ?? '')
  const all = await periods.list(nowMs)
  const periodStatus = all.find((each) => each.period === period)
  if (period === null || periodStatus === undefined) throw refuse('not_found', 'the log has no such month')
  if (periodStatus.status === 'closed') return null
  return {
    period,
    closes: all.filter((each) => each.period <= period && each.status !== 'closed'),
    fromMs: endOfPeriodMs(period) + closingDelayMs,
  }
}

const movementsView = async (
  { reader, journalHead }: Pick<ClosingServices, 'reader' | 'journalHead'>,
  closes: readonly PeriodStatus[],
): Promise<Html> => {
  const first = closes[0]?.period as Period
  const last = closes.at(-1)?.period as Period
  const { books } = await reader.trialBalance(
    {
      from: { kind: 'time', atMs: Date.parse(`${first}-01T00:00:00Z`) },
      to: { kind: 'time', atMs: endOfPeriodMs(last) },
    },
    await journalHead(),
    { book: serviceBook, depth: 1 },
  )
  if (books.length === 0) return html`<p>Nothing was booked.</p>`
  return html`${books.map(
    ({ book, accounts }) =>
      html`${sumsTable({
        caption: `What they move in the book ${book}`,
        rows: [
          ...accounts.map((sums) =>
            sumsRow(
              sums,
              ({ account }) =>
                `/console/finance/account?${new URLSearchParams({ book, name: account, from: `${first}-01`, to: isoTime(endOfPeriodMs(last)).slice(0, 10) })}`,
            ),
          ),
          totalRow('The whole book', accounts),
        ],
        ranged: true,
      })}`,
  )}`
}

const view = async (
  reads: Pick<ClosingServices, 'reader' | 'journalHead'>,
  visit: PersonVisit,
  closingForm: ClosingForm,
  problems: Problems,
) => {
  const { period, closes, fromMs } = closingForm
  const title = `Close ${period}`
  const same = [`npx farebox ledger close --period ${period}`]
  if (visit.nowMs < fromMs)
    return {
      title,
      body: html`${problemsOf(problems)}<p>${period} is not over. It can be closed from ${timeText(isoTime(fromMs))} on: five minutes after its end, so that whatever was on its way is booked.</p>
<p><a href="${periodsPath}">Back to the months</a></p>`,
      same,
    }
  const earlierCount = closes.length - 1
  return {
    title,
    body: html`${problemsOf(problems)}<p>This writes into the log, for good, where ${earlierCount === 0 ? 'the month ends' : 'each month ends'} and a digest of every balance there. Nothing can be booked into a closed month afterwards: what comes later is of the first open one. It is not undone.</p>
${earlierCount === 0 ? null : html`<p>Closed months have no gap: ${countText(earlierCount, 'earlier month')} that ${earlierCount === 1 ? 'is' : 'are'} open ${earlierCount === 1 ? 'is' : 'are'} closed with it.</p>`}
${tableOf({
  caption: 'What is closed, oldest first',
  rows: closes,
  empty: html`<p>Nothing.</p>`,
  columns: [
    {
      title: 'Month (UTC)',
      head: true,
      cell: (each) => html`<a href="${movedPath(each.period, true)}">${each.period}</a>`,
    },
    { title: 'Ends', cell: (each) => timeText(isoTime(endOfPeriodMs(each.period))) },
  ],
})}
<h2>What ${earlierCount === 0 ? 'it moves' : 'they move'}</h2>
${await movementsView(reads, closes)}
<p class="soft">In the book of the service. What moved in those of resellers is in the same way in the trial balance of the month.</p>
<h2>Close ${earlierCount === 0 ? 'it' : 'them'}</h2>
<form method="post" action="${periodsPath}/${period}/close">${keyField(visit.formKey)}<div class="acts"><button class="danger">Close ${earlierCount === 0 ? period : `${closes[0]?.period} to ${period}`}</button> <a href="${periodsPath}">Not now</a></div></form>`,
    same,
  }
}

const page = async (services: ClosingServices, visit: PersonVisit) => {
  const closingForm = await parseClosingForm(services.periods, visit)
  return closingForm === null
    ? goTo(periodsPath, `${visit.params.period} is closed already.`)
    : show(await view(services, visit, closingForm, {}))
}

const close = async (services: ClosingServices, visit: PersonVisit) => {
  const closingForm = await parseClosingForm(services.periods, visit)
  if (closingForm === null) return goTo(periodsPath, `${visit.params.period} is closed already.`)
  const { period, fromMs } = closingForm
  if (visit.nowMs < fromMs) return refusedView(await view(services, visit, closingForm, {}), 409)
  const { closings } = services
  const run = closings.start(
    { period, by: displayNameOf(visit.visitor), startedAtMs: visit.nowMs },
    visit.cause,
  )
  if (run === null)
    return refusedView(
      await view(services, visit, closingForm, {
        form: 'Another closing runs in this process: wait for its end.',
      }),
      409,
    )
  await Promise.race([run, sleep(waitMs, undefined, { ref: false })])
  const state = closings.list()[0]?.state
  if (state?.kind === 'failed')
    return refusedView(await view(services, visit, closingForm, { form: `It broke off: ${state.why}` }), 409)
  return goTo(
    periodsPath,
    state?.kind === 'done' ? `${period} is closed.` : `${period} is being closed. Below is how far it is.`,
  )
}

/** Closes a month and every earlier open one. */
export const closePeriodPages = (services: ClosingServices): readonly ConsolePage[] => [
  personPage({
    path: `${periodsPath}/{period}/close`,
    name: 'closePeriod',
    summary: 'Closes a month, with what it moves shown before',
    for: ['finance'],
    confirmed: true,
    show: (visit) => page(services, visit),
    act: { once: true, run: (visit) => close(services, visit) },
  }),
]
