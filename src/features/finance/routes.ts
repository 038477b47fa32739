import { z } from 'zod'
import type { Calendar } from '../../kernel/calendar.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pagingCodes } from '../../platform/http/query.ts'
import { reportQuery, rowsOf } from '../../platform/http/report-rows.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { createAccountLookup } from './book-accounts.ts'
import { createJournalHead, entriesOfOrder } from './journal.ts'
import { entryJson } from './manual-entries.ts'
import { createMoments, MomentPastHead } from './moment.ts'
import { createFinanceReader, isReversedRange, type ReportRange } from './reader.ts'
import { type Report, reports } from './reports.ts'
import {
  asOfQuery,
  bookQuery,
  depthQuery,
  examples,
  OrderEntries,
  reportRangeQuery,
} from './route-schemas.ts'

type ReportRangeQuery = { as_of?: ReportRange['asOf']; from?: ReportRange['from']; to?: ReportRange['to'] }

/** @throws invalid_parameter */
export const parseReportRange = ({ as_of: asOf, from, to }: ReportRangeQuery): ReportRange => {
  if (asOf !== undefined && (from !== undefined || to !== undefined))
    throw refuse('invalid_parameter', 'give as_of, or from and to, not both')
  if (isReversedRange({ from, to })) throw refuse('invalid_parameter', 'from must not be after to')
  return { asOf, from, to }
}

/** Throws the HTTP refusal of a moment past the end; any other error is rethrown. */
export const toMomentRefusal = (error: unknown): never => {
  throw error instanceof MomentPastHead ? refuse('invalid_parameter', error.message) : error
}

/** Finds books and accounts of a request. @throws not_found; invalid_parameter for an invalid `book` */
export const names = createAccountLookup({
  list: 'the trial balance',
  below: () => 'its balance',
  naming: 'as book',
  refusal: (outcome, message) =>
    refuse(
      outcome === 'unknown_account' || outcome === 'parent' ? 'not_found' : 'invalid_parameter',
      message,
    ),
})

export type FinanceRoutesDependencies = {
  readonly db: Db
  readonly log: Pick<EventLog, 'readAll' | 'readStreams' | 'head'>
  readonly clock: Clock
  readonly calendar: Calendar
  readonly progress: Pick<Progress, 'reached'>
  /** The longest wait of a request for the journal, milliseconds; default 2,000. */
  readonly timeoutMs?: number
}

const common = { tag: 'Finance', access: 'finance', writes: false } as const
const accountParams = z.object({
  account: z.string().max(300).meta({
    description:
      'The name of the account in the books. `acc_…` selects the wallet of an account, `cus_…` the credit of a customer, and `crd_…` the gateway of a reseller.',
  }),
})

/** The books over HTTP, read-only. Requires a finance token. */
export const financeRoutes = ({
  db,
  log,
  clock,
  calendar,
  progress,
  timeoutMs,
}: FinanceRoutesDependencies): readonly Route[] => {
  const reader = createFinanceReader({
    db,
    log,
    calendar,
    moments: createMoments({ db, log, clock, calendar }),
  })

  const head = createJournalHead({ log, progress, timeoutMs })

  const reportRoute = (report: Report): Route => {
    const { takes, http } = report
    return route({
      ...common,
      method: 'GET',
      path: http.path,
      operationId: http.operationId,
      summary: http.summary,
      description: http.description,
      ...(takes.account ? { params: accountParams } : {}),
      query: z.object({
        ...(takes.moment ? { as_of: asOfQuery } : { ...reportRangeQuery, book: bookQuery.optional() }),
        ...(takes.depth ? { depth: depthQuery.optional() } : {}),
        ...reportQuery,
      }),
      codes: { query: pagingCodes },
      examples: http.examples,
      responses: { 200: http.answer },
      errors: [],
      handler: async ({ params, query }) => {
        const { account = '' } = params as { readonly account?: string }
        const { book, depth } = query as { readonly book?: string; readonly depth?: number }
        const range = parseReportRange(query)
        const position = await head()
        const page = rowsOf(query)
        const question = { db, reader, head: position, range, account, book, depth, page, names }
        const answer = await report.read(question).catch(toMomentRefusal)
        return { status: 200, body: answer.json() }
      },
    })
  }

  return [
    ...reports.map(reportRoute),

    route({
      ...common,
      method: 'GET',
      path: '/finance/v1/orders/{id}/entries',
      operationId: 'listOrderEntries',
      summary: 'List the entries of an order',
      description: 'Every ledger entry of an order in every book, oldest first: the payment and the refunds.',
      params: z.object({ id: z.string() }),
      examples: { params: { id: 'ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f' } },
      responses: {
        200: {
          description: 'The ledger entries of the order.',
          body: OrderEntries,
          example: examples.entries,
        },
      },
      errors: [],
      handler: async ({ params: { id } }) => {
        const position = await head()
        const orderEntries = await entriesOfOrder(db, id, position)
        if (orderEntries.length === 0) throw refuse('not_found', 'no entry names this order')
        return { status: 200, body: { orderId: id, entries: orderEntries.map(entryJson) } }
      },
    }),
  ]
}
