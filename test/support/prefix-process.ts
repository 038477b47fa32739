import { decideCreation } from '../../src/domain/accounts/decide.ts'
import { accountFold } from '../../src/domain/accounts/fold.ts'
import type { RefundRequest } from '../../src/domain/orders/refunds.ts'
import { planFold } from '../../src/domain/plans/fold.ts'
import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import { createCompletion } from '../../src/features/orders/complete-orders.ts'
import { refundIdOf, refundOrder } from '../../src/features/orders/refund-order.ts'
import { addAddresses } from '../../src/features/stock/add-stock.ts'
import { createWallets } from '../../src/features/wallet/wallet-service.ts'
import type { Clock } from '../../src/kernel/clock.ts'
import type { Actor } from '../../src/kernel/event.ts'
import type { AccountId, KeyId, OrderId, PlanId } from '../../src/kernel/ids.ts'
import { accountStream, planStream } from '../../src/kernel/streams.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import type { Caller } from '../../src/platform/http/auth.ts'
import { runnerOver } from '../platform/commands/purse.ts'
import { createPlaceQuoted } from './place-quoted.ts'
import { Crash } from './prefix-log.ts'
import { addressOrder, plainAddress, planOrder } from './world.ts'

const actor: Actor = { kind: 'system', name: 'test' }
const operator: Actor = { kind: 'operator', name: 'test' }
const cause = { actor, correlationId: 'test' }
const country = 'USA'

const callerOf = (accountId: AccountId): Caller => ({
  accountId,
  keyId: 'key_one' as KeyId,
  capKeyId: 'key_one' as KeyId,
  scopes: ['buy'],
  cap: null,
  reseller: false,
  blocked: false,
  email: 'buyer@example.com',
})

/** The bought item: an address or traffic, on a separate plan, on the held plan, or on a named one. */
export type Item =
  | { readonly kind: 'addresses'; readonly productId: string; readonly quantity: number }
  | { readonly kind: 'plan' | 'held-plan'; readonly productId: string }
  | { readonly kind: 'topup'; readonly productId: string; readonly planId: PlanId }
  | { readonly kind: 'extension'; readonly productId: string; readonly proxyIds: OrderDetails['proxyIds'] }

const detailsOf = (accountId: AccountId, orderId: OrderId, item: Item): OrderDetails => {
  const { productId } = item
  switch (item.kind) {
    case 'addresses': {
      const { quantity } = item
      return addressOrder(orderId, { accountId, productId, quantity, amountCents: 250 * quantity })
    }
    case 'extension': {
      const { proxyIds, kind } = item
      const quantity = proxyIds.length
      return addressOrder(orderId, {
        accountId,
        productId,
        kind,
        proxyIds,
        quantity,
        amountCents: 250 * quantity,
      })
    }
    case 'plan':
      return planOrder(orderId, { accountId, productId, renewal: 'repurchase' })
    case 'held-plan':
      // The service names the held plan.
      return planOrder(orderId, { accountId, productId, planId: null })
    case 'topup':
      return planOrder(orderId, { accountId, productId, kind: 'topup', planId: item.planId })
    default: {
      const unknown: never = item
      throw new Error(`unknown item ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The parts of a process of the service, over any log: a command runner with its own caches, and the
 * services.
 */
export const createShopProcess = (log: EventLog, clock: Clock) => {
  // Each case makes some processes: caches of a server's size would take longer to make than the case.
  const limits = {
    ...{ resendFirstMs: 1, resendMaxMs: 4, unknownOutcomeWaitMs: 200, closeMs: 20 },
    ...{ cacheStreams: 100, cacheShortStreams: 100 },
  }
  const runner = runnerOver(log, { clock, limits })
  const complete = createCompletion({ log, runner })
  const placeQuoted = createPlaceQuoted({ log, runner })
  const wallets = createWallets({ runner })

  return {
    complete,
    wallets,
    order: (accountId: AccountId, idempotencyKey: string, item: Item) =>
      placeQuoted(
        {
          caller: callerOf(accountId),
          requestId: 'test',
          idempotencyKey,
          fingerprint: JSON.stringify(item),
        },
        (orderId) => detailsOf(accountId, orderId, item),
      ),
    refund: (orderId: OrderId, reference: string, request: RefundRequest, by: Actor = operator) =>
      refundOrder(
        { log, runner, settleTraffic: async () => undefined },
        { orderId, refundId: refundIdOf(orderId, reference), request, ...cause, actor: by },
      ),
    credit: (accountId: AccountId, amountCents: number, reference: string) =>
      wallets.credit({ accountId, amountCents, reference }, cause),
    /** A fact on the plan's stream that changes nothing; on a plan that exists. */
    meter: (planId: PlanId) => {
      const stream = planStream(planId)
      return runner.run({
        name: 'meter',
        streams: { plan: { stream, fold: planFold } },
        decide: ({ plan: { plan } }) => ({
          appends: plan
            ? [
                {
                  stream,
                  events: [{ type: 'TrafficMetered', data: { bytes: 0, usedBytes: plan.usedBytes } }],
                },
              ]
            : [],
          answer: null,
        }),
        ...cause,
      })
    },
    openAccount: (accountId: AccountId) =>
      runner.run({
        name: 'open-account',
        streams: { account: { stream: accountStream(accountId), fold: accountFold } },
        decide: ({ account }) => {
          const decision = decideCreation(account, {
            accountId,
            reseller: false,
            emailCommitment: '0'.repeat(64),
          })
          const events = decision.outcome === 'decided' ? decision.events : []
          return { appends: [{ stream: accountStream(accountId), events }], answer: null }
        },
        ...cause,
      }),
    stock: (productId: string, ips: readonly string[]) =>
      addAddresses(runner, { productId, country, addresses: ips.map(plainAddress) }, cause),
    /** Ends like a killed process: its pending calls never return. */
    end: () => runner.close(),
  }
}

/** A log that is dead from the crash of its process on. */
export const mortal = (
  log: EventLog,
): { readonly log: EventLog; readonly died: Promise<void>; dead(): boolean } => {
  const death = Promise.withResolvers<void>()
  let dead = false
  const appendAll: EventLog['appendAll'] = async (items) => {
    if (dead) throw new Crash('the process is dead')
    try {
      return await log.appendAll(items)
    } catch (error) {
      dead = true
      death.resolve()
      throw error
    }
  }
  return { log: { ...log, appendAll }, died: death.promise, dead: () => dead }
}

export type ShopProcess = ReturnType<typeof createShopProcess>
