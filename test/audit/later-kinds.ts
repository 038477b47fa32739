import * as accounts from '../../src/accounts/decide.ts'
import { type AccountState, accountFold } from '../../src/accounts/fold.ts'
import { decideInvoice, decideOpen } from '../../src/deposits/decide.ts'
import type { DepositDetails, DepositEvent } from '../../src/deposits/events.ts'
import { depositFold } from '../../src/deposits/fold.ts'
import {
  accountStream,
  deliveryStream,
  depositStream,
  financeStream,
  ledgerStream,
  noticeStream,
  planStream,
  subscriptionStream,
  termsStream,
  webhooksStream,
} from '../../src/eventstore/streams.ts'
import type { FinanceTokenEvent } from '../../src/finance/token-events.ts'
import {
  type AccountId,
  type CustomerId,
  type DepositId,
  type KeyId,
  type NoticeId,
  type OrderId,
  planIdOfOrder,
  type SubscriptionId,
} from '../../src/ids.ts'
import type { CustomerEvent } from '../../src/ledger/customer-events.ts'
import { decideCredit } from '../../src/ledger/decide.ts'
import { decideCustomerAdjustment, decideCustomerCredit } from '../../src/ledger/decide-customer.ts'
import type { LedgerEvent } from '../../src/ledger/events.ts'
import { ledgerFold } from '../../src/ledger/fold.ts'
import type { LedgerState } from '../../src/ledger/state.ts'
import type { NoticeEvent } from '../../src/notices/events.ts'
import {
  type AwaitedOrder,
  decideAwaitedAlone,
  decideAwaiting,
  decideCancellation,
} from '../../src/orders/awaited.ts'
import type { OrderDetails } from '../../src/orders/details.ts'
import { decidePlacement } from '../../src/orders/place.ts'
import { decideRefund } from '../../src/orders/refund.ts'
import type { PlanEvent } from '../../src/plans/events.ts'
import type { TermsEvent } from '../../src/resellers/events.ts'
import type { SubscriptionEvent } from '../../src/subscriptions/events.ts'
import type { DeliveryEvent, EndpointEvent } from '../../src/webhooks/events.ts'
import { createHistory, type GoldenEvent } from '../golden/history.ts'
import { planOrder } from '../support/world.ts'

const dayMs = 86_400_000
const payer = 'acc_later_payer' as AccountId
const seller = 'acc_later_seller' as AccountId
const ada = 'cus_later_ada' as CustomerId

type History = ReturnType<typeof createHistory>
type Decided<Event> =
  | { readonly outcome: 'decided'; readonly events: readonly Event[] }
  | { readonly outcome: 'refused' }

const eventsOf = <Event>(decision: Decided<Event>): readonly Event[] => {
  if (decision.outcome === 'refused') throw new Error('a decision was refused')
  return decision.events
}

const openAccounts = ({ fact, state }: History): void => {
  for (const accountId of [payer, seller]) {
    const decide = (by: (standing: AccountState) => accounts.AccountDecision): void =>
      fact(accountStream(accountId), ...eventsOf(by(state(accountStream(accountId), accountFold))))
    decide((standing) => accounts.decideCreation(standing, { accountId, reseller: accountId === seller }))
    const keyId = `key_${accountId}` as KeyId
    const key = { keyId, scopes: ['buy'], dailyCapCents: null, displayPrefix: 'fbx_abcd' } as const
    decide((standing) => accounts.decideIssue(standing, key))
  }
}

