import type { AccountId, OrderId, PlanId } from '../../src/kernel/ids.ts'
import fc from '../support/fast-check.ts'
import type { Shop } from './shop.ts'

/** Something that happens in the shop; `n` counts the steps. */
export type Step = (shop: Shop, n: number) => Promise<unknown>

export const startMs = Date.parse('2026-11-21T00:00:00.000Z')
export const accounts = ['acc_one', 'acc_two'] as AccountId[]
export const planOf = (account: AccountId): PlanId => `pln_${account}` as PlanId

const account = fc.constantFrom(...accounts)
const orderId = (n: number): OrderId => `ord_${n}` as OrderId
const anyOrder = fc.nat({ max: 40 }).map(orderId)

/** What moves money, and the plans that are bought with it. */
export const moneySteps: readonly fc.Arbitrary<Step>[] = [
  fc.tuple(account, fc.integer({ min: 1, max: 5000 })).map(
    ([a, cents]): Step =>
      (shop) =>
        shop.credit(a, cents),
  ),
  fc.tuple(account, fc.integer({ min: 1, max: 9000 })).map(
    ([a, cents]): Step =>
      (shop) =>
        shop.chargeBack(a, cents),
  ),
  fc.tuple(account, fc.integer({ min: 1, max: 90_000 }), fc.constantFrom('capture', 'release', 'leave')).map(
    ([a, micros, end]): Step =>
      (shop) =>
        shop.scrape(a, micros, end as 'capture'),
  ),
  account.map(
    (a): Step =>
      (shop, n) =>
        shop.buyPlan(a, orderId(n), planOf(a)),
  ),
  fc.tuple(anyOrder, fc.integer({ min: 1, max: 400 })).map(
    ([id, cents]): Step =>
      (shop) =>
        shop.refund(id, cents % 3 === 0 ? { kind: 'whole' } : { kind: 'cents', cents }),
  ),
]

/** Renting, extending, using and ending. */
export const fulfilmentSteps: readonly fc.Arbitrary<Step>[] = [
  fc.tuple(account, fc.integer({ min: 1, max: 4 })).map(
    ([a, q]): Step =>
      (shop, n) =>
        shop.buyAddresses(a, orderId(n), q),
  ),
  anyOrder.map(
    (id): Step =>
      (shop, n) => {
        const order = shop.orders.has(id) ? shop.order(id) : null
        if (!order || order.proxyIds.length === 0) return Promise.resolve()
        return shop.extend(order.details.accountId, orderId(n), order.proxyIds)
      },
  ),
  fc.tuple(account.map(planOf), fc.integer({ min: 1, max: 4_000_000_000 })).map(
    ([plan, bytes]): Step =>
      (shop) =>
        shop.meter(plan, bytes),
  ),
  fc.constant<Step>((shop) => shop.expireRentals()),
]

/** Time that passes; below zero the clock is set back. */
export const waiting = (minMs: number, maxMs: number): fc.Arbitrary<Step> =>
  fc.integer({ min: minMs, max: maxMs }).map(
    (ms): Step =>
      async (shop) =>
        shop.wait(ms),
  )
