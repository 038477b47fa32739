import type { ReadModelGroup } from '../src/platform/projections/read-model.ts'
import { accounts } from './accounts.ts'
import { balances } from './balances.ts'
import { catalog } from './catalog.ts'
import { deposits, gatewayChanges, unmatchedMovements } from './deposits.ts'
import { exits } from './exits.ts'
import { journal } from './journal.ts'
import { margins } from './margins.ts'
import { notices } from './notices.ts'
import { openDepositRefunds, openMovements, openOrders, openScrapes } from './open-work.ts'
import { orderPayments } from './order-payments.ts'
import { orders } from './orders.ts'
import { lowTraffic, plans } from './plans.ts'
import { proposals } from './proposals.ts'
import { proxies } from './proxies.ts'
import { customers, resellerTerms } from './resellers.ts'
import { reversals } from './reversals.ts'
import { scrapeUsage } from './scrape-usage.ts'
import { stock } from './stock.ts'
import { subscriptions } from './subscriptions.ts'
import { topups } from './topups.ts'
import { trafficBudgets } from './traffic-budgets.ts'
import { webhookCauses } from './webhook-causes.ts'
import { webhookQueue } from './webhook-queue.ts'
import { webhooks } from './webhooks.ts'

/** The models that a GET needs together: one checkpoint, so that a wallet never shows a debit without its order. */
export const hot = {
  name: 'hot',
  held: ['catalog', 'reseller_terms', 'accounts', 'keys'],
  models: [
    balances,
    customers,
    orders,
    orderPayments,
    openOrders,
    openMovements,
    openDepositRefunds,
    openScrapes,
    plans,
    proxies,
    stock,
    webhooks,
    accounts,
    catalog,
    resellerTerms,
    notices,
    deposits,
    gatewayChanges,
    unmatchedMovements,
    reversals,
    topups,
    trafficBudgets,
    lowTraffic,
    subscriptions,
    exits,
    proposals,
  ],
} as const satisfies ReadModelGroup

/**
 * The read models of finance. They may lag, and never delay the hot group. Nearly all of their rows are new, so large
 * batches cost least.
 */
export const books = {
  name: 'books',
  models: [journal, margins, scrapeUsage],
  batchWindowMs: 75,
  maxBatch: 5000,
} as const satisfies ReadModelGroup

/** The causes of webhooks. An event that stops this group stops no other group. */
export const webhookDue = {
  name: 'webhooks',
  models: [webhookCauses],
  batchWindowMs: 25,
} as const satisfies ReadModelGroup

/** The queue of deliveries, which workers also change. */
export const webhookDeliveries: ReadModelGroup = {
  name: 'webhook-queue',
  models: [],
  work: webhookQueue,
  batchWindowMs: 25,
}

/** Every group of read models. A new group has its own checkpoint, at the start of the log. */
export const groups: readonly ReadModelGroup[] = [hot, books, webhookDue]

/** All groups that are filled from the log: the read models and the work tables. */
export const followers: readonly ReadModelGroup[] = [...groups, webhookDeliveries]
