import { sealDelivery } from '../audit/external-seals/deliver-seals.ts'
import { auditorWatch } from '../audit/feature.ts'
import { invariantMonitor } from '../audit/invariant-monitor.ts'
import { sealer } from '../audit/seals/sealer.ts'
import { signatureWatch } from '../audit/signatures/signature-watch.ts'
import { keyUses } from '../features/accounts/feature.ts'
import {
  callbackWorker,
  depositWorker,
  disputeMailWorker,
  disputeWorker,
  oldCallbacks,
  refundWorker,
  topupMailWorker,
  topupWorker,
} from '../features/deposits/feature.ts'
import { periodCheck } from '../features/finance/feature.ts'
import { freeListWorkers } from '../features/free-list/process.ts'
import { whitelistRemoval } from '../features/lines/feature.ts'
import { awaitingOrders, completion } from '../features/orders/feature.ts'
import { recordRetention, trafficSweep } from '../features/plans/feature.ts'
import { messageWorker } from '../features/resellers/feature.ts'
import { batchWorker, scraperHealth, scrapeSweeper } from '../features/scrapers/feature.ts'
import { rentalExpiry } from '../features/stock/feature.ts'
import { renewalWorker } from '../features/subscriptions/feature.ts'
import { budgetMailWorker, budgetSweep } from '../features/traffic-budgets/feature.ts'
import { lowBalanceMailWorker, openMovements } from '../features/wallet/feature.ts'
import {
  webhookDelivery,
  webhookEnqueue,
  webhookEnqueueRetry,
  webhookRetention,
} from '../features/webhooks/feature.ts'
import { gatewayWorkers } from '../gateway/workers.ts'
import { queueLeases } from '../platform/work/queue-workers.ts'
import type { Worker } from '../platform/work/worker.ts'
import { clockComparison, freeListClock, gatewayClock } from './clock.ts'
import { followProjections } from './projections.ts'

/** The background workers of a server. */
export const serverWorkers: readonly Worker[] = [
  clockComparison,
  periodCheck,
  followProjections,
  queueLeases,
  keyUses,
  completion,
  awaitingOrders,
  openMovements,
  lowBalanceMailWorker,
  callbackWorker,
  oldCallbacks,
  depositWorker,
  disputeWorker,
  refundWorker,
  topupWorker,
  topupMailWorker,
  disputeMailWorker,
  messageWorker,
  rentalExpiry,
  trafficSweep,
  recordRetention,
  budgetSweep,
  budgetMailWorker,
  whitelistRemoval,
  renewalWorker,
  scrapeSweeper,
  batchWorker,
  scraperHealth,
  webhookEnqueue,
  webhookEnqueueRetry,
  webhookDelivery,
  webhookRetention,
  auditorWatch,
]

/** The background workers of the auditor. */
export const auditorWorkers: readonly Worker[] = [
  clockComparison,
  periodCheck,
  invariantMonitor,
  signatureWatch,
  sealer,
  sealDelivery,
]

/** All workers of all processes, in the order in which `farebox workers` lists them. */
export const allWorkers: readonly Worker[] = [
  ...new Set([...serverWorkers, ...auditorWorkers]),
  gatewayClock,
  ...gatewayWorkers,
  freeListClock,
  ...freeListWorkers,
]
