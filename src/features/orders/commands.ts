import type { Command } from 'commander'
import { orderStatuses } from '../../domain/orders/fold.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'
import { registerList } from '../accounts/for-commands.ts'
import { parseReference } from '../wallet/for-commands.ts'
import type { SettleTraffic } from './run-commands.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

const refundHelp = `
It goes where it came from: to the wallet, and of an order for a reseller's customer to the customer's credit and, with
the same share of the cost, to the reseller's wallet. Never more than was paid; parts add up to the whole.

With what is left of an order, and with --proxy, the rentals end that it pays for. Where an extension has paid for one of
them since, the refund is refused and names that order: refund the extension first, or give an amount back with --cents.

Examples:
  npx farebox orders refund --order ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f
  npx farebox orders refund --order ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f --cents 250 --reference "ticket 4711"
  npx farebox orders refund --order ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f --proxy prx_0199f3b2c1d07a3e9b1f2c4d5e6f7a81 prx_0199f3b2c1d07a3e9b1f2c4d5e6f7a82`

/**
 * `orders list`, `orders show ORDER_ID` and `orders refund --order ID [--cents N | --proxy ID…]`.
 * @param settleTraffic writes a plan's used traffic to the log before its order is refunded
 */
export const ordersCommands =
  (settleTraffic: SettleTraffic) =>
  (program: Command, cli: Cli): void => {
    const orders = program.command('orders')
    registerList(orders, cli, { name: 'orders', statuses: orderStatuses }, async () => (await runs()).listing)

    orders
      .command('show')
      .description('show an order as the log has it')
      .argument('<order>', 'the id of an order')
      .action(cli.action(async () => (await runs()).showOrder))

    orders
      .command('refund')
      .description('give money back: what is left of the order, an amount, or some addresses')
      .requiredOption('--order <id>', 'the order')
      .option('--cents <n>', 'an amount in whole cents; the goods stay', wholeNumber(1))
      .option('--proxy <id...>', 'these addresses; their rentals end and each gives back its share')
      .option(
        '--reference <text>',
        'what it is for, kept with the refund; the same reference is refunded once',
        parseReference,
      )
      .addHelpText('after', refundHelp)
      .action(cli.action(async () => (await runs()).refund(settleTraffic)))
  }
