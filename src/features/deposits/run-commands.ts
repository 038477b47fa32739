import type { z } from 'zod'
import { findDeposit, listDeposits } from '../../../projections/deposits.ts'
import { listGatewayChanges } from '../../../projections/gateway-changes.ts'
import type { DepositStatus } from '../../domain/deposits/fold.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { type CliContext, requireReadTable } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { dollars, notFound } from '../../platform/cli/output.ts'
import type { ListedResource } from '../accounts/index.ts'
import type { reviewInput } from './commands.ts'
import { type DepositRecord, depositRecord } from './deposit-record.ts'
import { createDepositPages } from './deposit-urls.ts'
import { changeRecord, reviewChange } from './gateway-changes.ts'

type Shown = z.input<typeof DepositRecord>

export const deposits: ListedResource<Shown> = {
  owner: { table: 'read.deposits', id: 'deposit_id' },
  reads: (context) => {
    const { pool, clock } = context
    const pages = createDepositPages(context)
    return {
      list: async (scope, page) => {
        const status = page.status as DepositStatus | undefined
        const found = await listDeposits(pool, scope, { ...page, status })
        const rows = found.deposits.map((row) => ({
          ...depositRecord(row, clock(), pages),
          accountId: row.account_id as AccountId,
        }))
        return { rows, total: found.total }
      },
      find: async (account, id) => {
        const found = await findDeposit(pool, wholeAccount(account), id)
        return found ? depositRecord(found, clock(), pages) : null
      },
    }
  },
  columns: {
    deposit: 'deposit_id',
    created: 'created_at',
    status: 'status',
    method: 'method',
    amount: (row) => dollars(row.amount_cents),
    credited: (row) => dollars(row.credited_cents),
    order: 'order_id',
    customer: (row) => row.customer ?? row.customer_id ?? '-',
  },
  show: (row) => ({
    deposit: row.deposit_id,
    status: row.status,
    method: row.method,
    amount: dollars(row.amount_cents),
    credited: dollars(row.credited_cents),
    'charged back': dollars(row.charged_back_cents),
    order: row.order_id,
    customer: row.customer_id,
    'own id of the customer': row.customer,
    'created at': row.created_at,
    'paid at': row.paid_at,
    'expires at': row.expires_at,
    'pay page': row.pay_url,
  }),
}

export const listChanges = async (
  { pool }: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
) => {
  await requireReadTable(pool, 'read.gateway_changes')
  const rows = await listGatewayChanges(pool, { all, limit, offset: 0 })
  const empty = all ? 'no changes were reported' : 'no open changes; --all includes closed ones'
  return { json: { changes: rows.map(changeRecord) }, rows, empty }
}

export const review = async (
  context: CliContext,
  { deposit: depositId, number, note }: InputOf<typeof reviewInput>,
) => {
  const answer = await reviewChange(context.runner, { depositId, number, note }, context)
  if (answer === 'unknown_change')
    throw notFound(`no deposit ${depositId} has a change ${number}; "deposits changes" shows them`)
  return {
    json: { depositId, number, outcome: answer },
    text: answer === 'reviewed' ? 'closed' : 'it was closed before',
  }
}
