import type { Command } from 'commander'
import type { z } from 'zod'
import { findDeposit, listDeposits } from '../../../projections/deposits.ts'
import { type DepositStatus, depositStatuses } from '../../domain/deposits/fold.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Cli } from '../../platform/cli/cli-context.ts'
import { dollars } from '../../platform/cli/output.ts'
import { type ListedResource, registerListCommands } from '../accounts/index.ts'
import { type DepositRecord, depositRecord } from './deposit-record.ts'

type Shown = z.input<typeof DepositRecord>

const deposits: ListedResource<Shown> = {
  name: 'deposits',
  one: 'deposit',
  exampleId: 'dep_…',
  statuses: depositStatuses,
  owner: { table: 'read.deposits', id: 'deposit_id' },
  reads: ({ pool, clock }) => ({
    list: async (account, page) => {
      const status = page.status as DepositStatus | undefined
      const found = await listDeposits(pool, wholeAccount(account), { ...page, status })
      return { rows: found.deposits.map((row) => depositRecord(row, clock())), total: found.total }
    },
    find: async (account, id) => {
      const found = await findDeposit(pool, wholeAccount(account), id)
      return found ? depositRecord(found, clock()) : null
    },
  }),
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

/** `deposits list|show` */
export const registerDeposits = (program: Command, cli: Cli): void =>
  registerListCommands(
    program.command('deposits').description('list deposits and look at them'),
    cli,
    deposits,
  )

export const commands = [registerDeposits] as const
