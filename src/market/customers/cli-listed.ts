import type { Command } from 'commander'
import type { AccountId, CustomerId } from '../../kernel/ids.ts'
import { createWallets } from '../../money/ledger/service.ts'
import type { Cli, CliContext } from '../../platform/cli/cli.ts'
import { dollars } from '../../platform/cli/output.ts'
import { microsToCentsFloor } from '../../terms/money.ts'
import { type Listed, registerListed } from '../accounts/listed.ts'
import { resellerOf } from './cli-reseller.ts'
import { type CustomerRecord, findCustomer, listCustomers } from './vault.ts'

type Shown = {
  readonly customerId: CustomerId
  /** The reseller's own id; null once it was erased. */
  readonly customer: string | null
  readonly label: string | null
  readonly creditCents: number
  readonly owedCents: number
  readonly createdAt: string
}

const withMoney = async (
  context: CliContext,
  accountId: AccountId,
  records: readonly CustomerRecord[],
): Promise<readonly Shown[]> => {
  const credit = await createWallets(context).customerCredit(accountId, context)
  return records.map(({ customerId, ref, label, createdAt }) => {
    const { availableMicros, receivableMicros } = credit(customerId)
    const creditCents = microsToCentsFloor(availableMicros)
    const owedCents = microsToCentsFloor(receivableMicros)
    return { customerId, customer: ref, label, creditCents, owedCents, createdAt }
  })
}

const customers: Listed<Shown> = {
  name: 'customers',
  one: 'customer',
  exampleId: 'cus_…',
  owner: { table: 'vault.customers', id: 'customer_id' },
  reads: (context) => ({
    list: async (account, page) => {
      await resellerOf(context, account)
      const found = await listCustomers(context.pool, account, page)
      return { rows: await withMoney(context, account, found.customers), total: found.total }
    },
    find: async (account, id) => {
      const found = await findCustomer(context.pool, account, id)
      return found ? ((await withMoney(context, account, [found]))[0] ?? null) : null
    },
  }),
  columns: [
    { title: 'id', value: (row) => row.customerId },
    { title: 'own id', value: (row) => row.customer ?? '(erased)' },
    { title: 'label', value: (row) => row.label ?? '-' },
    { title: 'credit', value: (row) => dollars(row.creditCents), align: 'right' },
    { title: 'owed', value: (row) => dollars(row.owedCents), align: 'right' },
    { title: 'since', value: (row) => row.createdAt },
  ],
  show: (row) => ({
    customer: row.customerId,
    'own id': row.customer ?? '(erased)',
    label: row.label,
    credit: dollars(row.creditCents),
    owed: dollars(row.owedCents),
    since: row.createdAt,
  }),
}

/** `customers list|show` */
export const registerCustomerList = (command: Command, cli: Cli): void =>
  registerListed(command, cli, customers)