/** Deposits and orders that wait for them: paid, closed unpaid, failed, of an account and of a reseller's customer. */
const playDeposits = (history: History): void => {
  const { fact, write, state, states, now } = history
  const ledgerOf = (id: AccountId): LedgerState => state(ledgerStream(id), ledgerFold)
  const move = (id: AccountId, decide: (state: LedgerState) => Decided<LedgerEvent>): void =>
    fact(ledgerStream(id), ...eventsOf<LedgerEvent | CustomerEvent>(decide(ledgerOf(id))))

  const open = (id: string, over: Partial<DepositDetails>): DepositDetails => {
    const details: DepositDetails = {
      depositId: id as DepositId,
      accountId: payer,
      customerId: null,
      rail: 'card',
      amountCents: 1_500,
      gatewayId: 'service-stripe',
      provider: 'stripe',
      merchantName: 'Farebox',
      fingerprint: 'fingerprint',
      pending: null,
      ...over,
    }
    const stream = depositStream(id)
    write(decideOpen(state(stream, depositFold), details, now()).appends)
    const at = (ms: number): string => new Date(now() + ms).toISOString()
    const invoice = {
      ...{ invoiceId: `inv_${id}`, payUrlId: `url_${id}`, payUrl: 'https://pay.example' },
      ...{ expiresAt: at(dayMs), watchUntil: at(7 * dayMs) },
    }
    write(decideInvoice(state(stream, depositFold), invoice, now()).appends)
    return details
  }
  const told = (id: string, type: DepositEvent['type'], more: object = {}, accountId = payer): void =>
    fact(depositStream(id), { type, data: { depositId: id, accountId, ...more } })
  const arrived = (id: string, amountMicros: number, accountId = payer): void => {
    const payment = { paymentId: `pay_${id}`, amountMicros }
    told(id, 'DepositPaymentReceived', payment, accountId)
    const by = { reference: payment.paymentId, gateway: 'service-stripe', depositId: id, amountMicros }
    if (accountId === payer)
      move(payer, (s) => decideCredit(s, { ...by, source: 'deposit', orderId: null, family: null }))
    else move(seller, (s) => decideCustomerCredit(s, { ...by, customerId: ada }))
    told(id, 'DepositPaymentCredited', payment, accountId)
    const settledAt = new Date(now()).toISOString()
    told(id, 'DepositSettled', { status: 'paid', creditedMicros: amountMicros, settledAt }, accountId)
  }
  const awaitedStates = (order: OrderDetails) => ({
    ...states(order),
    account: state(accountStream(order.accountId), accountFold),
  })
  const waiting = (order: OrderDetails, depositId: string): AwaitedOrder => {
    write(decideAwaiting(states(order), { order, depositId }).appends)
    return { order, depositId, orderable: true }
  }
  const tryAgain = (awaited: AwaitedOrder, expected: string): void => {
    const { appends, answer } = decideAwaitedAlone(awaitedStates(awaited.order), awaited, now())
    if (answer.kind !== expected) throw new Error(`${awaited.order.orderId}: ${JSON.stringify(answer)}`)
    write(appends)
  }
  const hosted = (id: string, over: Partial<OrderDetails> = {}): OrderDetails =>
    planOrder(id, { accountId: payer, keyId: `key_${payer}` as KeyId, method: 'card', ...over })

  const funding = { source: 'manual', gateway: 'manual', orderId: null, family: null } as const
  const fund = (id: AccountId, depositId: string, amountMicros: number): void =>
    move(id, (s) => decideCredit(s, { ...funding, reference: 'funding', depositId, amountMicros }))
  fund(payer, 'dep_later_first', 50_000_000)

  const paid = hosted('ord_later_paid')
  open('dep_later_paid', { pending: { order: paid } })
  const paidLater = waiting(paid, 'dep_later_paid')
  told('dep_later_paid', 'DepositProcessing')
  arrived('dep_later_paid', 15_000_000)
  tryAgain(paidLater, 'placed')

  const unpaid = hosted('ord_later_unpaid')
  open('dep_later_unpaid', {
    pending: { order: unpaid },
    rail: 'crypto',
    provider: 'btcpay',
    gatewayId: 'service-btcpay',
  })
  waiting(unpaid, 'dep_later_unpaid')
  told('dep_later_unpaid', 'DepositExpired', { expiredAt: new Date(now()).toISOString() })
  const closed = { depositId: 'dep_later_unpaid', closed: true }
  write(decideCancellation(states(unpaid), closed, now()).appends)
  open('dep_later_failed', {})
  told('dep_later_failed', 'DepositFailed', {
    reason: 'payment_failed',
    failedAt: new Date(now()).toISOString(),
  })

  const sold = hosted('ord_later_sold', {
    ...{ accountId: seller, keyId: `key_${seller}` as KeyId, customerId: ada },
    ...{ amountCents: 1_950, costCents: 1_350 },
  })
  open('dep_later_ada', { accountId: seller, customerId: ada, amountCents: 1_950, pending: { order: sold } })
  const soldLater = waiting(sold, 'dep_later_ada')
  arrived('dep_later_ada', 19_500_000, seller)
  tryAgain(soldLater, 'held')
  fund(seller, 'dep_later_second', 20_000_000)
  tryAgain(soldLater, 'placed')
  write(decideRefund(states(sold), 'ref_later', { kind: 'cents', cents: 500 }, now()).appends)
  const disputed = { reference: 'dispute', reason: 'chargeback', gateway: 'service-stripe' } as const
  move(seller, (s) =>
    decideCustomerAdjustment(s, { ...disputed, customerId: ada, amountMicros: -19_500_000 }),
  )
  const low = {
    ...{ planId: paid.planId ?? '', accountId: payer, customerId: null, productId: paid.productId },
    ...{ totalBytes: 5_000_000_000, usedBytes: 4_600_000_000, expiresAt: null },
  }
  fact(planStream(planIdOfOrder('ord_later_paid' as OrderId)), {
    type: 'PlanRanLow',
    data: low,
  } satisfies PlanEvent)
}

