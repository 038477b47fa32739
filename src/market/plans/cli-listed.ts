import type { Command } from 'commander'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Cli, CliContext } from '../../platform/cli/cli.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { wholeAccount } from '../../terms/holder.ts'
import { type Listed, registerListed } from '../accounts/listed.ts'
import { customerRefs } from '../customers/vault.ts'
import type { LabelDatabase } from '../labels/database.ts'
import type { TrafficDatabase } from './migrations.ts'
import { findPlan, listPlans } from './queries.ts'
import { type FoundPlan, type PlanFacts, type PlanStatus, planFacts, planStatuses } from './record.ts'

const factsOf = async (
  { pool, clock }: CliContext,
  account: AccountId,
  rows: readonly FoundPlan[],
): Promise<readonly PlanFacts[]> => {
  const refs = await customerRefs(
    pool,
    account,
    rows.map((row) => row.customer_id),
  )
  return rows.map((row) =>
    planFacts(row, { product: undefined, nowMs: clock(), customer: refs.get(row.customer_id) ?? null }),
  )
}

const gigabytes = (gb: number | null): string => (gb === null ? '-' : `${gb} GB`)

const plans: Listed<PlanFacts> = {
  name: 'plans',
  one: 'plan',
  exampleId: 'pln_…',
  statuses: planStatuses,
  owner: { table: 'read.plans', id: 'plan_id' },
  reads: (context) => {
    const db = createKysely<ReadDatabase & LabelDatabase & TrafficDatabase>(context.pool)
    return {
      list: async (account, page) => {
        const filter = { ...page, productId: undefined, status: page.status as PlanStatus | undefined }
        const found = await listPlans(db, wholeAccount(account), filter, context.clock())
        return { rows: await factsOf(context, account, found.plans), total: found.total }
      },
      find: async (account, id) => {
        const found = await findPlan(db, wholeAccount(account), id)
        return found ? ((await factsOf(context, account, [found]))[0] ?? null) : null
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

/** `plans list|show`; passwords are not shown. */
export const registerPlanList = (command: Command, cli: Cli): void => registerListed(command, cli, plans)
