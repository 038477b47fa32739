import { findPlan } from '../../../projections/plans.ts'
import { isTimeZone } from '../../kernel/calendar.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import { allAccounts, wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import {
  CliMisuse,
  type CliOutput,
  type Columns,
  fields,
  notFound,
  table,
} from '../../platform/cli/output.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { createAccounts, createCustomers } from '../accounts/index.ts'
import type { TrafficBudgetRecord } from './budget-record.ts'
import { createTrafficBudgets } from './budgets.ts'
import type { budgetInput, listInput, setInput } from './commands.ts'

const budgetsOf = (context: CliContext) =>
  createTrafficBudgets({
    ...context,
    planOf: async (scope, planId) => {
      const plan = await findPlan(context.db, scope, planId)
      if (!plan) throw notFound(`the account has no plan with the id ${planId}; "plans list" shows them`)
      return { planId: plan.planId as PlanId, customerId: plan.customerId }
    },
  })

/** @throws CliMisuse */
const accountOf = async (context: CliContext, accountId: AccountId) => {
  const account = await createAccounts(context).read(accountId, context)
  if (!account) throw notFound(`no account has the id ${accountId}; "accounts list" shows them`)
  return account
}

const columns: Columns<TrafficBudgetRecord> = {
  budget: 'id',
  scope: 'scope',
  plan: 'planId',
  'set or entry': (row) => row.lineSet ?? row.whitelistEntryId,
  customer: (row) => row.customer ?? row.customerId,
  period: 'period',
  'time zone': 'timeZone',
  limit: (row) => row.limitBytes.toLocaleString('en-US'),
  used: (row) => row.usedBytes.toLocaleString('en-US'),
  'counted from': 'countedFrom',
  'resets at': 'resetsAt',
}

export const list = async (context: CliContext, input: InputOf<typeof listInput>): Promise<CliOutput> => {
  const { account, plan, limit, offset } = input
  await accountOf(context, account)
  const filter = { limit, offset, planId: plan }
  const { budgets, total } = await budgetsOf(context).list(wholeAccount(account), filter)
  const text = table(budgets, columns, total === 0 ? 'no traffic budgets' : 'none on this page')
  return {
    json: { accountId: account, trafficBudgets: budgets, total, limit, offset },
    text: `${text}\n\n${budgets.length} of ${total}`,
  }
}

export const set = async (context: CliContext, input: InputOf<typeof setInput>): Promise<CliOutput> => {
  const { account: accountId, plan, customer, lineSet, whitelistEntry, period, timeZone, limitBytes } = input
  if ((plan === undefined) === (customer === undefined))
    throw new CliMisuse("give --plan or --customer (the reseller's own id), not both")
  if (!isTimeZone(timeZone))
    throw new CliMisuse('--time-zone must be a time zone of the IANA database such as Europe/Berlin')
  const account = await accountOf(context, accountId)
  if (customer !== undefined && !account.reseller)
    throw new CliMisuse(`${accountId} is not a reseller, so it has no customers`)
  const customers = createCustomers({ pool: context.pool, master: context.keys.master })
  const customerId = customer === undefined ? null : customers.idOf(accountId, customer)
  const { id, isNew } = await budgetsOf(context).set(
    { accountId, customerId },
    { planId: plan, lineSet, whitelistEntryId: whitelistEntry, period, timeZone, limitBytes },
    context,
  )
  if (customer !== undefined) await customers.ensure(accountId, customer)
  return {
    json: { id, isNew, accountId, period, timeZone, limitBytes },
    text: fields({ budget: id, new: isNew ? 'yes' : 'no', period, 'time zone': timeZone, limit: limitBytes }),
  }
}

const orUnknown =
  (budget: string) =>
  (error: unknown): never => {
    if (error instanceof ApiError && error.code === 'not_found')
      throw notFound(`no traffic budget has the id ${budget}; "traffic-budgets list" shows them`)
    throw error
  }

export const reset = async (
  context: CliContext,
  { budget }: InputOf<typeof budgetInput>,
): Promise<CliOutput> => {
  await budgetsOf(context).reset(allAccounts, budget, context).catch(orUnknown(budget))
  return { json: { id: budget }, text: `the count of ${budget} begins again at 0` }
}

export const remove = async (
  context: CliContext,
  { budget }: InputOf<typeof budgetInput>,
): Promise<CliOutput> => {
  await budgetsOf(context).remove(allAccounts, budget, context).catch(orUnknown(budget))
  return { json: { id: budget }, text: `${budget} is removed` }
}
