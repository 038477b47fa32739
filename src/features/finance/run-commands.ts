import { isKeyActive } from '../../domain/accounts/fold.ts'
import type { FinanceTokenRefusal } from '../../domain/finance/tokens.ts'
import { isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter, plainDollars } from '../../kernel/money.ts'
import type { Period } from '../../kernel/months.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { expiryOf, type InputOf } from '../../platform/cli/input.ts'
import {
  CliMisuse,
  type CliOutput,
  CliRefusal,
  type Format,
  fields,
  inFormat,
  notFound,
  table,
} from '../../platform/cli/output.ts'
import { stepsOf, withProgress } from '../../platform/cli/progress-bar.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import { accountName } from './book-accounts.ts'
import { momentWork, names, openReader } from './command-input.ts'
import type { createTokenInput, replayInput, reportInput } from './commands.ts'
import { withGateways } from './gateway-names.ts'
import { momentOf } from './input-forms.ts'
import { refuseMomentPastHead } from './moment.ts'
import { type PeriodReport, reportCsv } from './period-report.ts'
import {
  type ClosedPeriod,
  createPeriods,
  type OnProgress,
  PeriodDiffers,
  PeriodRefused,
  type PeriodStatus,
} from './period-service.ts'
import { isRange, isReversedRange, type ReportRange } from './reader.ts'
import { replay } from './replay.ts'
import { reports, TooManyLines } from './reports.ts'
import { createFinanceTokenService } from './token-service.ts'
import { byBook, trialBalanceCsv, trialBalanceJson, trialBalanceText } from './trial-balance.ts'

const checkReportRange = (reportRange: ReportRange): void => {
  if (reportRange.asOf && isRange(reportRange))
    throw new CliMisuse('give --as-of, or --from and --to, not both')
  if (isReversedRange(reportRange)) throw new CliMisuse('--from must not be after --to')
}

/** Prints a report. */
export const printReport = (name: string) =>
  momentWork(async (context, input: InputOf<typeof reportInput>): Promise<CliOutput> => {
    checkReportRange(input)
    const { db } = context
    const { account = '', book, depth, format } = input
    const { head, reader } = await openReader(context)
    const question = { db, reader, head, range: input, account, book, depth, page: null, names }
    const report = reports.find((each) => each.name === name)!
    const answer = await report.read(question).catch((error) => {
      throw error instanceof TooManyLines
        ? new CliMisuse(`${error.message}: narrow them with --from and --to, or use "ledger export"`)
        : error
    })
    return inFormat(format, answer)
  })

type ReplayInput = InputOf<typeof replayInput>

/** Whether an account is the wanted one or below it, in the wanted book. */
const accountMatcher = ({ account, book }: ReplayInput): ((book: string, account: string) => boolean) => {
  const name = account === undefined ? null : accountName(account)
  return (inBook, of) =>
    (book === undefined || inBook === book) && (name === null || of === name || of.startsWith(`${name}:`))
}

export const replayLog = momentWork(async ({ log, clock, calendar }: CliContext, input: ReplayInput) => {
  const head = await log.head()
  const { account, book, format } = input
  const until = input.until ? momentOf(input.until, calendar) : null
  if (until) refuseMomentPastHead(until, head, clock())
  const total = until?.kind === 'position' ? until.position : head
  const { decode } = createCodec()
  const { position, at, events, entries, sums } = await withProgress((bar) =>
    replay({
      log,
      decode,
      head,
      until,
      isIncluded: accountMatcher(input),
      onPage: stepsOf(bar, 'replay', total),
    }),
  )
  if (sums.length === 0 && (account !== undefined || book !== undefined))
    throw notFound(
      `no entry up to position ${positionToken(position)} names ${account === undefined ? `the book ${book}` : accountName(account)}; without --account and --book all are listed`,
    )
  const span = { after: 0, position, at }
  const books = byBook(await withGateways(log, sums))
  return inFormat(format, {
    json: () => ({ events, entries, ...trialBalanceJson(span, books) }),
    csv: () => trialBalanceCsv(books),
    table: () =>
      `${events.toLocaleString('en-US')} events, ${entries.toLocaleString('en-US')} entries\n\n${trialBalanceText(span, books, false)}`,
  })
})

const periodRefusal = (error: unknown): unknown => {
  if (error instanceof PeriodRefused) return new CliMisuse(error.message, {}, error.code)
  if (error instanceof PeriodDiffers) return new CliRefusal('period_differs', error.message)
  return error
}

/** Folds the log with a progress bar. */
const withSteps = <Value>(
  { log }: CliContext,
  label: string,
  work: (onProgress: OnProgress) => Promise<Value>,
): Promise<Value> =>
  withProgress(async (bar) => work(stepsOf(bar, label, await log.head()))).catch((error) => {
    throw periodRefusal(error)
  })

