import { type FoundPlan, findPlan, listPlans, type PlanStatus } from '../../../projections/plans.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliRefusal, fields, notFound } from '../../platform/cli/output.ts'
import { customerRefs, type ListedResource, type Owned } from '../accounts/index.ts'
import type { meterInput } from './commands.ts'
import { createMeter } from './meter-traffic.ts'
import { type PlanFacts, planFacts } from './plan-record.ts'

const factsOf = async (
  { pool, clock }: CliContext,
  { accountId }: ListScope,
  rows: readonly FoundPlan[],
): Promise<readonly Owned<PlanFacts>[]> => {
  const refs = await customerRefs(
    pool,
    accountId,
    rows.map((row) => row.customerId),
  )
  return rows.map((row) => ({
    ...planFacts(row, { product: undefined, nowMs: clock(), customer: refs.get(row.customerId) ?? null }),
    accountId: row.accountId as AccountId,
  }))
}

const gigabytes = (gb: number | null): string => (gb === null ? '-' : `${gb} GB`)

export const plans: ListedResource<PlanFacts> = {
  owner: { table: 'read.plans', id: 'plan_id' },
  reads: (context) => {
    const { db } = context
    return {
      list: async (scope, page) => {
        const filter = { ...page, productId: undefined, status: page.status as PlanStatus | undefined }
        const found = await listPlans(db, scope, filter, context.clock())
        return { rows: await factsOf(context, scope, found.plans), total: found.total }
      },
      find: async (account, id) => {
        const scope = wholeAccount(account)
        const found = await findPlan(db, scope, id)
        return found ? ((await factsOf(context, scope, [found]))[0] ?? null) : null
      },
    }
  },
  fields: {
    plan: 'planId',
    status: 'status',
    product: 'productId',
    renewal: 'renewal',
    total: (row) => gigabytes(row.dataGbTotal),
    used: (row) => gigabytes(row.dataGbUsed),
    left: (row) => gigabytes(row.dataGbRemaining),
    'low since': 'lowTrafficSince',
    'speed units': 'speedUnits',
    label: (row) => row.label || null,
    customer: 'customerId',
    'own id of the customer': 'customer',
    orders: (row) => row.orderIds.join(' ') || null,
    'started at': 'startedAt',
    'expires at': 'expiresAt',
  },
  columns: ['plan', 'status', 'product', 'total', 'left', 'customer', 'started at', 'expires at'],
}

export const meter = async (context: CliContext, { plan, bytes, report }: InputOf<typeof meterInput>) => {
  const request = { planId: plan, reportId: report ?? newId('rep'), bytes }
  const answer = await createMeter(context).reportOnce(request)
  if (!answer.metered)
    throw answer.reason === 'unknown_plan'
      ? notFound(`no plan has the id ${plan}`)
      : new CliRefusal('already_applied', 'this report was counted before; nothing was added')
  const { usedBytes, remainingBytes } = answer
  return {
    json: { planId: plan, usedBytes, remainingBytes },
    text: fields({ plan, 'used bytes': usedBytes, 'remaining bytes': remainingBytes }),
  }
}
