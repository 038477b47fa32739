import {
  type AccountId,
  type KeyId,
  newId,
  type OrderId,
  type ProxyId,
  type SubscriptionId,
} from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { readState } from '../../platform/eventstore/commands/handle.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import { stockStream } from '../../terms/streams.ts'
import { accountRef } from '../accounts/fold.ts'
import { metaOf } from '../catalog/how-to.ts'
import type { Payer } from '../orders/payer.ts'
import { type Buyer, type Prepared, prepareExtension, prepareOrder } from '../orders/prepare.ts'
import { readOrder } from '../orders/read-order.ts'
import { stillRunning } from '../stock/decide.ts'
import { stockFold } from '../stock/fold.ts'
import type { Subscription } from './fold.ts'
import { maxOrdersOfPeriod, orderIdOfPeriod, subscriptionsActor } from './names.ts'
import type { Market } from './prepare.ts'

/** The order that pays a subscription's next period: which one it is, who pays it, what it keeps and what it asks for. */
export const createRenewalOrders = (deps: {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly market: Market
}) => {
  const { log, runner, market } = deps

  /** Who pays, as the account stands now; null while it may not buy. */
  const payerOf = async ({ terms }: Subscription): Promise<Payer | null> => {
    const accountId = terms.accountId as AccountId
    const account = await readState(
      runner,
      { name: 'read-account', actor: subscriptionsActor, correlationId: newId('run') },
      accountRef(accountId),
    )
    if (!account || account.blocked) return null
    const { reseller } = account
    const keyId = terms.keyId as KeyId | null
    // A person began it in the console, under no cap.
    if (keyId === null) return { accountId, reseller, keyId, actor: subscriptionsActor }
    // The cap of the key that asked for the subscription holds for what it leads to, also once the key is revoked.
    const key = account.keys.get(keyId)
    const capKeyId = key?.capKeyId ?? keyId
    return { accountId, reseller, keyId, capKeyId, dailyCapCents: key?.dailyCapCents ?? null }
  }

  /**
   * Which of the subscription's addresses still run: these are kept. The arbiter of the extension says so, for the read
   * tables may not know yet what the period before, another process or the customer did a moment ago.
   */
  const running = async ({ terms, proxyIds }: Subscription): Promise<readonly ProxyId[]> => {
    if (terms.target === null) return []
    const { accountId } = terms
    const { answer } = await runner.run({
      name: 'read-rentals',
      streams: { stock: { stream: stockStream(terms.productId, terms.target.country), fold: stockFold } },
      decide: ({ stock }, { nowMs }) => ({
        appends: [],
        answer: stillRunning(stock, { accountId, proxyIds }, nowMs),
      }),
      actor: subscriptionsActor,
      correlationId: newId('run'),
    })
    return answer
  }

  /**
   * The order of the next period at today's price: what still runs is extended, else the same is bought anew.
   * @throws ApiError what refuses it
   */
  const prepare = async (
    state: Subscription,
    payer: Payer,
    orderId: OrderId,
    kept: readonly ProxyId[],
  ): Promise<Prepared> => {
    const { productId, quantity, target, interval, period, subscriptionId } = state.terms
    const catalog = market.catalog.current()
    const product = catalog.resolve(productId)
    const buyer: Buyer = {
      orderId,
      caller: payer,
      customerId: null,
      termsOf: (sold) => market.termsOf(payer, sold),
      method: 'wallet',
      payableBy: ['wallet'],
      expectedAmountCents: undefined,
      catalog,
    }
    // Paid for so many days, and sold for another number by now.
    if (product?.shape === 'gateway_time' && product.periodDays !== period.count)
      throw refuse('subscription_not_available', `a plan of ${productId} lasts ${product.periodDays} days`)
    const meta = target === null ? undefined : metaOf(target)
    const prepared =
      product && target !== null && kept.length > 0
        ? prepareExtension(buyer, { productId, proxyIds: kept, line: target }, target.periodDays)
        : await prepareOrder(buyer, { productId, quantity, meta }, market.stock)
    const periodStart = state.currentPeriodEnd
    return { ...prepared, subscription: { subscriptionId, interval, period, periodStart } }
  }

  /**
   * The order that is to pay the next period, and what stands of it: the first one that did not fail, or the last that a
   * period may have. Only a log without atomic items has orders that fail: their debit landed, and what they were to
   * keep was gone.
   */
  const orderOfNextPeriod = async ({ terms, currentPeriodEnd }: Subscription) => {
    for (let failedBefore = 0; ; failedBefore += 1) {
      const subscriptionId = terms.subscriptionId as SubscriptionId
      const orderId = orderIdOfPeriod(subscriptionId, currentPeriodEnd, failedBefore)
      const standing = await readOrder(log, orderId)
      if (!standing || standing.failureReason === null || failedBefore + 1 === maxOrdersOfPeriod)
        return { orderId, standing }
    }
  }

  return { payerOf, running, prepare, orderOfNextPeriod }
}

export type RenewalOrders = ReturnType<typeof createRenewalOrders>
