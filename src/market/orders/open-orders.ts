import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, OrderId } from '../../kernel/ids.ts'
import type { Poller } from '../../platform/work/poller.ts'
import { handlersTimeMs, startWorklists, worklist } from '../../platform/work/worklist.ts'
import type { CompleteOrder } from './completion.ts'

type OpenOrder = { order_id: OrderId; account_id: AccountId | null; debit_revision: number | null }

/**
 * The completion reactor: finishes orders and refunds that a crash or a lost race left open. Several processes may run
 * it; completing an order twice does nothing the second time.
 */
export const startCompletionReactor = (deps: {
  readonly pool: pg.Pool
  readonly complete: CompleteOrder
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): Poller => {
  const { pool, complete, clock, logger } = deps
  const open = worklist<OpenOrder>({
    name: 'open-orders',
    read: `select distinct on (order_id) order_id, account_id, debit_revision
             from read.open_orders where opened_at <= $1::timestamptz order by order_id, step desc`,
    values: () => [isoTime(clock() - handlersTimeMs)],
    key: { order_id: 'text' },
    limit: 100,
    work: async ({ order_id: orderId, account_id: accountId, debit_revision: revision }) => {
      const debit = accountId === null || revision === null ? null : { accountId, revision }
      const completed = await complete(orderId, debit)
      logger.info({ orderId, status: completed?.order.status }, 'an open order was completed')
    },
  })
  const intervalMs = deps.intervalMs ?? 1_000
  return startWorklists({ name: 'completion', intervalMs, pool, logger, lists: [open] })
}
