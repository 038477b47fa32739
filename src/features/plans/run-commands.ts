import { type FoundPlan, findPlan, listPlans, type PlanStatus } from '../../../projections/plans.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import { type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { CliMisuse, CliRefusal, fields } from '../../platform/cli/output.ts'
import { customerRefs, type ListedResource, type Owned } from '../accounts/index.ts'
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
  columns: [
    { title: 'plan', value: (row) => row.planId },
    { title: 'started', value: (row) => row.startedAt },
    { title: 'status', value: (row) => row.status },
    { title: 'product', value: (row) => row.productId },
    { title: 'total', value: (row) => gigabytes(row.dataGbTotal), align: 'right' },
    { title: 'left', value: (row) => gigabytes(row.dataGbRemaining), align: 'right' },
    { title: 'expires', value: (row) => row.expiresAt ?? '-' },
    { title: 'customer', value: (row) => row.customer ?? row.customerId ?? '-' },
  ],
  show: (row) => ({
    plan: row.planId,
    status: row.status,
    product: row.productId,
    renewal: row.renewal,
    total: gigabytes(row.dataGbTotal),
    used: gigabytes(row.dataGbUsed),
    left: gigabytes(row.dataGbRemaining),
    'low since': row.lowTrafficSince,
    'speed units': row.speedUnits,
    label: row.label === '' ? null : row.label,
    customer: row.customerId,
    'own id of the customer': row.customer,
    orders: row.orderIds.length === 0 ? null : row.orderIds.join(' '),
    'started at': row.startedAt,
    'expires at': row.expiresAt,
  }),
}

type MeterOptions = { readonly plan: string; readonly bytes: number; readonly report?: string }

export const meter = async (context: CliContext, options: MeterOptions) => {
  const { plan, bytes, report = newId('rep') } = options
  const answer = await createMeter(context).reportOnce({
    planId: plan as PlanId,
    reportId: report,
    bytes,
  })
  if (!answer.metered)
    throw answer.reason === 'unknown_plan'
      ? new CliMisuse(`no plan has the id ${plan}`, {}, 'not_found')
      : new CliRefusal('already_applied', 'this report was counted before; nothing was added')
  const { usedBytes, remainingBytes } = answer
  return {
    json: { planId: plan, usedBytes, remainingBytes },
    text: fields({ plan, 'used bytes': usedBytes, 'remaining bytes': remainingBytes }),
  }
}
