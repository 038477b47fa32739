import type pg from 'pg'
import type { Logger } from 'pino'
import { createLiveStock } from '../../../projections/stock.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { OrderId, SubscriptionId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Core } from '../../platform/feature/core.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  handlerGraceMs,
  type WorklistFactory,
  worklist,
  worklistRound,
} from '../../platform/work/worklist.ts'
import { createCustomers } from '../accounts/index.ts'
import { createAppendOrder, createPlaceOrder, readOrder } from '../orders/index.ts'
import { createMeter } from '../plans/index.ts'
import type { LivePrices } from '../resellers/index.ts'
import { createRenewals, type Renewals, retryMs } from './renew.ts'
import { createSubscriptions, type Subscriptions } from './subscription-service.ts'

const maxARun = 200

type OpenPeriod = { readonly order_id: OrderId; readonly opened_at: string }
type Due = { readonly subscription_id: SubscriptionId; readonly due_at: string }

export type RenewalDependencies = {
  readonly log: EventLog
  readonly subscriptions: Subscriptions
  readonly renewals: Renewals
  /** Refreshes prices and terms. Called only if a subscription is due. */
  readonly refresh: () => Promise<void>
  readonly clock: Clock
  readonly logger: Logger
}

/** Due work: periods to pay, ends of subscriptions, and paid periods that a crash left unrecorded. */
export const renewalLists = (dependencies: RenewalDependencies): readonly WorklistFactory[] => {
  const { log, subscriptions, renewals, refresh, clock, logger } = dependencies

  const open = worklist<OpenPeriod>({
    name: 'open-periods',
    read: 'select order_id, opened_at from read.open_periods where opened_at <= $1::timestamptz',
    values: () => [isoTime(clock() - handlerGraceMs)],
    key: { opened_at: 'timestamptz', order_id: 'text' },
    limit: maxARun,
    work: async ({ order_id: orderId }) => {
      const order = await readOrder(log, orderId)
      if (order) await subscriptions.finish(order)
    },
  })

  const due = worklist<Due>({
    name: 'subscriptions-due',
    read: `
        select s.subscription_id, s.due_at
          from read.subscriptions s
          left join work.renewals r on r.subscription_id = s.subscription_id
                                   and r.period_start = s.current_period_end
          left join read.balances b on b.account_id = s.account_id
         where s.ended_as is null and s.due_at <= $1::timestamptz
           and (s.cancel_at_period_end or r.subscription_id is null or r.retry_at <= $1::timestamptz
                or r.retry_at > $1::timestamptz + make_interval(secs => ${retryMs / 1000}::float8)
                or b.available_micros >= r.needed_micros)`,
    values: () => [isoTime(clock())],
    key: { due_at: 'timestamptz', subscription_id: 'text' },
    limit: maxARun,
    atOnce: 8,
    before: refresh,
    work: ({ subscription_id: subscriptionId }) =>
      renewals.renew(subscriptionId).catch((error) => {
        logger.error({ err: error, subscriptionId }, 'a subscription could not be checked')
        throw error
      }),
  })
  return [open, due]
}

export const renewalWorker = worker({
  name: 'renewals',
  about: 'Renews, cancels and expires subscriptions',
  trigger: { everyMs: 1_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Renews, cancels and expires due subscriptions, and records paid periods that a crash left unrecorded. Several
 * processes may run it.
 */
export const startRenewals = (
  dependencies: RenewalDependencies & {
    readonly scheduler: Scheduler
    readonly pool: pg.Pool
    readonly intervalMs?: number
  },
): RunningWorker =>
  dependencies.scheduler.start(renewalWorker, worklistRound(dependencies.pool, renewalLists(dependencies)), {
    everyMs: dependencies.intervalMs,
  })

/** The dependencies of renewals. Prices are read when a subscription is due, because the HTTP server may not run. */
export const renewalsOf = (core: Core, prices: LivePrices): RenewalDependencies => {
  const { pool, db, clock } = core
  const market = {
    catalog: prices.catalog,
    stock: createLiveStock({ db, clock }),
    termsOf: prices.terms.termsOf,
    refreshTerms: prices.terms.refreshTerms,
  }
  const placeOrder = createPlaceOrder({
    ...core,
    appendOrder: createAppendOrder(core),
    prices: market,
    customers: createCustomers({ pool, master: core.keys.master }),
    payPages: null,
  })
  const subscriptions = createSubscriptions({
    ...core,
    placeOrder,
    market,
    settleTraffic: createMeter(core).settle,
  })
  return {
    ...core,
    subscriptions,
    renewals: createRenewals({ ...core, placeOrder, market, subscriptions }),
    refresh: prices.refresh,
  }
}
