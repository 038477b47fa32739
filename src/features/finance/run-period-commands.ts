import { isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import { amountWriter, plainDollars } from '../../kernel/money.ts'
import type { Period } from '../../kernel/months.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type Format, inFormat } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, CliRefusal, table } from '../../platform/cli/output.ts'
import { createProgressBar, stepsOf } from '../../platform/cli/progress-bar.ts'
import { type PeriodReport, reportCsv } from './period-report.ts'
import {
  type ClosedPeriod,
  createPeriods,
  type OnProgress,
  PeriodDiffers,
  PeriodRefused,
  type PeriodStatus,
} from './period-service.ts'

const refusalOf = (error: unknown): unknown => {
  if (error instanceof PeriodRefused) return new CliMisuse(error.message, {}, error.code)
  if (error instanceof PeriodDiffers) return new CliRefusal('period_differs', error.message)
  return error
}

/** Folds the log with a progress bar. */
const withBar = async <Value>(
  { log }: CliContext,
  label: string,
  work: (onProgress: OnProgress) => Promise<Value>,
): Promise<Value> => {
  const bar = createProgressBar(process.stderr)
  try {
    return await work(stepsOf(bar, label, await log.head()))
  } catch (error) {
    throw refusalOf(error)
  } finally {
    bar.end()
  }
}

const closedJson = ({ closedAtMs, ...closed }: PeriodStatus['closed'] & {}) => ({
  ...closed,
  closedAt: isoTime(closedAtMs),
})

const closingText = (closed: readonly ClosedPeriod[]): string =>
  table(closed, [
    { title: 'period', value: ({ period }) => period },
    { title: 'closed at', value: ({ closedAtMs }) => isoTime(closedAtMs) },
    { title: 'now', value: ({ now }) => (now ? 'yes' : 'before') },
    { title: 'entries', value: ({ entries }) => entries, align: 'right' },
    { title: 'through event', value: ({ throughOrdinal }) => throughOrdinal, align: 'right' },
    { title: 'digest', value: ({ digest }) => digest },
  ])

const listText = (statuses: readonly PeriodStatus[]): string =>
  table(
    statuses,
    [
      { title: 'period', value: ({ period }) => period },
      { title: 'status', value: ({ status }) => status },
      { title: 'closed at', value: ({ closed }) => (closed ? isoTime(closed.closedAtMs) : '-') },
      { title: 'entries', value: ({ closed }) => closed?.entries ?? '-', align: 'right' },
      { title: 'through event', value: ({ closed }) => closed?.throughOrdinal ?? '-', align: 'right' },
      { title: 'digest', value: ({ closed }) => closed?.digest ?? '-' },
    ],
    'the log is empty',
  )

const reportText = (report: PeriodReport): string => {
  const sums = report.lines.flatMap((line) => [
    line.openingMicros,
    line.debitMicros,
    line.creditMicros,
    line.closingMicros,
  ])
  const amount = amountWriter(sums)
  return table(
    report.lines,
    [
      { title: 'book', value: ({ book }) => book },
      { title: 'account', value: ({ account }) => account },
      { title: 'opening', value: ({ openingMicros }) => amount(openingMicros), align: 'right' },
      { title: 'debits', value: ({ debitMicros }) => amount(debitMicros), align: 'right' },
      { title: 'credits', value: ({ creditMicros }) => amount(creditMicros), align: 'right' },
      { title: 'closing', value: ({ closingMicros }) => amount(closingMicros), align: 'right' },
    ],
    'nothing was ever booked',
  )
}

const reportJson = (report: PeriodReport, { status, closed }: PeriodStatus) => ({
  period: report.period,
  status,
  closed: closed && closedJson(closed),
  entries: report.entries,
  throughOrdinal: report.throughOrdinal,
  throughEventId: report.throughEventId,
  currency: 'USD',
  lines: report.lines.map(({ book, account, ...sums }) => ({
    book,
    account,
    opening: plainDollars(sums.openingMicros),
    debits: plainDollars(sums.debitMicros),
    credits: plainDollars(sums.creditMicros),
    closing: plainDollars(sums.closingMicros),
  })),
})

const heading = ({ period, entries }: PeriodReport, { status, closed }: PeriodStatus): string => {
  const seal = closed ? `, closed at ${isoTime(closed.closedAtMs)}\ndigest ${closed.digest}` : ''
  return `${period}: ${status}, ${pluralize(entries, 'entry', 'entries')}${seal}\n`
}

export const runClose = async (
  context: CliContext,
  { period }: { readonly period: Period },
): Promise<CliOutput> => {
  const closed = await withBar(context, 'close', (onProgress) =>
    createPeriods({ ...context, decode: context.codec.decode }).close(period, context, onProgress),
  )
  const json = closed.map(({ now, ...each }) => ({ ...closedJson(each), now }))
  return { json: { period, closed: json }, text: closingText(closed) }
}

export const runPeriods = async (
  context: CliContext,
  period: Period | undefined,
  { format }: { readonly format: Format },
): Promise<CliOutput> => {
  const periods = createPeriods({ ...context, decode: context.codec.decode })
  const nowMs = context.clock()
  if (period === undefined) {
    if (format === 'csv') throw new CliMisuse('--format csv prints one report: name its month')
    const statuses = await periods.list(nowMs)
    const json = statuses.map(({ closed, ...each }) => ({ ...each, closed: closed && closedJson(closed) }))
    return {
      json: { periods: json },
      text: format === 'json' ? JSON.stringify({ periods: json }) : listText(statuses),
    }
  }
  const { report, standing: periodStatus } = await withBar(context, 'report', (onProgress) =>
    periods.show(period, nowMs, onProgress),
  )
  return inFormat(format, {
    json: () => reportJson(report, periodStatus),
    csv: () => reportCsv(report),
    table: () => `${heading(report, periodStatus)}${reportText(report)}`,
  })
}
