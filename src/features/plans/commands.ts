import type { Command } from 'commander'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { LabelDatabase, TrafficDatabase } from '../../../projections/other-tables.ts'
import {
  type FoundPlan,
  findPlan,
  listPlans,
  type PlanStatus,
  planStatuses,
} from '../../../projections/plans.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import { type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli-context.ts'
import { CliMisuse, CliRefusal, fields } from '../../platform/cli/output.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { customerRefs, type ListedResource, type Owned, registerListCommands } from '../accounts/index.ts'
import { createMeter, type Meter } from './meter-traffic.ts'
import { type PlanFacts, planFacts } from './plan-record.ts'

const factsOf = async (
  { pool, clock }: CliContext,
  { accountId }: ListScope,
  rows: readonly FoundPlan[],
): Promise<readonly Owned<PlanFacts>[]> => {
  const refs = await customerRefs(
    pool,
    accountId,
    rows.map((row) => row.customer_id),
  )
  return rows.map((row) => ({
    ...planFacts(row, { product: undefined, nowMs: clock(), customer: refs.get(row.customer_id) ?? null }),
    accountId: row.account_id as AccountId,
  }))
}

const gigabytes = (gb: number | null): string => (gb === null ? '-' : `${gb} GB`)

const plans: ListedResource<PlanFacts> = {
  name: 'plans',
  one: 'plan',
  exampleId: 'pln_…',
  statuses: planStatuses,
  owner: { table: 'read.plans', id: 'plan_id' },
  reads: (context) => {
    const db = createKysely<ReadDatabase & LabelDatabase & TrafficDatabase>(context.pool)
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

/** `plans list|show`; passwords are not shown. */
export const registerPlanList = (command: Command, cli: Cli): void =>
  registerListCommands(command, cli, plans)

type MeterOptions = { readonly plan: string; readonly bytes: number; readonly report?: string }

/** `plans list|show`, `plans meter --plan ID --bytes N [--report ID]`. */
export const registerPlans = (program: Command, cli: Cli): void => {
  const plans = program.command('plans')
  registerPlanList(plans, cli)

  plans
    .command('meter')
    .description('report traffic of a plan, both directions added')
    .requiredOption('--plan <id>', 'the plan')
    .requiredOption('--bytes <n>', 'bytes that were used; 1 GB is 1,000,000,000', wholeNumber(1, 1e15))
    .option('--report <id>', 'names the report; the same name is counted once')
    .addHelpText(
      'after',
      `
Examples:
  npx farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000
  npx farebox plans meter --plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10 --bytes 500000000 --report gw1-1042 --json`,
    )
    .action(
      cli.action(async (context, options: MeterOptions) => {
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
      }),
    )
}

export const commands = [registerPlans] as const

/** Writes what a plan used to the log, for the command that refunds its order. */
export const settleTraffic = (context: CliContext): Meter['settle'] => createMeter(context).settle
