import type pg from 'pg'
import { z } from 'zod'
import { listMargins, type Period } from '../../../projections/margins.ts'
import { refuse } from '../../platform/http/errors.ts'
import { inRange, instantQuery, integerQuery, pagingCodes, wordQuery } from '../../platform/http/query.ts'
import { exampleRows, reportQuery, reportShape, rowFields, rowsOf } from '../../platform/http/report-rows.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { customerRefs } from '../accounts/index.ts'
import { lineExample, MarginList, marginExample, Statement } from './customer-record.ts'
import { resellerOnly } from './customer-routes.ts'
import { maxStatementLines, readStatement, statementCsv } from './reseller-statement.ts'

const periodQuery = {
  from: instantQuery(
    'Only sales and refunds at or after this instant or day (UTC). Default: from the first sale.',
  ).optional(),
  to: instantQuery('Only sales and refunds before this instant or day (UTC). Default: until now.').optional(),
}

/** @throws invalid_parameter when the end is before the beginning */
const periodOf = ({ from, to }: { from?: number | undefined; to?: number | undefined }): Period => {
  if (from !== undefined && to !== undefined && to <= from)
    throw refuse('invalid_parameter', 'to must be later than from: from is included, to is not')
  return {
    fromMs: from === undefined ? null : inRange(from),
    toMs: to === undefined ? null : inRange(to),
  }
}

const isoOrNull = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

const statementExample = {
  from: '2026-11-01T00:00:00.000Z',
  to: '2026-12-01T00:00:00.000Z',
  currency: 'USD',
  totals: { orders: 1, revenueCents: 728, costCents: 490, marginCents: 238 },
  lines: [lineExample],
  complete: true,
  nextAfter: null,
} as const

/** Earnings of a reseller: docs/reference/api.md, "Resellers and finance". `reads` are those of the books projection. */
export const resellerFinanceRoutes = ({
  reads,
  pool,
}: {
  readonly reads: Pick<Reads, 'settled'>
  readonly pool: pg.Pool
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/reseller/margins',
    operationId: 'listMargins',
    summary: 'Read your margins',
    description:
      'Revenue, cost and margin of sales to your customers, by day (newest first), product or customer (largest revenue first). Refunds are negative, on their own date.',
    tag: 'Resellers',
    access: 'buy',
    writes: false,
    customer: 'limits',
    query: z.object({
      ...periodQuery,
      group_by: wordQuery(['day', 'product', 'customer'], 'The grouping of the rows.').default('day'),
      ...reportQuery,
    }),
    codes: { query: pagingCodes },
    examples: { query: { from: '2026-11-01', to: '2026-12-01', group_by: 'day' } },
    responses: {
      200: {
        description: 'The margins.',
        body: MarginList.extend(reportShape).meta({ id: 'MarginList' }),
        example: { margins: [marginExample], ...exampleRows },
      },
    },
    errors: ['reseller_forbidden'],
    handler: async ({ caller, scope, query, after }) => {
      resellerOnly(caller)
      const period = periodOf(query)
      const { group_by: groupBy } = query
      const page = rowsOf(query)
      const { accountId } = scope
      await reads.settled(accountId, after ?? 0)
      const { margins, total } = await listMargins(pool, scope, { ...period, groupBy, ...page })
      const customers = groupBy === 'customer' ? margins.map(({ key }) => key) : null
      const refs = customers && (await customerRefs(pool, accountId, customers))
      const rows = margins.map((row) => ({
        ...row,
        currency: 'USD' as const,
        ...(refs && { customer: refs.get(row.key) ?? null }),
      }))
      return { status: 200, body: { margins: rows, ...rowFields(total, page) } }
    },
  }),

  route({
    method: 'GET',
    path: '/api/v1/reseller/statement',
    operationId: 'getStatement',
    summary: 'Read your statement',
    description: `Every sale to a customer and every refund to a customer, oldest first, with the order and the event that moved the money. An answer has at most ${maxStatementLines} lines. Use \`after\` for the next lines.`,
    tag: 'Resellers',
    access: 'buy',
    writes: false,
    customer: 'limits',
    query: z.object({
      ...periodQuery,
      format: wordQuery(
        ['json', 'csv'],
        'The format of the answer: JSON, or CSV (RFC 4180) with a header row.',
      ).default('json'),
      limit: integerQuery({
        min: 1,
        max: maxStatementLines,
        description: `The maximum number of lines; left out: ${maxStatementLines}.`,
      }).optional(),
      after: z
        .string()
        .optional()
        .meta({ description: 'Only lines after this one: the `nextAfter` of an earlier answer.' }),
    }),
    codes: { query: { limit: 'invalid_limit' } },
    examples: { query: { from: '2026-11-01', to: '2026-12-01', format: 'json' } },
    responses: {
      200: {
        description: 'The statement.',
        body: Statement,
        example: statementExample,
        text: { mediaType: 'text/csv', example: statementCsv([lineExample]) },
        headers: {
          'Content-Disposition': 'For CSV only: `attachment; filename="statement.csv"`',
          'X-Farebox-Next-After': 'For CSV only: the value of `nextAfter`, if more lines follow',
        },
      },
    },
    errors: ['reseller_forbidden'],
    handler: async ({ caller, scope, query, after }) => {
      resellerOnly(caller)
      const period = periodOf(query)
      await reads.settled(scope.accountId, after ?? 0)
      const page = await readStatement(pool, scope, {
        ...period,
        after: query.after ?? null,
        limit: query.limit ?? maxStatementLines,
      })
      if (page === null) throw refuse('invalid_parameter', 'after must be the nextAfter of an earlier answer')
      const { lines, nextAfter, totals } = page
      if (query.format === 'csv')
        return {
          status: 200,
          text: statementCsv(lines),
          headers: {
            'content-disposition': 'attachment; filename="statement.csv"',
            ...(nextAfter !== null && { 'x-farebox-next-after': nextAfter }),
          },
        }
      const complete = query.after === undefined && nextAfter === null
      const [from, to] = [isoOrNull(period.fromMs), isoOrNull(period.toMs)]
      return { status: 200, body: { from, to, currency: 'USD' as const, totals, lines, complete, nextAfter } }
    },
  }),
]
