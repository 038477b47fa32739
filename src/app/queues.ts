import { disputeQueue } from '../money/deposits/find-disputes.ts'
import { lookTable } from '../money/deposits/looks.ts'
import { inboxQueue } from '../money/payments/inbox.ts'
import { messageQueue } from '../outbound/messaging/queue.ts'
import { deliveryQueue } from '../outbound/webhooks/worker/delivery-queue.ts'
import type { QueueTable } from '../platform/work/queue/table.ts'
import { batchQueue } from '../scrapers/batches/items.ts'

/** Every queue, for operators: what `work queues` lists and /metrics counts. */
export const queues: readonly QueueTable[] = [
  deliveryQueue,
  inboxQueue,
  messageQueue,
  lookTable,
  disputeQueue,
  batchQueue,
]