const playTerms = ({ fact }: History): void => {
  const price = { productId: 'isp-static', country: 'USA', periodDays: 30 }
  const events: readonly TermsEvent[] = [
    { type: 'DiscountChanged', data: { discountBp: 1_000 } },
    { type: 'MarkupChanged', data: { markupMillionths: 1_300_000 } },
    { type: 'RetailPriceSet', data: { ...price, unitPriceMicros: 4_500_000 } },
    { type: 'RetailPriceRemoved', data: price },
    { type: 'SellableChanged', data: { productIds: ['residential-premium'] } },
    { type: 'ShopChanged', data: { merchantName: 'Ada & Co', website: null, storefrontLink: null } },
    { type: 'GatewaySet', data: { rail: 'card', provider: 'stripe', reference: 'gwc_later' } },
    { type: 'GatewayRemoved', data: { rail: 'card' } },
    { type: 'MessagingBotSet', data: { provider: 'telegram', reference: 'bot_later' } },
    { type: 'MessagingBotRemoved', data: {} },
  ]
  fact(termsStream(seller), ...events)
}

const playWebhooks = ({ fact, now }: History): void => {
  const endpoint = (n: number) => ({ endpointId: `whs_later_${n}`, accountId: payer })
  const registered = (n: number): EndpointEvent => ({
    type: 'EndpointRegistered',
    data: { ...endpoint(n), events: ['order.fulfilled'], urlId: `url_${n}`, secretId: `sec_${n}` },
  })
  const previousUntil = new Date(now() + dayMs).toISOString()
  const secrets = { secretId: 'sec_new', previousSecretId: 'sec_1', previousUntil }
  const endpoints: readonly EndpointEvent[] = [
    registered(1),
    registered(2),
    registered(3),
    { type: 'EndpointChanged', data: { ...endpoint(1), events: null, urlId: 'url_new' } },
    { type: 'SecretRotated', data: { ...endpoint(1), ...secrets } },
    { type: 'EndpointDisabled', data: { ...endpoint(2), reason: 'gone' } },
    { type: 'EndpointRemoved', data: { ...endpoint(3) } },
  ]
  fact(webhooksStream(payer), ...endpoints)
  const deliver = (n: number, resource: string, ...outcomes: ((id: string) => DeliveryEvent)[]): void => {
    const deliveryId = `dlv_later_${resource}`
    const enqueued = {
      ...{ ...endpoint(n), deliveryId, event: 'order.fulfilled' as const, resource },
      data: { orderId: resource, amountCents: 1_500 },
    }
    const events: readonly DeliveryEvent[] = [
      { type: 'WebhookEnqueued', data: enqueued },
      ...outcomes.map((outcome) => outcome(deliveryId)),
    ]
    fact(deliveryStream(`whs_later_${n}`, 'order.fulfilled', resource), ...events)
  }
  const ended = (n: number, deliveryId: string) => ({ deliveryId, endpointId: `whs_later_${n}`, attempts: 1 })
  deliver(
    1,
    'ord_later_paid',
    (id) => ({ type: 'DeliverySucceeded', data: { ...ended(1, id), status: 200 } }),
    (deliveryId) => ({
      type: 'WebhookRequeued',
      data: {
        ...endpoint(1),
        deliveryId,
        event: 'order.fulfilled',
        resource: 'ord_later_paid',
        data: {},
        round: 2,
      },
    }),
  )
  deliver(2, 'ord_a', (id) => ({ type: 'DeliveryAbandoned', data: { ...ended(2, id), reason: 'gone' } }))
  deliver(3, 'ord_b', (id) => ({
    type: 'DeliveryCanceled',
    data: { ...ended(3, id), reason: 'endpoint_removed' },
  }))
}

