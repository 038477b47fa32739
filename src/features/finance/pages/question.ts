import type { Cause } from '../../../kernel/event.ts'
import type { Period } from '../../../kernel/months.ts'
import { ApiError, refuse } from '../../../platform/http/errors.ts'
import type { Problems } from '../../../platform/ui/form.ts'
import type { LongRun } from '../../../platform/ui/long-runs.ts'
import { type AccountMessages, createAccountLookup } from '../book-accounts.ts'
import { bookForms, type Moment, momentForms, parseMoment } from '../input-forms.ts'
import { MomentPastHead, refuseMomentPastHead } from '../moment.ts'
import type { ClosedPeriod } from '../period-service.ts'
import { isReversedRange, type ReportRange } from '../reader.ts'
import type { ReplayCheck } from '../replay.ts'

/** The input of a page of the books. */
export type Question = {
  readonly asked: ReportRange
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
export const questionOf = (query: URLSearchParams, head: number, nowMs: number): Question => {
  const typed = { from: textOf(query, 'from'), to: textOf(query, 'to'), book: textOf(query, 'book') }
  const problems: Record<string, string> = {}
  const momentOf = (name: 'from' | 'to') => {
    if (typed[name] === '') return undefined
    const moment = parseMoment(typed[name])
    if (moment === null) {
      problems[name] = `Type ${momentForms}.`
      return undefined
    }
    try {
      refuseMomentPastHead(moment, head, nowMs)
      return moment
    } catch (error) {
      if (!(error instanceof MomentPastHead)) throw error
      problems[name] = `${error.message.slice(0, 1).toUpperCase()}${error.message.slice(1)}.`
      return undefined
    }
  }
  const from = momentOf('from')
  const to = momentOf('to')
  const reportRange: ReportRange = from === undefined ? { asOf: to } : { from, to }
  if (!isReversedRange(reportRange)) return { asked: reportRange, problems, typed }
  return { asked: { asOf: to }, problems: { from: 'It must not be after the other one.' }, typed }
}

/** The typed end of the range, for links and the banner; empty: now. */
export const asOfIn = ({ typed, problems }: Pick<Question, 'typed' | 'problems'>): string =>
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

const names = createAccountLookup(consoleMessages)

/** The message for an unknown account or book. @throws any other error */
export const problemOf = (error: unknown): string => {
  if (error instanceof ApiError && error.code === 'not_found')
    return `${error.message.slice(0, 1).toUpperCase()}${error.message.slice(1)}.`
  throw error
}

export const { checkBook, namedAccount } = names

/** The progress of a fold of the log: `done` of `total` positions. */
export type FoldProgress = { readonly done: number; readonly total: number; readonly events: number }
export type ReplayRequest = { readonly until: Moment | null; readonly typed: string }
export type PeriodClosingRequest = { readonly period: Period }
export type ReplayRun = LongRun<ReplayRequest, FoldProgress, ReplayCheck>
export type ClosingRun = LongRun<PeriodClosingRequest, FoldProgress, readonly ClosedPeriod[]>

type Begun<Run extends { readonly state: unknown }> = Omit<Run, 'state'>

/** Replays of this process, one at a time: lists the last ones, newest first, and starts another. */
export type ReplayRuns = {
  list(): readonly ReplayRun[]
  /**
   * @param head the last position that the finance tables have passed
   * @returns a promise of the end; null while another one runs
   */
  start(request: Begun<ReplayRun>, head: number): Promise<void> | null
}

/** Closings of this process, one at a time: lists the last ones, newest first, and starts another. */
export type ClosingRuns = {
  list(): readonly ClosingRun[]
  /** @returns a promise of the end; null while another one runs */
  start(request: Begun<ClosingRun>, cause: Cause): Promise<void> | null
}
