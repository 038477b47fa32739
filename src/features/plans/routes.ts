import type pg from 'pg'
import { z } from 'zod'
import { type FoundPlan, listPlans, planStatuses } from '../../../projections/plans.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { decideRotation } from '../../domain/plans/decide.ts'
import { planFold } from '../../domain/plans/fold.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId, CustomerId, PlanId } from '../../kernel/ids.ts'
import { planStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { idempotentAnswer } from '../../platform/http/answer.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { pageShape, pagingCodes, pagingQuery, wordQuery } from '../../platform/http/query.ts'
import { idempotentResponses, type Route, route } from '../../platform/http/route.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import { maxLabelLength, setLabel } from '../../platform/vault/labels.ts'
import { customerRefs } from '../accounts/index.ts'
import {
  chargeErrors,
  guardField,
  isOrderKey,
  methodField,
  OrderRecord,
  orderExample,
  orderOf,
  orderRecord,
  type PlaceOrder,
  payPageErrors,
  quantityField,
} from '../orders/index.ts'
import type { FindPlanDependencies } from './plan-record.ts'
import { createFindPlan, type Gateway, PlanRecord, planExample, planRecord } from './plan-record.ts'

/** Changes the password of a plan. Returns the new generation of its credential, and when it began. */
export const rotatePlanPassword = async (
  runner: CommandRunner,
  planId: PlanId,
  { accountId, ...cause }: Cause & { readonly accountId: AccountId },
): Promise<{
  readonly generation: number
  readonly rotatedAtMs: number
  readonly position: number | null
}> => {
  const stream = planStream(planId)
  const { answer, position } = await runner.run({
    name: 'rotate-plan-password',
    account: accountId,
    ...cause,
    streams: { plan: { stream, fold: planFold } },
    decide: ({ plan }, { nowMs }) => {
      const event = decideRotation(plan)
      if (event?.type !== 'PlanCredentialRotated') throw new Error(`plan ${planId} was never activated`)
      const { generation } = event.data
      return { appends: [{ stream, events: [event] }], answer: { generation, rotatedAtMs: nowMs } }
    },
  })
  return { ...answer, position }
}

const params = z.object({ id: z.string() })
const examples = { params: { id: planExample.planId } }

const topUpExample = {
  ...orderExample,
  kind: 'topup',
  productId: planExample.productId,
  family: 'residential',
  shape: 'gateway_gb',
  delivery: 'lines',
  unit: 'GB',
  fulfillmentMeta: null,
  planId: planExample.planId,
  proxyIds: [],
  plan: planExample,
} as const

/** Plans (research: proxies, 2.1): reading, labelling and topping up. */
export const planRoutes = (
  dependencies: FindPlanDependencies & {
    readonly placeOrder: PlaceOrder
    readonly log: Pick<EventLog, 'lastOf'>
    readonly catalog: { current(): Catalog }
    readonly pool: pg.Pool
    readonly credentials: Credentials
    readonly gateway: Gateway
    readonly clock: Clock
  },
): readonly Route[] => {
  const { placeOrder, log, catalog, reads, db, verifyPlans, pool, credentials, gateway, clock } = dependencies

  const recordsOf = async ({ accountId }: Caller, found: readonly FoundPlan[]): Promise<PlanRecord[]> => {
    const rows = await verifyPlans(accountId, found)
    const refs = await customerRefs(
      pool,
      accountId,
      rows.map((row) => row.customerId),
    )
    return rows.map((row) =>
      planRecord(row, {
        product: catalog.current().resolve(row.productId),
        credentials: credentials.of(row.planId as PlanId, row.generation),
        gateway,
        nowMs: clock(),
        customer: refs.get(row.customerId) ?? null,
      }),
    )
  }
  const recordOf = async (caller: Caller, row: FoundPlan): Promise<PlanRecord> =>
    (await recordsOf(caller, [row]))[0]!

  const planOf = createFindPlan(dependencies)

  return [
    route({
      method: 'GET',
      path: '/api/v1/plans',
      operationId: 'listPlans',
      summary: 'List plans',
      description: "The account's plans, newest first.",
      tag: 'Plans',
      access: 'buy',
      writes: false,
      customer: 'limits',
      query: z.object({
        ...pagingQuery,
        status: wordQuery(planStatuses, 'Only plans in this status.', 'PlanStatus').optional(),
        product: z.string().optional().meta({ description: 'Only plans of this product id.' }),
      }),
      codes: { query: pagingCodes },
      responses: {
        200: {
          description: 'A page of plans.',
          body: z.object({ plans: z.array(PlanRecord), ...pageShape }).meta({ id: 'PlanList' }),
          example: { plans: [planExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: [],
      handler: async ({ caller, scope, query, after }) => {
        const { limit, offset, status, product } = query
        await reads.settled(scope.accountId, after ?? 0)
        const productId =
          product === undefined ? undefined : (catalog.current().resolve(product)?.id ?? product)
        const page = await listPlans(db, scope, { limit, offset, status, productId }, clock())
        const plans = await recordsOf(caller, page.plans)
        return { status: 200, body: { plans, total: page.total, limit, offset } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/plans/{id}',
      operationId: 'getPlan',
      summary: 'Read a plan',
      description: 'The remaining traffic of a plan, and the credentials of its proxy lines.',
      tag: 'Plans',
      access: 'buy',
      writes: false,
      customer: 'limits',
      params,
      examples,
      responses: { 200: { description: 'The plan.', body: PlanRecord, example: planExample } },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id }, after }) => {
        return { status: 200, body: await recordOf(caller, await planOf(scope, id, after)) }
      },
    }),

    route({
      method: 'PATCH',
      path: '/api/v1/plans/{id}',
      operationId: 'updatePlan',
      summary: 'Label a plan',
      description:
        "Sets the account's own label of the plan, such as a customer's name. An empty text removes the label.",
      tag: 'Plans',
      access: 'buy',
      writes: true,
      customer: 'limits',
      params,
      body: z.strictObject({ label: z.string().max(maxLabelLength) }),
      examples: { ...examples, body: { label: 'acme' } },
      responses: { 200: { description: 'The plan.', body: PlanRecord, example: planExample } },
      errors: ['not_found'],
      handler: async ({ caller, scope, params: { id }, body: { label }, after }) => {
        const plan = await planOf(scope, id, after)
        await setLabel(pool, caller.accountId, plan.planId as PlanId, label)
        return { status: 200, body: await recordOf(caller, { ...plan, label }) }
      },
    }),

    route({
      method: 'POST',
      path: '/api/v1/plans/{id}/topup',
      operationId: 'topUpPlan',
      summary: 'Top up a plan',
      description:
        "Adds units to a plan of a `topup` product. This is the same as ordering the product again, but the answer has the plan. To top up the plan of a reseller's customer, send `X-Reseller-Customer-Id`: the customer's credit pays the price and your wallet pays your cost.",
      tag: 'Plans',
      access: 'buy',
      writes: true,
      idempotencyKey: 'required-for-resellers',
      customer: 'pays',
      params,
      body: z.strictObject({
        quantity: quantityField,
        method: methodField,
        expected_amount_cents: guardField,
      }),
      codes: { body: { quantity: 'invalid_quantity', method: { value: 'unsupported_method' } } },
      examples: { ...examples, body: { quantity: 5 } },
      responses: idempotentResponses(
        OrderRecord.extend({ plan: PlanRecord }).meta({ id: 'TopUp' }),
        topUpExample,
        {
          created: 'The order, and the plan with its new units.',
          existing: 'The earlier order with this Idempotency-Key, and the plan in its current state.',
        },
      ),
      errors: [
        'not_found',
        'invalid_quantity',
        ...chargeErrors,
        ...payPageErrors,
        'customer_credit_insufficient',
      ],
      knownKey: (caller, key) => isOrderKey(log, caller.accountId, key),
      handler: async (request) => {
        const { caller, scope, params, body, customerRef, after } = request
        const { planId, productId, customerId } = await planOf(scope, params.id, after)
        const path = `/api/v1/plans/${planId}/topup`
        const plan = { planId, productId, customerId: customerId as CustomerId | null }
        const item = { kind: 'topup', plan, quantity: body.quantity } as const
        const placed = await placeOrder(orderOf({ ...request, path }, productId, item))
        const { order, invoice = null, position } = placed
        return idempotentAnswer(placed, {
          ...orderRecord({ ...order, invoice, customer: customerRef }, caller.reseller),
          plan: await recordOf(caller, await planOf(scope, planId, position)),
        })
      },
    }),
  ]
}
