import { type Command, Option } from 'commander'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { DepositPagesDatabase } from '../../money/deposits/database.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli.ts'
import { CliMisuse, type CliOutput, dollars, table } from '../../platform/cli/output.ts'
import { refuseUnmade } from '../../platform/cli/read-tables.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { wholeAccount } from '../../terms/holder.ts'
import { createAccounts } from '../accounts/service.ts'
import { customerRefs } from '../customers/vault.ts'
import { type OrderStatus, orderStatuses } from './fold.ts'
import { listOrders } from './queries.ts'
import { orderRecord } from './record.ts'

type Options = {
  readonly account: AccountId
  readonly status?: OrderStatus
  readonly limit: number
  readonly offset: number
}

const list = async (context: CliContext, options: Options): Promise<CliOutput> => {
  const { pool, clock } = context
  const { account, status, limit, offset } = options
  if (!(await createAccounts(context).read(account, context)))
    throw new CliMisuse(`no account has the id ${account}; "accounts list" shows them`, {}, 'not_found')
  await refuseUnmade(pool, 'read.orders')
  const db = createKysely<ReadDatabase & DepositPagesDatabase>(pool)
  const { orders, total } = await listOrders(
    db,
    wholeAccount(account),
    { status, orderIds: undefined, limit, offset },
    clock(),
  )
  const refs = await customerRefs(
    pool,
    account,
    orders.map(({ details }) => details.customerId),
  )
  const rows = orders.map((order) => {
    const { customerId } = order.details
    return orderRecord({ ...order, customer: refs.get(customerId) ?? null }, customerId !== null)
  })
  const text = table(
    rows,
    [
      { title: 'order', value: (row) => row.orderId },
      { title: 'created', value: (row) => row.createdAt },
      { title: 'status', value: (row) => row.status },
      { title: 'product', value: (row) => row.productId },
      { title: 'quantity', value: (row) => `${row.quantity} ${row.unit}`, align: 'right' },
      { title: 'amount', value: (row) => dollars(row.amountCents), align: 'right' },
      { title: 'refunded', value: (row) => dollars(row.refundedCents), align: 'right' },
      { title: 'customer', value: (row) => row.customer ?? row.customerId ?? '-' },
    ],
    total === 0 ? 'no orders' : 'none on this page',
  )
  return {
    json: { accountId: account, orders: rows, total, limit, offset },
    text: `${text}\n\n${rows.length} of ${total}`,
  }
}

const help = `
Examples:
  npx farebox orders list --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b
  npx farebox orders list --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --status failed --limit 20 --json`

/** `orders list --account ID [--status STATUS]`. */
export const registerOrderList = (orders: Command, cli: Cli): void => {
  orders
    .command('list')
    .description("list an account's orders, newest first, as the read tables have them")
    .requiredOption('--account <id>', 'whose; those for its customers are among them')
    .addOption(new Option('--status <status>', 'only those in this status').choices(orderStatuses))
    .option('--limit <n>', 'at most this many', wholeNumber(1, 1_000), 50)
    .option('--offset <n>', 'leave out the first ones', wholeNumber(0), 0)
    .addHelpText('after', help)
    .action(cli.action(list))
}
