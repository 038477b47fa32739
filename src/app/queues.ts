import { disputeQueue } from '../features/deposits/disputes.ts'
import { pollTable } from '../features/deposits/poll-schedule.ts'
import { inboxQueue } from '../features/payments/callbacks.ts'
import { messageQueue } from '../features/resellers/message-queue.ts'
import { batchQueue } from '../features/scrapers/batch-items.ts'
import { deliveryQueue } from '../features/webhooks/delivery-queue.ts'
import type { QueueTable } from '../platform/work/queue-table.ts'

/** Every queue, for operators: what `work queues` lists and /metrics counts. */
export const queues: readonly QueueTable[] = [
  deliveryQueue,
  inboxQueue,
  messageQueue,
  pollTable,
  disputeQueue,
  batchQueue,
]