const playSubscriptions = ({ fact, write, states, now }: History): void => {
  const [start, end, next] = [0, 30, 60].map((days) => new Date(now() + days * dayMs).toISOString()) as [
    string,
    string,
    string,
  ]
  const started = (id: string): SubscriptionEvent => ({
    type: 'SubscriptionStarted',
    data: {
      ...{ subscriptionId: id, accountId: payer, keyId: `key_${payer}`, productId: 'residential-premium' },
      ...{ quantity: 5, target: null, interval: 'month', period: { unit: 'month', count: 1 } },
      ...{ orderId: 'ord_later_paid', planId: null, proxyIds: [], amountCents: 1_500 },
      ...{ fingerprint: 'fingerprint', startedAt: start, currentPeriodEnd: end },
    },
  })
  const renewed = (subscriptionId: string): SubscriptionEvent => ({
    type: 'SubscriptionRenewed',
    data: {
      ...{ subscriptionId, accountId: payer, orderId: 'ord_later_renewal', planId: null, proxyIds: [] },
      ...{ amountCents: 1_500, periodStart: end, currentPeriodEnd: next },
    },
  })
  const over = (subscriptionId: string) => ({
    ...{ subscriptionId, accountId: payer, productId: 'residential-premium', planId: null },
    currentPeriodEnd: next,
  })
  const ids = ['sub_later_one', 'sub_later_two', 'sub_later_three'] as SubscriptionId[]
  const [one, two, three] = ids as [SubscriptionId, SubscriptionId, SubscriptionId]
  const scheduled: SubscriptionEvent = {
    type: 'SubscriptionCancelScheduled',
    data: { subscriptionId: one, accountId: payer, endsAt: next },
  }
  const canceled: SubscriptionEvent = {
    type: 'SubscriptionCanceled',
    data: { ...over(one), status: 'canceled', reason: 'requested', canceledAt: next },
  }
  const expired: SubscriptionEvent = {
    type: 'SubscriptionExpired',
    data: { ...over(two), status: 'expired', reason: 'insufficient_balance', expiredAt: next },
  }
  fact(subscriptionStream(one), started(one), renewed(one), scheduled, canceled)
  fact(subscriptionStream(two), started(two), expired)
  // What a crash leaves: the order of a period stands, and its subscription does not tell of it yet.
  const period = { subscriptionId: three, interval: 'month', period: { unit: 'month', count: 1 } } as const
  const { createdAt: _, ...draft } = planOrder('ord_later_period', {
    ...{ accountId: payer, keyId: `key_${payer}` as KeyId },
    subscription: { ...period, periodStart: null },
  })
  const order = { ...draft, createdAt: start }
  write(decidePlacement(states(order), { draft, capCents: null }, now()).appends)
}

const playDesk = ({ fact, now }: History): void => {
  const token = { tokenId: 'fin_later', name: 'monthly close', displayPrefix: 'fbf_abcd', expiresAt: null }
  const tokens: readonly FinanceTokenEvent[] = [
    { type: 'FinanceTokenIssued', data: token },
    { type: 'FinanceTokenRevoked', data: { tokenId: token.tokenId } },
  ]
  fact(financeStream, ...tokens)
  const at = new Date(now()).toISOString()
  const notice = (noticeId: NoticeId): NoticeEvent => ({
    type: 'NoticePublished',
    data: {
      ...{ noticeId, title: 'A price changes', body: 'From tomorrow on.', kind: 'PRICING', audience: 'ALL' },
      ...{ publishedAt: at, expiresAt: null, linkHref: null, linkLabel: null },
    },
  })
  const [one, two] = ['ntc_later_one', 'ntc_later_two'] as [NoticeId, NoticeId]
  fact(noticeStream(one), notice(one))
  const expired: NoticeEvent = { type: 'NoticeExpired', data: { noticeId: two, expiredAt: at } }
  fact(noticeStream(two), notice(two), expired)
}

/**
 * The kinds of events that came after release 0.1.0, whose events are kept in test/golden: they go on where those end.
 * Those of seals and months are about the log that they stand in, and are made in it (world.ts).
 */
export const makeLaterEvents = (startMs: number): readonly GoldenEvent[] => {
  const history = createHistory(startMs)
  openAccounts(history)
  playDeposits(history)
  playTerms(history)
  playWebhooks(history)
  playSubscriptions(history)
  playDesk(history)
  return history.written.map((event) => ({ ...event, id: event.id.replace('-7000-', '-7001-') }))
}
