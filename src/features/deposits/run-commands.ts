import type { z } from 'zod'
import { findDeposit, listDeposits, listGatewayChanges } from '../../../projections/deposits.ts'
import type { DepositStatus } from '../../domain/deposits/fold.ts'
import type { AccountId, DepositId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { requireReadTable } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, dollars, table } from '../../platform/cli/output.ts'
import type { ListedResource } from '../accounts/index.ts'
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
  columns: [
    { title: 'deposit', value: (row) => row.deposit_id },
    { title: 'created', value: (row) => row.created_at },
    { title: 'status', value: (row) => row.status },
    { title: 'method', value: (row) => row.method },
    { title: 'amount', value: (row) => dollars(row.amount_cents), align: 'right' },
    { title: 'credited', value: (row) => dollars(row.credited_cents), align: 'right' },
    { title: 'order', value: (row) => row.order_id ?? '-' },
    { title: 'customer', value: (row) => row.customer ?? row.customer_id ?? '-' },
  ],
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
  { pool, db }: CliContext,
  { all = false, limit }: { readonly all?: boolean; readonly limit: number },
): Promise<CliOutput> => {
  await requireReadTable(pool, 'read.gateway_changes')
  const rows = await listGatewayChanges(db, { all, limit, offset: 0 })
  return {
    json: { changes: rows.map(changeRecord) },
    text: table(
      rows,
      [
        { title: 'deposit', value: (row) => row.depositId },
        { title: 'number', value: (row) => String(row.number), align: 'right' },
        { title: 'what', value: (row) => row.change },
        { title: 'of', value: (row) => row.reference },
        { title: 'amount', value: (row) => row.amount ?? '-' },
        { title: 'gateway', value: (row) => row.gatewayId },
        { title: 'reported', value: (row) => row.reportedAt },
        { title: 'closed', value: (row) => row.reviewedAt ?? '-' },
      ],
      all ? 'nothing was reported' : 'nothing is open',
    ),
  }
}

export const review = async (
  context: CliContext,
  depositId: string,
  number: number,
  { note }: { readonly note: string },
): Promise<CliOutput> => {
  const answer = await reviewChange(
    context.runner,
    { depositId: depositId as DepositId, number, note },
    context,
  )
  if (answer === 'unknown_change')
    throw new CliMisuse(
      `no deposit ${depositId} has a change ${number}; "deposits changes" shows them`,
      {},
      'not_found',
    )
  return {
    json: { depositId, number, outcome: answer },
    text: answer === 'reviewed' ? 'closed' : 'it was closed before',
  }
}
