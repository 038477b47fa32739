import type { Registry } from 'prom-client'
import { hot } from '../../projections/groups.ts'
import { createOrderable } from '../features/catalog/quotes.ts'
import { startDisputeReactor } from '../features/deposits/disputes.ts'
import { startDepositReactor } from '../features/deposits/poll-invoices.ts'
import { startCallbackReactor } from '../features/deposits/take-callbacks.ts'
import { createCompletion, startCompletionReactor } from '../features/orders/complete-orders.ts'
import { startAwaitingReactor } from '../features/orders/place-paid-orders.ts'
import { createMeter, startTrafficSweep } from '../features/plans/meter-traffic.ts'
import { createBots, startMessageWorker } from '../features/resellers/customer-messages.ts'
import { createResellerCredentials } from '../features/resellers/gateway-credentials.ts'
import type { LivePrices } from '../features/resellers/live-prices.ts'
import { startBatchWorker } from '../features/scrapers/batch-worker.ts'
import { startScrapeSweeper } from '../features/scrapers/call-commands.ts'
import type { Scrapers } from '../features/scrapers/open.ts'
import { startRentalExpiry } from '../features/stock/expire-rentals.ts'
import { startSubscriptions } from '../features/subscriptions/renewal-worker.ts'
import { createWallets, startMovementReactor } from '../features/wallet/wallet-service.ts'
import { startWebhooks } from '../features/webhooks/open.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import { type Core, type Projecting, waitForReadTables } from '../platform/feature/core.ts'
import { createVault } from '../platform/vault/seal.ts'
import { createWorkers } from '../platform/work/queue-workers.ts'
import { createWorkMetrics } from './metrics.ts'
import type { Payments } from './open-payments.ts'

/**
 * Starts what works on by itself, once the tables are made that tell it where to look: orders and movements that a
 * crash left open are completed, rentals whose time is over are ended, payments and disputes are found, webhooks are
 * sent, counted traffic is written to the log, subscriptions renew and end.
 */
export const startReactors = (
  core: Core,
  projecting: Projecting,
  payments: Payments,
  parts: {
    readonly prices: LivePrices
    readonly scrapers: Pick<Scrapers, 'results' | 'scrapes' | 'batchItems' | 'rate'>
    readonly monotonicMs: MonotonicClock
    readonly registry: Registry
  },
): {
  /** A payment callback waits in the inbox. */
  callbackStored(): void
  stop(): Promise<void>
} => {
  const { config, scheduler, pool, clock, logger, runner } = core
  const { deposits } = payments
  const firstPollMs = config.payments.depositPollMs
  const bots = createBots({
    pool,
    credentials: createResellerCredentials({ pool, vault: createVault(core.keys.master) }),
    sandboxUrl: payments.sandboxUrl,
  })
  const stopping = new AbortController()
  const wallets = createWallets({ runner })
  const workers = createWorkers({
    scheduler,
    pool,
    clock,
    monotonicMs: parts.monotonicMs,
    logger,
    metrics: createWorkMetrics(parts.registry, core),
  })
  const callbacks = startCallbackReactor({ ...payments, scheduler, workers, wallets, logger })
  const started = waitForReadTables(projecting, hot.name, stopping.signal).then((made) =>
    made
      ? [
          startCompletionReactor({ scheduler, pool, complete: createCompletion(core), clock, logger }),
          startAwaitingReactor({ ...core, orderable: createOrderable(runner) }),
          startMovementReactor({ scheduler, pool, wallets, clock, logger }),
          startRentalExpiry(core),
          startWebhooks(core, {
            projecting,
            rules: { allowLoopback: config.webhookAllowLoopback },
            monotonicMs: parts.monotonicMs,
            registry: parts.registry,
            workers,
          }),
          startMessageWorker({ workers, pool, log: core.log, botOf: bots.of, clock }),
          startDepositReactor({ workers, pool, deposits, clock, logger, firstPollMs }),
          startDisputeReactor({ ...payments, workers, pool, clock, logger, firstPollMs }),
          startTrafficSweep({ scheduler, meter: createMeter(core), clock }),
          startSubscriptions(core, parts.prices),
          startBatchWorker({
            ...parts.scrapers,
            items: parts.scrapers.batchItems,
            workers,
            pool,
            runner,
            clock,
          }),
          startScrapeSweeper({ ...core, results: parts.scrapers.results }),
        ]
      : [],
  )
  return {
    callbackStored: callbacks.wake,
    stop: async () => {
      stopping.abort()
      await callbacks.stop()
      for (const worker of await started) await worker.stop()
      await workers.stop()
      await bots.close()
    },
  }
}
