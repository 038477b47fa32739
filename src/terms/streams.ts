import type { AccountId, NoticeId, OrderId, PlanId, SubscriptionId } from '../kernel/ids.ts'
import type { Period } from './month.ts'

declare const brand: unique symbol

/** The name of a stream, made here, e.g. `ledger-acc_…`. */
export type StreamName = string & { readonly [brand]: 'StreamName' }

/** Every stream of the log has a name made here (design section 5): the name is the idempotency. */
const named = (name: string): StreamName => name as StreamName

export const ledgerStream = (account: AccountId): StreamName => named(`ledger-${account}`)
export const webhooksStream = (account: AccountId): StreamName => named(`webhooks-${account}`)
/** One event per endpoint per event per resource, for ever. */
export const deliveryStream = (endpointId: string, event: string, resource: string): StreamName =>
  named(`delivery-${endpointId}.${event}.${resource}`)
export const accountStream = (account: AccountId): StreamName => named(`account-${account}`)
export const orderStream = (order: OrderId): StreamName => named(`order-${order}`)
export const planStream = (plan: PlanId): StreamName => named(`plan-${plan}`)
/** `country` is alpha-3, upper case. */
export const stockStream = (productId: string, country: string): StreamName =>
  named(`stock-${productId}-${country}`)
export const addressStream = (ip: string): StreamName => named(`address-${ip}`)
export const catalogStream: StreamName = named('catalog')
export const termsStream = (reseller: AccountId): StreamName => named(`terms-${reseller}`)
/** A manual credit; its reference is spent for ever. `depositId` is `deriveId('dep', [account, 'manual', reference])`. */
export const depositStream = (depositId: string): StreamName => named(`deposit-${depositId}`)
export const subscriptionStream = (subscription: SubscriptionId): StreamName =>
  named(`subscription-${subscription}`)
export const noticeStream = (notice: NoticeId): StreamName => named(`notice-${notice}`)
/** The seals of the whole log and the keys that sign them. */
export const sealStream: StreamName = named('seal')
/** The books of a month, `yyyy-mm`: it is closed once for ever. */
export const periodStream = (period: Period): StreamName => named(`period-${period}`)
/** Who may read the books over HTTP. */
export const financeStream: StreamName = named('finance')

/** The prefixes that are ours: the filter of a subscription on a server that holds other streams too. */
export const streamPrefixes: readonly string[] = [
  'ledger-',
  'account-',
  'order-',
  'plan-',
  'stock-',
  'address-',
  'catalog',
  'terms-',
  'deposit-',
  'subscription-',
  'webhooks-',
  'delivery-',
  'scrape-',
  'notice-',
  'seal',
  'period-',
  'finance',
]
