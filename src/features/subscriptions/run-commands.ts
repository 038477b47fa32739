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
  fields: {
    subscription: 'subscriptionId',
    status: 'status',
    reason: 'reason',
    product: 'productId',
    quantity: 'quantity',
    every: 'interval',
    amount: (row) => dollars(row.amountCents),
    order: 'orderId',
    plan: 'planId',
    proxies: (row) => row.proxyIds.join(' ') || null,
    'started at': 'startedAt',
    'period from': 'currentPeriodStart',
    'period until': 'currentPeriodEnd',
    'ends with the period': (row) => (row.cancelAtPeriodEnd ? 'yes' : 'no'),
    'grace until': 'graceEndsAt',
    'ended at': 'endedAt',
  },
  columns: ['subscription', 'status', 'product', 'quantity', 'every', 'amount', 'started at', 'period until'],
}
