import type pg from 'pg'
import { disputeMails, disputeQueue, pollTable, topupMails } from '../features/deposits/index.ts'
import { inboxQueue } from '../features/payments/index.ts'
import { messageQueue } from '../features/resellers/index.ts'
import { batchQueue } from '../features/scrapers/index.ts'
import { budgetMails } from '../features/traffic-budgets/index.ts'
import { lowBalanceMails } from '../features/wallet/index.ts'
import { deliveryQueue, missedQueue } from '../features/webhooks/index.ts'
import { delayOf, type QueueDelay } from '../platform/work/queue-operations.ts'
import type { QueueTable } from '../platform/work/queue-table.ts'

/** Every queue, for `work queues` and /metrics. */
export const queues: readonly QueueTable[] = [
  deliveryQueue,
  inboxQueue,
  messageQueue,
  pollTable,
  disputeQueue,
  batchQueue,
  missedQueue,
  lowBalanceMails,
  topupMails,
  disputeMails,
  budgetMails,
]

export const readDelays = async (pool: pg.Pool): Promise<readonly QueueDelay[]> => {
  const delays: QueueDelay[] = []
  for (const queue of queues) delays.push(await delayOf(pool, queue))
  return delays
}
