import { orderStatuses } from '../../domain/orders/fold.ts'
import type { OrderId } from '../../kernel/ids.ts'
import { command, type Register } from '../../platform/cli/command.ts'
import { argument, id, option, required, wholeNumber } from '../../platform/cli/input.ts'
import { listCommand } from '../accounts/for-commands.ts'
import { referenceText } from '../wallet/for-commands.ts'
import type { SettleTraffic } from './run-commands.ts'

const runs = () => import('./run-commands.ts')

export const refundInput = {
  order: required('<id>', 'the order', id<OrderId>),
  cents: option('<n>', 'refund this amount, whole cents; rentals and plans stay', wholeNumber(1)),
  proxy: option('<id...>', 'refund the share of these addresses in what is left; their rentals end'),
  reference: option(
    '<text>',
    'reason, stored with the refund; the same reference is refunded once',
    referenceText,
  ),
}

/** @param settleTraffic writes a plan's used traffic to the log before its order is refunded */
export const ordersCommands = (settleTraffic: SettleTraffic): readonly Register[] => [
  listCommand({ name: 'orders', statuses: orderStatuses }, async () => (await runs()).listing),
  command({
    name: 'orders show',
    about: 'show an order as the log has it',
    input: { order: argument('<order>', 'the id of an order', id<OrderId>) },
    run: async () => (await runs()).showOrder,
  }),
  command({
    name: 'orders refund',
    about: 'refund the rest of an order, an amount, or some addresses',
    input: refundInput,
    details: `The money returns to its source: to the wallet, and for an order of a reseller's customer to the customer's credit and,
with the same share of the cost, to the reseller's wallet. Refunds never exceed what was paid.

A refund of the rest, or with --proxy, ends the rentals that it pays for. If an extension has paid for one of them since,
the refund is refused and names that order: refund the extension first, or refund an amount with --cents.`,
    examples: [
      'bin/farebox orders refund --order ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
      'bin/farebox orders refund --order ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f --cents 250 --reference "ticket 4711"',
      'bin/farebox orders refund --order ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f --proxy prx_0199f3b2c1d07a3e9b1f2c4d5e6f7a81 prx_0199f3b2c1d07a3e9b1f2c4d5e6f7a82',
    ],
    run: async () => (await runs()).refund(settleTraffic),
  }),
]
