import type pg from 'pg'
import { z } from 'zod'
import type { Progress } from '../../../projections/engine/progress.ts'
import { ReadsBehind } from '../../../projections/engine/reads.ts'
import { books } from '../../../projections/groups.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { pagingCodes, pagingQuery } from '../../platform/http/paging.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { createGathered } from '../../platform/postgres/gathered.ts'
import { positionToken } from '../../terms/position.ts'
import { entriesOfOrder } from './journal-entries.ts'
import { createMoments } from './moment.ts'
import { createFinanceReader } from './reader.ts'
import { askedOf, checkBook, namedAccount, notPastTheEnd } from './route-input.ts'
import {
  AccountBalance,
  AccountStatement,
  askedQuery,
  bookQuery,
  depthQuery,
  examples,
  OrderEntries,
  TrialBalance,
} from './route-schemas.ts'
import { statementJson } from './statement.ts'
import { accountBalanceJson, trialBalanceJson } from './trial-balance.ts'

export type FinanceRoutesDeps = {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readAll' | 'readStreams' | 'head'>
  readonly clock: Clock
  readonly progress: Pick<Progress, 'reached'>
  /** How long a request waits for the journal; default 2,000. */
  readonly timeoutMs?: number
}

const pageOf = <Item>(items: readonly Item[], { limit, offset }: { limit: number; offset: number }) => ({
  items: items.slice(offset, offset + limit),
  page: { total: items.length, limit, offset },
})

const common = { tag: 'Finance', access: 'finance', writes: false } as const
const accountParams = z.object({
  account: z.string().max(300).meta({
    description:
      'Its name in the books; `acc_…` stands for its wallet, `cus_…` for a customer’s credit, `crd_…` for a reseller’s own gateway.',
  }),
})

/** The books over HTTP, read-only, for whoever holds a finance token (design section 8). */
export const financeRoutes = ({
  pool,
  log,
  clock,
  progress,
  timeoutMs = 2000,
}: FinanceRoutesDeps): readonly Route[] => {
  const reader = createFinanceReader({ pool, log, moments: createMoments({ pool, log, clock }) })

  const headOf = createGathered<'log', number>(async () => new Map([['log', await log.head()]]))

  /** The log's head, once the journal has passed it. @throws ReadsBehind */
  const head = async (): Promise<number> => {
    const position = (await headOf('log')) ?? 0
    if (await progress.reached(books.name, position, timeoutMs)) return position
    throw new ReadsBehind('the journal has not come as far as the log; try again')
  }

  return [
    route({
      ...common,
      method: 'GET',
      path: '/finance/v1/trial-balance',
      operationId: 'getTrialBalance',
      summary: 'Read the trial balance',
      description:
        'The balance of every account in every book, as of now, a position or a time; with `from` or `to` also what moved it. Each book sums to zero.',
      query: z.object({
        ...askedQuery,
        book: bookQuery.optional(),
        depth: depthQuery.optional(),
        ...pagingQuery,
      }),
      codes: { query: pagingCodes },
      examples: { query: { as_of: '2026-11-01', book: 'service' } },
      responses: {
        200: {
          description: 'Balances, by book and name.',
          body: TrialBalance,
          example: examples.trialBalance,
        },
      },
      errors: [],
      handler: async ({ query }) => {
        const asked = askedOf(query)
        const filter = { book: query.book ?? null, depth: query.depth ?? null }
        const position = await head()
        await checkBook(pool, query.book)
        const { span, books: found } = await reader.trialBalance(asked, position, filter).catch(notPastTheEnd)
        const { items, page } = pageOf(
          found.flatMap(({ accounts }) => accounts),
          query,
        )
        return { status: 200, body: { ...trialBalanceJson(span, found, items), ...page } }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/finance/v1/accounts/{account}',
      operationId: 'getAccountBalance',
      summary: 'Read the balance of an account',
      description:
        'The balance of an account of the books and of those below it, e.g. `revenue`, `liabilities:wallet:acc_…` or `acc_…` for that wallet. Without `book` it is the service’s, else the only one that has the account.',
      params: accountParams,
      query: z.object({ ...askedQuery, book: bookQuery.optional(), ...pagingQuery }),
      codes: { query: pagingCodes },
      examples: { params: { account: 'revenue' }, query: { from: '2026-10-01', to: '2026-11-01' } },
      responses: { 200: { description: 'The balance.', body: AccountBalance, example: examples.account } },
      errors: [],
      handler: async ({ params: { account: given }, query }) => {
        const asked = askedOf(query)
        const position = await head()
        const { book, account } = await namedAccount(pool, given, { book: query.book, below: true })
        const { span, accounts } = await reader
          .account(asked, position, { book, account })
          .catch(notPastTheEnd)
        const { items, page } = pageOf(accounts, query)
        const body = { ...accountBalanceJson(span, { book, accounts }, account, items), ...page }
        return { status: 200, body }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/finance/v1/accounts/{account}/statement',
      operationId: 'getAccountStatement',
      summary: 'Read what moved an account',
      description:
        'The lines of one account of the books, oldest first, with its balance after each. Without `book` it is the service’s, else the only one that has the account.',
      params: accountParams,
      query: z.object({ ...askedQuery, book: bookQuery.optional(), ...pagingQuery }),
      codes: { query: pagingCodes },
      examples: { params: { account: 'revenue:orders:isp' }, query: { from: '2026-10-01' } },
      responses: {
        200: { description: 'A page of lines.', body: AccountStatement, example: examples.statement },
      },
      errors: [],
      handler: async ({ params: { account: given }, query }) => {
        const asked = askedOf(query)
        const position = await head()
        const { book, account } = await namedAccount(pool, given, { book: query.book, below: false })
        const statement = await reader
          .statement(asked, position, { book, account, below: false }, query)
          .catch(notPastTheEnd)
        const page = { total: statement.totals.lines, limit: query.limit, offset: query.offset }
        return { status: 200, body: { ...statementJson(statement), ...page } }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/finance/v1/orders/{id}/entries',
      operationId: 'listOrderEntries',
      summary: 'List what an order booked',
      description: 'Every entry of an order, in every book, oldest first: its payment and its refunds.',
      params: z.object({ id: z.string() }),
      examples: { params: { id: 'ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f' } },
      responses: { 200: { description: 'The entries.', body: OrderEntries, example: examples.entries } },
      errors: [],
      handler: async ({ params: { id } }) => {
        const position = await head()
        const found = await entriesOfOrder(pool, id, position)
        if (found.length === 0) throw refuse('not_found', 'no entry names this order')
        const entries = found.map((entry) => ({
          ...entry,
          position: positionToken(entry.position),
          postings: entry.postings.map((posting) => ({
            ...posting,
            amountMicros: String(posting.amountMicros),
          })),
        }))
        return { status: 200, body: { orderId: id, entries } }
      },
    }),
  ]
}
