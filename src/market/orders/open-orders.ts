import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId, OrderId } from '../../kernel/ids.ts'
import { handlersTimeMs, inTurns, type Poller, startPoller, workOnEach } from '../../platform/work/poller.ts'
import type { CompleteOrder } from './completion.ts'

type OpenOrder = { order_id: OrderId; account_id: AccountId | null; debit_revision: number | null }

const maxOrdersARun = 100

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
  const open = inTurns<OpenOrder>(maxOrdersARun, async (after) => {
    const { rows } = await pool.query<OpenOrder>({
      name: 'open-orders',
      text: `select distinct on (order_id) order_id, account_id, debit_revision
               from read.open_orders where opened_at <= $1::timestamptz and order_id > $2::text
              order by order_id, step desc limit ${maxOrdersARun}`,
      values: [isoTime(clock() - handlersTimeMs), after?.order_id ?? ''],
    })
    return rows
  })
  const work = async (): Promise<void> => {
    await workOnEach(await open(), async (row) => {
      const debit =
        row.account_id === null || row.debit_revision === null
          ? null
          : { accountId: row.account_id, revision: row.debit_revision }
      const completed = await complete(row.order_id, debit)
      logger.info({ orderId: row.order_id, status: completed?.order.status }, 'an open order was completed')
    })
  }
  return startPoller({ name: 'completion', intervalMs: deps.intervalMs ?? 1_000, work, logger })
}
