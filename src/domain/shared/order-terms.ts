import {
  anyId,
  cents,
  exactly,
  group,
  id,
  integer,
  list,
  oneOf,
  orAbsent,
  orNull,
  pastTime,
  type ShapeValue,
  text,
  time,
} from '../../kernel/event-fields.ts'
import type { AccountId, CustomerId, KeyId, OrderId, PlanId, ProxyId } from '../../kernel/ids.ts'
import { intervals } from './billing-interval.ts'
import { rails } from './rails.ts'

export const families = ['residential', 'isp', 'mobile', 'ipv4', 'ipv6'] as const
export type Family = (typeof families)[number]
export const shapes = ['gateway_gb', 'gateway_time', 'addresses', 'addresses_mobile'] as const
export type Shape = (typeof shapes)[number]
export const deliveries = ['lines', 'addresses'] as const
export type Delivery = (typeof deliveries)[number]
export const renewals = ['topup', 'repurchase', 'extend'] as const
export type Renewal = (typeof renewals)[number]

/** How an order can be paid: from the wallet, or on a hosted page. */
export const orderMethods = ['wallet', ...rails] as const
export type OrderMethod = (typeof orderMethods)[number]

/** The details as reads return them: without the digests, which only the log has. */
export type ShownDetails = Omit<OrderDetails, 'catalogDigest' | 'fingerprint'>

/** An order for a reseller's customer. The customer's credit pays `amountCents`, the reseller's wallet `costCents`. */
export type CustomerOrder = OrderDetails & { readonly customerId: CustomerId; readonly costCents: number }

/** What the wallet must have for an order, whole cents: the cost of an order for a customer, else the amount. */
export const walletCents = ({
  amountCents,
  costCents,
}: Pick<OrderDetails, 'amountCents' | 'costCents'>): number => costCents ?? amountCents

const targetFields = {
  country: text('ISO 3166 alpha-3, upper case'),
  periodDays: integer('days', 'above 0', 'the rental period of each address'),
  carrierId: orNull(text('the mobile carrier; null for other products')),
  service: orNull(oneOf(['dedicated', 'shared'], 'of a mobile line; null for other products')),
  rotationMinutes: orNull(
    integer('minutes', '0 or more', 'between changes of the address, 0: by link; null for other products'),
  ),
}
/**
 * The target of a dedicated-IP order. `country` is alpha-3, upper case. The last three fields are null except for
 * mobile.
 */
export type Target = ShapeValue<typeof targetFields>
export const target = orNull(group(targetFields, 'the requested kind of addresses; null for other products'))

export const interval = oneOf(intervals, 'its interval')
export const period = group(
  {
    unit: oneOf(['day', 'month'], 'of calendar months, or of days of 24 hours'),
    count: integer('units', 'above 0', 'how many of them'),
  },
  'the period of one payment',
)

const paidPeriodFields = {
  subscriptionId: id('sub', 'the subscription'),
  interval,
  period,
  periodStart: orNull(time('null for the first period, which starts when its order is placed')),
}
/** The paid period and its subscription, so that the renewal can go on after a crash after the debit. */
export type PaidPeriod = ShapeValue<typeof paidPeriodFields>

export const orderFields = {
  orderId: id<OrderId>('ord', 'the order'),
  accountId: id<AccountId>('acc', 'the account of the buyer'),
  keyId: orNull(
    id<KeyId>('key', 'the key of the request; null for an order in the console, whose actor is in the event'),
  ),
  capKeyId: orAbsent(
    id<KeyId>('key', 'the key whose daily cap it counts against; absent if that is `keyId`'),
  ),
  customerId: orNull(anyId<CustomerId>("the reseller's customer; null for an own order")),
  kind: oneOf(
    ['order', 'topup', 'extension'],
    '`order` buys, `topup` adds to a plan named in the path, `extension` prolongs rentals',
  ),
  productId: text('the product of the catalogue'),
  family: oneOf(families, 'the family of its revenue: `revenue:orders:{family}`'),
  shape: oneOf(shapes, 'how the product is sold'),
  delivery: oneOf(deliveries, 'the shape of the product'),
  renewal: oneOf(renewals, 'how it is renewed'),
  unit: text('the unit, e.g. `GB`'),
  quantity: integer('units of the product', 'above 0', 'how many'),
  target,
  bytes: orNull(integer('bytes', 'above 0', 'the traffic of a `gateway_gb` order; null for other shapes')),
  periodDays: orNull(
    integer('days', 'above 0', 'the duration of a `gateway_time` plan; null for other shapes'),
  ),
  planId: orNull(id<PlanId>('pln', 'the plan that it opens or adds to; null for addresses')),
  proxyIds: list(id<ProxyId>('prx', 'a rental'), 'the extended rentals; empty for other kinds'),
  unitPriceCents: cents('0 or more', 'the price of one unit, rounded'),
  amountCents: cents('0 or more', "the charge of the payer: the customer's price if a customer is named"),
  costCents: orAbsent(
    cents('0 or more', "the debit of the reseller's wallet for its customer's order; only for such orders"),
  ),
  termsRevision: orAbsent(
    integer('revision', '0 or more', "the revision of the reseller's terms; absent without terms"),
  ),
  subscription: orAbsent(
    group(paidPeriodFields, 'the paid period of a subscription; absent for other orders'),
  ),
  listCents: cents('0 or more', "the service's own price before any discount"),
  currency: exactly('USD', 'always'),
  billingType: exactly('PAYG', 'always'),
  method: oneOf(orderMethods, 'the payment method'),
  catalogDigest: text('SHA-256 of the catalogue of its price'),
  fingerprint: text(
    'SHA-256 over method, route, canonical product, body and customer (docs/reference/api.md, "Idempotency")',
  ),
  createdAt: pastTime('the time of the decision'),
}

/**
 * The whole order, as it was decided. The debit that pays it carries it, so that the order can be completed from the
 * ledger alone.
 */
export type OrderDetails = ShapeValue<typeof orderFields>
export const wholeOrder = group(orderFields, 'the whole order of the decision', 'order')
