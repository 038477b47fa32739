import type pg from 'pg'
import { followers } from '../../projections/groups.ts'
import type { Farebox } from '../../src/app/start.ts'
import { createDigestStore } from '../../src/audit/seals/digests.ts'
import { chainToHead, openSealing } from '../../src/audit/seals/sealing.ts'
import { sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import type { RefundRequest } from '../../src/domain/orders/refunds.ts'
import { createAccounts } from '../../src/features/accounts/account-service.ts'
import { takeCallback } from '../../src/features/deposits/take-callbacks.ts'
import { createPeriods } from '../../src/features/finance/period-service.ts'
import { createNotices } from '../../src/features/notices/notice-service.ts'
import { refundIdOf, refundOrder } from '../../src/features/orders/refund-order.ts'
import type { Meter } from '../../src/features/plans/meter-traffic.ts'
import { rentalsOver } from '../../src/features/stock/expire-rentals.ts'
import { renewalLists, renewalsOf } from '../../src/features/subscriptions/renewal-worker.ts'
import { createWallets } from '../../src/features/wallet/wallet-service.ts'
import type { Cause } from '../../src/kernel/event.ts'
import { type AccountId, type DepositId, type NoticeId, newId, type OrderId } from '../../src/kernel/ids.ts'
import { periodBefore } from '../../src/kernel/months.ts'
import type { NoticeText } from './history-notices.ts'
import type { Shop } from './shop.ts'

/** Time limit for the read tables to catch up. */
const readWaitMs = 60_000
/** Age at which an unpaid deposit is closed: its invoice expires after a day, and the deposit some minutes later. */
const invoiceLifetimeMs = 25 * 60 * 60_000

/** The actions of the operator, and the background jobs of the service. The history calls them. */
export const createUpkeep = (farebox: Farebox, shop: Shop, meter: Pick<Meter, 'settle'>) => {
  const { core, projecting, features, prices } = farebox
  const payments = { ...features.payments, ...features.deposits, hooks: core.hooks }
  const { pool, log, runner, codec, clock, calendar } = core
  const accounts = createAccounts(core)
  const notices = createNotices(core)
  const wallets = createWallets(core)
  const periods = createPeriods({ log, runner, decode: codec.decode, calendar })
  const rounds = [...renewalLists(renewalsOf(core, prices)), rentalsOver(core)].map((list) => list(pool))
  const unpaidInvoices: { readonly depositId: DepositId; readonly dueMs: number }[] = []
  const blocked = new Set<string>()
  const causeOf = (actor: Cause['actor']): Cause => ({ actor, correlationId: newId('run') })
  const operator = (): Cause => causeOf({ kind: 'operator', name: 'demo' })

  /** Resolves when the read tables have caught up with the log. */
  const settled = async (): Promise<void> => {
    const head = await log.head()
    for (const { name } of followers)
      if (!(await projecting.progress.reached(name, head, readWaitMs)))
        throw new Error(`the read tables of "${name}" do not follow the log`)
  }

  const closeUnpaid = async (): Promise<void> => {
    const nowMs = clock()
    for (const depositId of shop.takeUnpaid())
      unpaidInvoices.push({ depositId, dueMs: nowMs + invoiceLifetimeMs })
    const expired = unpaidInvoices.filter(({ dueMs }) => dueMs <= nowMs)
    await Promise.all(expired.map(({ depositId }) => shop.settle(depositId)))
    unpaidInvoices.splice(
      0,
      unpaidInvoices.length,
      ...unpaidInvoices.filter((unpaidInvoice) => !expired.includes(unpaidInvoice)),
    )
  }

  return {
    settled,
    isBlocked: (accountId: string): boolean => blocked.has(accountId),

    /** Runs the reactors once. */
    round: async (): Promise<void> => {
      await settled()
      await closeUnpaid()
      for (const round of rounds) await round()
    },

    /** Disputes a payment, and applies the change as polling the provider does. */
    dispute: async (accountId: string, depositId: DepositId): Promise<void> => {
      await shop.dispute(depositId)
      const deposit = await payments.deposits.read(depositId, operator())
      const gatewayOfDeposit = deposit && (await payments.gateways.byId(deposit.details.gatewayId))
      if (!gatewayOfDeposit) throw new Error(`the gateway of ${depositId} is gone`)
      for (const { reference } of await gatewayOfDeposit.gateway.changesSince(clock() - 2 * 60 * 60_000))
        await takeCallback(
          { ...payments, wallets, runner, logger: core.logger },
          { gateway_id: gatewayOfDeposit.gatewayId, reference },
        )
      blocked.add(accountId)
    },
    unblock: async (accountId: string): Promise<void> => {
      await accounts.unblock(accountId as AccountId, operator())
      blocked.delete(accountId)
    },

    refund: async (orderId: string, request: RefundRequest): Promise<void> => {
      const refundId = refundIdOf(orderId as OrderId, 'history')
      const refundInput = { orderId: orderId as OrderId, refundId, request, ...operator() }
      await refundOrder({ log, runner, settleTraffic: meter.settle }, refundInput)
    },

    publish: async (text: NoticeText): Promise<void> => {
      const draft = { ...text, noticeId: newId<NoticeId>('ntc') }
      const published = await notices.publish(draft, operator())
      if (published.outcome === 'refused') throw new Error(`the notice "${text.title}" is refused`)
    },

    /** Closes the previous month of the clock. */
    closeMonth: async (): Promise<void> => {
      await periods.close(periodBefore(calendar.periodOf(clock())), operator())
    },

    /**
     * Returns a function that seals the log. Call this once: later seals digest only new events. `auditorPool`: digests
     * belong to the role of the auditor.
     */
    sealer: async (auditorPool: pg.Pool) => {
      const store = createDigestStore(auditorPool, await log.logId())
      const cause = () => causeOf({ kind: 'system', name: 'sealer' })
      const sealing = await openSealing(
        { log, runner, store, key: sealKeyOf(core.keys.seal), clock },
        cause(),
      )
      return async (): Promise<void> => {
        await chainToHead(log, sealing.chain)
        await sealing.seal(cause())
      }
    },
  }
}

export type Upkeep = ReturnType<typeof createUpkeep>
