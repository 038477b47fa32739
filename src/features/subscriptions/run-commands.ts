import type { ReadDatabase } from '../../../projections/database.ts'
import type { RenewalDatabase } from '../../../projections/other-tables.ts'
import {
  findSubscription,
  listSubscriptions,
  type SubscriptionStatus,
} from '../../../projections/subscriptions.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { dollars } from '../../platform/cli/output.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import type { ListedResource } from '../accounts/index.ts'
import { type SubscriptionRecord, subscriptionRecord } from './subscription-record.ts'

export const subscriptions: ListedResource<SubscriptionRecord> = {
  owner: { table: 'read.subscriptions', id: 'subscription_id' },
  reads: ({ pool, clock }) => {
    const db = createKysely<ReadDatabase & RenewalDatabase>(pool)
    return {
      list: async (scope, page) => {
        const status = page.status as SubscriptionStatus | undefined
        const nowMs = clock()
        const found = await listSubscriptions(db, scope, { ...page, status }, nowMs)
        const rows = found.subscriptions.map((row) => ({
          ...subscriptionRecord(row, nowMs),
          accountId: row.account_id as AccountId,
        }))
        return { rows, total: found.total }
      },
      find: async (account, id) => {
        const found = await findSubscription(db, wholeAccount(account), id)
        return found ? subscriptionRecord(found, clock()) : null
      },
    }
  },
  columns: {
    subscription: 'subscriptionId',
    started: 'startedAt',
    status: 'status',
    product: 'productId',
    quantity: 'quantity',
    every: 'interval',
    amount: (row) => dollars(row.amountCents),
    'paid until': 'currentPeriodEnd',
  },
  show: (row) => ({
    subscription: row.subscriptionId,
    status: row.status,
    reason: row.reason,
    product: row.productId,
    quantity: row.quantity,
    every: row.interval,
    amount: dollars(row.amountCents),
    order: row.orderId,
    plan: row.planId,
    proxies: row.proxyIds.length === 0 ? null : row.proxyIds.join(' '),
    'started at': row.startedAt,
    'period from': row.currentPeriodStart,
    'period until': row.currentPeriodEnd,
    'ends with the period': row.cancelAtPeriodEnd ? 'yes' : 'no',
    'grace until': row.graceEndsAt,
    'ended at': row.endedAt,
  }),
}
