import {
  findSubscription,
  listSubscriptions,
  type SubscriptionStatus,
} from '../../../projections/subscriptions.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { dollars } from '../../platform/cli/output.ts'
import type { ListedResource } from '../accounts/index.ts'
import { type SubscriptionRecord, subscriptionRecord } from './subscription-record.ts'

export const subscriptions: ListedResource<SubscriptionRecord> = {
  owner: { table: 'read.subscriptions', id: 'subscription_id' },
  reads: ({ db, clock }) => {
    return {
      list: async (scope, page) => {
        const status = page.status as SubscriptionStatus | undefined
        const nowMs = clock()
        const found = await listSubscriptions(db, scope, { ...page, status }, nowMs)
        const rows = found.subscriptions.map((row) => ({
          ...subscriptionRecord(row, nowMs),
          accountId: row.accountId as AccountId,
        }))
        return { rows, total: found.total }
      },
      find: async (account, id) => {
        const found = await findSubscription(db, wholeAccount(account), id)
        return found ? subscriptionRecord(found, clock()) : null
      },
    }
  },
  columns: [
    { title: 'subscription', value: (row) => row.subscriptionId },
    { title: 'started', value: (row) => row.startedAt },
    { title: 'status', value: (row) => row.status },
    { title: 'product', value: (row) => row.productId },
    { title: 'quantity', value: (row) => row.quantity, align: 'right' },
    { title: 'every', value: (row) => row.interval },
    { title: 'amount', value: (row) => dollars(row.amountCents), align: 'right' },
    { title: 'paid until', value: (row) => row.currentPeriodEnd },
  ],
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
