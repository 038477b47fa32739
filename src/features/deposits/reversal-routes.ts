import { z } from 'zod'
import { hot } from '../../../projections/groups.ts'
import { listReversals, reversalStatuses } from '../../../projections/reversals.ts'
import { reversalReasons } from '../../domain/payments/payments.ts'
import { microsToCentsCeil } from '../../kernel/money.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { pagingCodes, wordQuery } from '../../platform/http/query.ts'
import { exampleRows, reportQuery, reportShape, rowFields, rowsOf } from '../../platform/http/report-rows.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { ReadsBehind } from '../../platform/projections/read-your-writes.ts'

/** The longest wait for the read tables, milliseconds. */
const waitMs = 2_000

const Reversals = z
  .object({
    reversals: z.array(
      z
        .object({
          accountId: z.string(),
          reversalId: z.string().meta({
            description:
              "The provider's id of the dispute or refund, or the reference of an operator. For a requested refund: its id here.",
          }),
          reason: namedEnum('ReversalReason', reversalReasons).meta({
            description: '`chargeback`: a dispute.',
          }),
          status: z.enum(reversalStatuses).meta({
            description:
              '`requested`: a refund that has not moved money yet. `refused`: a refund that the provider did not make. `taken`: the money was taken from the wallet. `returned`: the money came back, such as after a won dispute.',
          }),
          gateway: z.string().nullable().meta({ description: 'The account of the provider in the books.' }),
          depositId: z.string().nullable().meta({ description: 'Null: it was booked by hand.' }),
          amountCents: z
            .int()
            .meta({ description: 'The largest requested or taken amount, in whole cents.' }),
          takenCents: z
            .int()
            .meta({ description: 'What it has taken from the wallet until now, in whole cents.' }),
          openedAt: z.iso.datetime(),
        })
        .meta({ id: 'Reversal' }),
    ),
    ...reportShape,
  })
  .meta({ id: 'ReversalList' })

const example = {
  accountId: 'acc_0190d0a2c1d27f0e8f6e5c4b3a291807',
  reversalId: 'dp_1SXk2L',
  reason: 'chargeback',
  status: 'taken',
  gateway: 'stripe',
  depositId: 'dep_0190d0a2c1d27f0e8f6e5c4b3a291807',
  amountCents: 5000,
  takenCents: 5000,
  openedAt: '2026-11-21T02:30:00.000Z',
} as const

/** The disputes and refunds of payments into wallets, for finance. */
export const reversalRoutes = ({
  db,
  log,
  progress,
}: {
  readonly db: Db
  readonly log: Pick<EventLog, 'head'>
  readonly progress: Pick<Progress, 'reached'>
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/finance/v1/reversals',
    operationId: 'listReversals',
    summary: 'List disputes and refunds',
    description:
      'Disputes of payments into wallets, and refunds of such payments to their payers, newest first. Those at the own gateways of resellers are not listed.',
    tag: 'Finance',
    access: 'finance',
    writes: false,
    query: z.object({
      reason: wordQuery(reversalReasons, 'Only disputes, or only refunds.', 'ReversalReason').optional(),
      ...reportQuery,
    }),
    codes: { query: pagingCodes },
    examples: { query: { reason: 'chargeback' } },
    responses: {
      200: {
        description: 'Disputes and refunds.',
        body: Reversals,
        example: { reversals: [example], ...exampleRows },
      },
    },
    errors: [],
    handler: async ({ query }) => {
      if (!(await progress.reached(hot.name, await log.head(), waitMs)))
        throw new ReadsBehind('the data that this request must see is not readable yet; try again')
      const rows = rowsOf(query)
      const { reversals, total } = await listReversals(db, { reason: query.reason, ...rows })
      const shown = reversals.map(({ rowId: _, amountMicros, takenMicros, ...row }) => ({
        ...row,
        amountCents: microsToCentsCeil(amountMicros),
        takenCents: microsToCentsCeil(takenMicros),
      }))
      return { status: 200, body: { reversals: shown, ...rowFields(total, rows) } }
    },
  }),
]
