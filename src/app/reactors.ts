import type { Registry } from 'prom-client'
import type { MonotonicClock } from '../kernel/clock.ts'
import { createOrderable } from '../market/catalog/orderable.ts'
import { startAwaitingReactor } from '../market/orders/awaiting-orders.ts'
import { createCompletion } from '../market/orders/completion.ts'
import { startCompletionReactor } from '../market/orders/open-orders.ts'
import { createMeter } from '../market/plans/metering.ts'
import { startTrafficSweep } from '../market/plans/traffic-sweep.ts'
import { createResellerCredentials } from '../market/resellers/credentials.ts'
import { startRentalExpiry } from '../market/stock/expiry.ts'
import { startDisputeReactor } from '../money/deposits/find-disputes.ts'
import { startDepositReactor } from '../money/deposits/look-again.ts'
import { startCallbackReactor } from '../money/deposits/take-callbacks.ts'
import { startMovementReactor } from '../money/ledger/open-movements.ts'
import { createWallets } from '../money/ledger/service.ts'
import { createBots } from '../outbound/messaging/bots.ts'
import { startMessageWorker } from '../outbound/messaging/worker.ts'
import { createVault } from '../platform/vault/seal.ts'
import { createWorkers } from '../platform/work/queue/workers.ts'
import { startBatchWorker } from '../scrapers/batches/worker.ts'
import { startScrapeSweeper } from '../scrapers/calls/sweeper.ts'
import type { Core } from './core.ts'
import type { LivePrices } from './live-prices.ts'
import type { Payments } from './open-payments.ts'
import type { Scrapers } from './open-scraping.ts'
import { type Projecting, tablesMade } from './projecting.ts'
import { startSubscriptions } from './start-subscriptions.ts'
import { startWebhooks } from './start-webhooks.ts'
import { createWorkMetrics } from './work-metrics.ts'

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
  const { config, pool, clock, logger, runner } = core
  const { deposits } = payments
  const firstLookMs = config.payments.depositLookMs
  const bots = createBots({
    pool,
    credentials: createResellerCredentials({ pool, vault: createVault(core.keys.master) }),
    sandboxUrl: payments.sandboxUrl,
  })
  const stopping = new AbortController()
  const wallets = createWallets({ runner })
  const workers = createWorkers({
    pool,
    clock,
    monotonicMs: parts.monotonicMs,
    logger,
    metrics: createWorkMetrics(parts.registry, core),
  })
  const callbacks = startCallbackReactor({ ...payments, workers, wallets, logger })
  const started = tablesMade(projecting, stopping.signal).then((made) =>
    made
      ? [
          startCompletionReactor({ pool, complete: createCompletion(core), clock, logger }),
          startAwaitingReactor({ ...core, orderable: createOrderable(runner) }),
          startMovementReactor({ pool, wallets, clock, logger }),
          startRentalExpiry({ pool, runner, clock, logger }),
          startWebhooks(core, {
            projecting,
            rules: { allowLoopback: config.webhookAllowLoopback },
            monotonicMs: parts.monotonicMs,
            registry: parts.registry,
            workers,
          }),
          startMessageWorker({ workers, pool, log: core.log, botOf: bots.of, clock }),
          startDepositReactor({ workers, pool, deposits, clock, logger, firstLookMs }),
          startDisputeReactor({ ...payments, workers, pool, clock, logger, firstLookMs }),
          startTrafficSweep({ meter: createMeter(core), clock, logger }),
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
      for (const poller of await started) await poller.stop()
      await workers.stop()
      await bots.close()
    },
  }
}