const closedJson = ({ closedAtMs, ...closed }: ClosedPeriod | NonNullable<PeriodStatus['closed']>) => ({
  ...closed,
  closedAt: isoTime(closedAtMs),
})

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
    {
      book: 'book',
      account: 'account',
      opening: ({ openingMicros }) => amount(openingMicros),
      debits: ({ debitMicros }) => amount(debitMicros),
      credits: ({ creditMicros }) => amount(creditMicros),
      closing: ({ closingMicros }) => amount(closingMicros),
    },
    'no entries',
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

export const closePeriods = async (context: CliContext, { period }: { readonly period: Period }) => {
  const closed = await withSteps(context, 'close', (onProgress) =>
    createPeriods({ ...context, decode: context.codec.decode }).close(period, context, onProgress),
  )
  const rows = closed.map(({ now, ...each }) => ({ ...closedJson(each), now }))
  return { json: { period, closed: rows }, rows }
}

export const showPeriods = async (
  context: CliContext,
  { month, format }: { readonly month?: Period; readonly format: Format },
): Promise<CliOutput> => {
  const periods = createPeriods({ ...context, decode: context.codec.decode })
  const nowMs = context.clock()
  if (month === undefined) {
    if (format === 'csv') throw new CliMisuse('--format csv prints one report: name its month')
    const statuses = await periods.list(nowMs)
    const rows = statuses.map(({ closed, endMs, ...each }) => ({
      ...each,
      endsAt: isoTime(endMs),
      closed: closed && closedJson(closed),
    }))
    return inFormat(format, {
      json: () => ({ periods: rows }),
      csv: () => '',
      table: () =>
        table(
          rows,
          {
            period: 'period',
            status: 'status',
            ends: 'endsAt',
            'closed at': ({ closed }) => closed?.closedAt,
            entries: ({ closed }) => closed?.entries,
            'through event': ({ closed }) => closed?.throughOrdinal,
            digest: ({ closed }) => closed?.digest,
          },
          'the log is empty',
        ),
    })
  }
  const { report, standing: periodStatus } = await withSteps(context, 'report', (onProgress) =>
    periods.show(month, nowMs, onProgress),
  )
  return inFormat(format, {
    json: () => reportJson(report, periodStatus),
    csv: () => reportCsv(report),
    table: () => `${heading(report, periodStatus)}${reportText(report)}`,
  })
}

const tokenRefusal = (refusal: FinanceTokenRefusal, tokenId: string): CliRefusal => {
  switch (refusal.code) {
    case 'unknown_token':
      return notFound(`no finance token has the id ${tokenId}; "finance token list" shows them`)
    case 'expiry_passed':
      return new CliMisuse('the expiry is in the past')
    case 'too_many_keys':
      return new CliRefusal(
        'too_many_tokens',
        `${refusal.limit} tokens are active, the maximum; revoke one first`,
      )
    default:
      return refusal satisfies never
  }
}

export const createToken = async (context: CliContext, input: InputOf<typeof createTokenInput>) => {
  const { name } = input
  const expiresAtMs = expiryOf(context, input)
  const issued = await createFinanceTokenService(context).issue({ name, expiresAtMs }, context)
  if (issued.outcome === 'refused') throw tokenRefusal(issued.refusal, '')
  const { keyId: tokenId, key: secret } = issued
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  return {
    json: { tokenId, token: secret, name, expiresAt },
    text: `${fields({ token: tokenId, name, 'expires at': expiresAt ?? 'never' })}\n\n${secret}\n\nStore it now: it is not shown again. Send it as Authorization: Bearer to /finance/v1.`,
  }
}

export const revokeToken = async (context: CliContext, { tokenId }: { readonly tokenId: string }) => {
  const result = await createFinanceTokenService(context).revoke(tokenId, context)
  if (result.outcome === 'refused') throw tokenRefusal(result.refusal, tokenId)
  const { changed } = result
  return {
    json: { tokenId, revoked: true, changed },
    text: changed ? `revoked ${tokenId}` : `${tokenId} was revoked already`,
  }
}

export const listTokens = async (context: CliContext) => {
  const nowMs = context.clock()
  const tokens = [...(await createFinanceTokenService(context).read(context))].map(([tokenId, state]) => ({
    tokenId,
    name: state.name,
    prefix: state.displayPrefix,
    issuedAt: isoTime(state.issuedAtMs),
    expiresAt: state.expiresAtMs === null ? null : isoTime(state.expiresAtMs),
    state: state.revoked ? 'revoked' : isKeyActive(state, nowMs) ? 'works' : 'expired',
  }))
  return { json: { tokens }, rows: tokens }
}
