import type { Calendar } from '../../../kernel/calendar.ts'
import { positionToken } from '../../../kernel/log-position.ts'
import { amountWriter } from '../../../kernel/money.ts'
import { ApiError, refuse } from '../../../platform/http/errors.ts'
import { toSentence } from '../../../platform/ui/answer-page.ts'
import type { Problems } from '../../../platform/ui/form.ts'
import { type Html, html } from '../../../platform/ui/html.ts'
import type { Role } from '../../../platform/ui/page.ts'
import { type Column, tableOf } from '../../../platform/ui/table.ts'
import { timeText } from '../../../platform/ui/text.ts'
import { type AccountMessages, createAccountLookup } from '../book-accounts.ts'
import { accountText } from '../gateway-names.ts'
import { bookForms, momentForms, momentOf, parseMoment } from '../input-forms.ts'
import { type AccountSums, closingMicros } from '../journal.ts'
import { MomentPastHead, refuseMomentPastHead } from '../moment.ts'
import { isReversedRange, type ReportRange } from '../reader.ts'
import { linkedText } from '../trail-pages.ts'
import { type Span, totalsOfBook } from '../trial-balance.ts'

/** The input of a page of the books. */
type ReportQuery = {
  readonly range: ReportRange
  readonly problems: Problems
  /** The typed texts, for links and fields. */
  readonly typed: Readonly<Record<'from' | 'to' | 'book', string>>
}

const maxText = 300

export const textOf = (query: URLSearchParams, name: string): string =>
  (query.get(name) ?? '').trim().slice(0, maxText)

/**
 * Parses the range of a page. Without `from`, balances are shown as of `to`. With `from`, the movements from `from` up
 * to `to` (exclusive) are shown. A moment that is invalid or past the end is reported and ignored.
 */
export const parseReportQuery = (
  query: URLSearchParams,
  head: number,
  { nowMs, calendar }: { readonly nowMs: number; readonly calendar: Calendar },
): ReportQuery => {
  const typed = { from: textOf(query, 'from'), to: textOf(query, 'to'), book: textOf(query, 'book') }
  const problems: Record<string, string> = {}
  const readMoment = (name: 'from' | 'to') => {
    if (typed[name] === '') return undefined
    const parsed = parseMoment(typed[name])
    if (parsed === null) {
      problems[name] = `Type ${momentForms}.`
      return undefined
    }
    try {
      refuseMomentPastHead(momentOf(parsed, calendar), head, nowMs)
      return parsed
    } catch (error) {
      if (!(error instanceof MomentPastHead)) throw error
      problems[name] = toSentence(error.message)
      return undefined
    }
  }
  const from = readMoment('from')
  const to = readMoment('to')
  const reportRange: ReportRange = from === undefined ? { asOf: to } : { from, to }
  if (!isReversedRange(reportRange)) return { range: reportRange, problems, typed }
  return { range: { asOf: to }, problems: { from: 'It must not be after the end.' }, typed }
}

/** The typed end of the range, for links and the banner; empty: now. */
export const asOfIn = ({ typed, problems }: Pick<ReportQuery, 'typed' | 'problems'>): string =>
  problems.to === undefined ? typed.to : ''

/** Refuses invalid input of a file download, which has no form to show problems in. @throws invalid_parameter */
export const refuseProblems = (problems: Problems): void => {
  const [problem] = Object.values(problems)
  if (problem !== undefined) throw refuse('invalid_parameter', problem)
}

/** The typed fields that are not empty, for links. */
export const nonEmptyFields = (fields: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''))

const consoleMessages: AccountMessages = {
  list: 'the trial balance',
  below: () => 'its page',
  naming: `as its book: ${bookForms}`,
  refusal: (_outcome, message) => refuse('not_found', message),
}

/** The message for an unknown account or book. @throws any other error */
export const problemOf = (error: unknown): string => {
  if (error instanceof ApiError && error.code === 'not_found') return toSentence(error.message)
  throw error
}

export const { checkBook, namedAccount } = createAccountLookup(consoleMessages)

/** Writes micro-dollars as debits (`Dr`) and credits (`Cr`), with the decimals that all amounts need. */
export const sidedWriter = (amounts: readonly bigint[]): ((micros: bigint) => string) => {
  const write = amountWriter(amounts)
  return (micros) => {
    if (micros === 0n) return write(0n)
    return micros > 0n ? `${write(micros)} Dr` : `${write(-micros)} Cr`
  }
}

type Sums = Omit<AccountSums, 'book' | 'account' | 'gateway'>

/** The shown range in words: its positions and times. */
export const spanOf = (span: Span, ranged: boolean, roles: ReadonlySet<Role>, asOf: string): Html => {
  const end = html`${linkedText(positionToken(span.position), roles, asOf)}${
    span.at === null ? null : html` (${timeText(span.at)})`
  }`
  return ranged
    ? html`<p class="soft">After ${linkedText(positionToken(span.after), roles, asOf)} up to ${end}, in US dollars.</p>`
    : html`<p class="soft">As of ${end}, in US dollars.</p>`
}

/** A row of sums: an account, or a book's total. */
type SumsRow = Sums & { readonly name: Html | string }

export const sumsRow = (sums: AccountSums, hrefOf: (sums: AccountSums) => string): SumsRow => ({
  ...sums,
  name: html`<a href="${hrefOf(sums)}">${accountText(sums.account, sums.gateway)}</a>`,
})

export const totalRow = (name: string, accounts: readonly AccountSums[]): SumsRow => ({
  name: html`<strong>${name}</strong>`,
  ...totalsOfBook(accounts),
})

/** Balances, or (over a range) their movements. */
export const sumsTable = ({
  caption,
  rows,
  ranged,
}: {
  readonly caption: string
  readonly rows: readonly SumsRow[]
  readonly ranged: boolean
}): Html => {
  const amounts = rows.flatMap((sums) => [
    sums.openingMicros,
    sums.debitMicros,
    sums.creditMicros,
    closingMicros(sums),
  ])
  const [write, writeSide] = [amountWriter(amounts), sidedWriter(amounts)]
  const number = (title: string, of: (row: SumsRow) => bigint, writeOf = writeSide): Column<SumsRow> => ({
    title,
    number: true,
    cell: (row) => writeOf(of(row)),
  })
  return tableOf({
    caption,
    rows,
    empty: 'No account changed.',
    columns: [
      { title: 'Account', head: true, cell: ({ name }) => name },
      ...(ranged ? [number('Before', ({ openingMicros }) => openingMicros)] : []),
      number('Debits', ({ debitMicros }) => debitMicros, write),
      number('Credits', ({ creditMicros }) => creditMicros, write),
      number(ranged ? 'After' : 'Balance', closingMicros),
    ],
  })
}
