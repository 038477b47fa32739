import { sealDelivery } from '../audit/external-seals/deliver-seals.ts'
import { lawGuard } from '../audit/invariant-monitor.ts'
import { sealer } from '../audit/seals/sealer.ts'
import { signatureWatch } from '../audit/signatures/signature-watch.ts'
import { keyUses } from '../features/accounts/key-uses.ts'
import { disputeWorker } from '../features/deposits/disputes.ts'
import { depositWorker } from '../features/deposits/poll-invoices.ts'
import { callbackWorker, oldCallbacks } from '../features/deposits/take-callbacks.ts'
import { periodCheck } from '../features/finance/period-guard.ts'
import { freeListWorkers } from '../features/free-list/workers.ts'
import { completion } from '../features/orders/complete-orders.ts'
import { awaitingOrders } from '../features/orders/place-paid-orders.ts'
import { trafficSweep } from '../features/plans/meter-traffic.ts'
import { messageWorker } from '../features/resellers/customer-messages.ts'
import { batchWorker } from '../features/scrapers/batch-worker.ts'
import { scrapeSweeper } from '../features/scrapers/call-commands.ts'
import { scraperHealth } from '../features/scrapers/provider-health.ts'
import { rentalExpiry } from '../features/stock/expire-rentals.ts'
import { renewalWorker } from '../features/subscriptions/renewal-worker.ts'
import { openMovements } from '../features/wallet/wallet-service.ts'
import { webhookDelivery } from '../features/webhooks/delivery-worker.ts'
import { webhookEnqueue } from '../features/webhooks/enqueue-worker.ts'
import { webhookRetention } from '../features/webhooks/open.ts'
import { gatewayWorkers } from '../gateway/workers.ts'
import { queueLeases } from '../platform/work/queue-workers.ts'
import type { Worker } from '../platform/work/worker.ts'
import { clockComparison } from './clock-guard.ts'
import { followProjections } from './projections.ts'

/** All that a server does by itself. */
export const serverWorkers: readonly Worker[] = [
  clockComparison,
  periodCheck,
  followProjections,
  queueLeases,
  keyUses,
  completion,
  awaitingOrders,
  openMovements,
  callbackWorker,
  oldCallbacks,
  depositWorker,
  disputeWorker,
  messageWorker,
  rentalExpiry,
  trafficSweep,
  renewalWorker,
  scrapeSweeper,
  batchWorker,
  scraperHealth,
  webhookEnqueue,
  webhookDelivery,
  webhookRetention,
  lawGuard,
  signatureWatch,
  sealer,
  sealDelivery,
]

/** All workers of all processes, in the order in which `farebox workers` lists them. */
export const allWorkers: readonly Worker[] = [...serverWorkers, ...gatewayWorkers, ...freeListWorkers]
