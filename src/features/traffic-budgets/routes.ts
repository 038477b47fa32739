import { z } from 'zod'
import { budgetPeriods } from '../../domain/plans/budget-periods.ts'
import { isTimeZone } from '../../kernel/calendar.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { allOf, given, not, when, withRule } from '../../platform/http/field-rules.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Customers } from '../accounts/index.ts'
import { maxLimitBytes, minLimitBytes } from './budget-limits.ts'
import { TrafficBudgetRecord, trafficBudgetExample } from './budget-record.ts'
import { maxPlanBudgets, type TrafficBudgets } from './budgets.ts'

const params = z.object({ id: z.string() })
const examples = { params: { id: trafficBudgetExample.id } }
const tag = 'Traffic budgets'

const hasPlan = given('planId', 'string')
const hasLineSet = given('lineSet', 'string')
const hasEntry = given('whitelistEntryId', 'string')

const zoneForm = 'a time zone of the IANA database such as Europe/Berlin or UTC'

/** Traffic budgets: docs/guides/traffic-budgets.md. */
export const trafficBudgetRoutes = ({
  trafficBudgets,
  customers,
  reads,
}: {
  readonly trafficBudgets: TrafficBudgets
  readonly customers: Customers
  readonly reads: Pick<Reads, 'settled'>
}): readonly Route[] => [
  route({
    method: 'PUT',
    path: '/api/v1/traffic-budgets',
    operationId: 'setTrafficBudget',
    summary: 'Set a traffic budget',
    description: `Limits the traffic of a day, a week or a month, in both directions. The target is a plan, a set of its lines (\`lineSet\`), or an entry of its whitelist (\`whitelistEntryId\`). Without \`planId\`, the budget limits all plans of the customer in \`X-Reseller-Customer-Id\`. A target has one budget for each period: a second request changes the limit and the time zone. At the limit, gateways pass no more bytes until the next period: connections end, and new ones get status 466 with \`X-Proxy-Error: traffic_budget_reached\`. Gateways apply a change within a second. A plan can have up to ${maxPlanBudgets} budgets.`,
    tag,
    access: 'buy',
    writes: true,
    customer: 'limits',
    body: withRule(
      z.strictObject({
        planId: z.string().min(1).optional().meta({
          description: 'The id of the plan. Left out: all plans of the customer in `X-Reseller-Customer-Id`.',
        }),
        lineSet: z.string().min(1).optional().meta({
          description: 'The id of a set of lines of the plan, as `-set-` in their usernames.',
        }),
        whitelistEntryId: z.string().min(1).optional().meta({
          description: "The id of an entry of the plan's whitelist.",
        }),
        period: namedEnum('TrafficBudgetPeriod', budgetPeriods).meta({
          description: 'A week begins on Monday.',
        }),
        timeZone: z
          .string()
          .refine(isTimeZone, `must be ${zoneForm}`)
          .optional()
          .meta({
            description: `The time zone of the periods: ${zoneForm}. Default: UTC. A change of the time zone begins a new count.`,
            words: zoneForm,
          }),
        limitBytes: z.int().min(minLimitBytes).max(maxLimitBytes).meta({
          description:
            'The maximum traffic of a period in both directions, in bytes: from 1 MB (1,000,000) to 1 PB.',
        }),
      }),
      when(hasLineSet, allOf([hasPlan, not(hasEntry)]), when(hasEntry, hasPlan)),
      'must have the planId of a lineSet or of a whitelistEntryId, which exclude each other',
    ),
    examples: {
      body: {
        planId: trafficBudgetExample.planId!,
        period: 'day',
        timeZone: 'Europe/Berlin',
        limitBytes: 5_000_000_000,
      },
    },
    responses: {
      200: {
        description: 'The budget existed. It has the new limit and time zone.',
        body: TrafficBudgetRecord,
        example: trafficBudgetExample,
      },
      201: {
        description: 'The new budget.',
        body: TrafficBudgetRecord,
        example: trafficBudgetExample,
      },
    },
    errors: ['not_found', 'invalid_body', 'traffic_budget_limit_reached'],
    handler: async ({ caller, scope, customerRef, body, after, requestId }) => {
      const { id, isNew, position } = await trafficBudgets.set(
        scope,
        body,
        causeOf({ caller, requestId }),
        after,
      )
      if (body.planId === undefined && customerRef !== null)
        await customers.ensure(scope.accountId, customerRef)
      await reads.settled(scope.accountId, position ?? 0)
      return { status: isNew ? 201 : 200, body: await trafficBudgets.get(scope, id), position }
    },
  }),

  route({
    method: 'GET',
    path: '/api/v1/traffic-budgets',
    operationId: 'listTrafficBudgets',
    summary: 'List traffic budgets',
    description:
      "The account's traffic budgets and their use in the current period, newest first. Without a customer, a reseller gets the budgets of all customers, too.",
    tag,
    access: 'buy',
    writes: false,
    customer: 'limits',
    query: z.object({
      ...pagingQuery,
      plan_id: z.string().optional().meta({
        description:
          'Only budgets that limit this plan: those of the plan, its line sets, its whitelist entries and its customer.',
      }),
    }),
    codes: { query: pagingCodes },
    responses: {
      200: {
        description: 'A page of traffic budgets.',
        body: z
          .object({ trafficBudgets: z.array(TrafficBudgetRecord), ...pageShape })
          .meta({ id: 'TrafficBudgetList' }),
        example: { trafficBudgets: [trafficBudgetExample], total: 1, limit: 50, offset: 0 },
      },
    },
    errors: [],
    handler: async ({ scope, query: { limit, offset, plan_id: planId }, after }) => {
      await reads.settled(scope.accountId, after ?? 0)
      const { budgets, total } = await trafficBudgets.list(scope, { limit, offset, planId })
      return { status: 200, body: { trafficBudgets: budgets, total, limit, offset } }
    },
  }),

  route({
    method: 'GET',
    path: '/api/v1/traffic-budgets/{id}',
    operationId: 'getTrafficBudget',
    summary: 'Read a traffic budget',
    description: 'The limit of a budget, its use in the current period, and the start of the next period.',
    tag,
    access: 'buy',
    writes: false,
    customer: 'limits',
    params,
    examples,
    responses: {
      200: { description: 'The budget.', body: TrafficBudgetRecord, example: trafficBudgetExample },
    },
    errors: ['not_found'],
    handler: async ({ scope, params: { id }, after }) => {
      await reads.settled(scope.accountId, after ?? 0)
      return { status: 200, body: await trafficBudgets.get(scope, id) }
    },
  }),

  route({
    method: 'POST',
    path: '/api/v1/traffic-budgets/{id}/reset',
    operationId: 'resetTrafficBudget',
    summary: 'Reset a traffic budget',
    description:
      'The count of the current period begins again at 0. The next period begins at the same time as before. Gateways apply the reset within a second.',
    tag,
    access: 'buy',
    writes: true,
    customer: 'limits',
    params,
    examples,
    responses: {
      200: {
        description: 'The budget.',
        body: TrafficBudgetRecord,
        example: {
          ...trafficBudgetExample,
          usedBytes: 0,
          remainingBytes: trafficBudgetExample.limitBytes,
          countedFrom: '2026-11-21T10:30:00.000Z',
        },
      },
    },
    errors: ['not_found'],
    handler: async ({ caller, scope, params: { id }, requestId }) => {
      const { position } = await trafficBudgets.reset(scope, id, causeOf({ caller, requestId }))
      await reads.settled(scope.accountId, position ?? 0)
      return { status: 200, body: await trafficBudgets.get(scope, id), position }
    },
  }),

  route({
    method: 'DELETE',
    path: '/api/v1/traffic-budgets/{id}',
    operationId: 'removeTrafficBudget',
    summary: 'Remove a traffic budget',
    description:
      'The budget limits nothing more. Gateways apply the removal within a second. A new budget for the same target and period continues the count of the period.',
    tag,
    access: 'buy',
    writes: true,
    customer: 'limits',
    params,
    examples,
    responses: { 204: { description: 'The budget is removed.' } },
    errors: ['not_found'],
    handler: async ({ caller, scope, params: { id }, requestId }) => {
      const { position } = await trafficBudgets.remove(scope, id, causeOf({ caller, requestId }))
      return { status: 204, position }
    },
  }),
]
