import type { z } from 'zod'
import { findDeposit, listDeposits, listGatewayChanges } from '../../../projections/deposits.ts'
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
    const { db, clock } = context
    const pages = createDepositPages(context)
    return {
      list: async (scope, page) => {
        const status = page.status as DepositStatus | undefined
        const found = await listDeposits(db, scope, { ...page, status })
        const rows = found.deposits.map((row) => ({
          ...depositRecord(row, clock(), pages),
          accountId: row.accountId as AccountId,
        }))
        return { rows, total: found.total }
      },
      find: async (account, id) => {
        const found = await findDeposit(db, wholeAccount(account), id)
        return found ? depositRecord(found, clock(), pages) : null
      },
    }
  },
  fields: {
    deposit: 'deposit_id',
    status: 'status',
    method: 'method',
    amount: (row) => dollars(row.amount_cents),
    credited: (row) => dollars(row.credited_cents),
    'charged back': (row) => dollars(row.charged_back_cents),
    order: 'order_id',
    customer: 'customer_id',
    'own id of the customer': 'customer',
    'created at': 'created_at',
    'paid at': 'paid_at',
    'expires at': 'expires_at',
    'pay page': 'pay_url',
  },
  columns: ['deposit', 'status', 'method', 'amount', 'credited', 'order', 'customer', 'created at'],
}

export const listChanges = async (
  { db }: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
) => {
  await requireReadTable(db, 'read.gateway_changes')
  const rows = await listGatewayChanges(db, { all, limit, offset: 0 })
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
