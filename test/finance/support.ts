import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { EventLog } from '../../src/eventstore/port.ts'
import { accountStream } from '../../src/eventstore/streams.ts'
import type { AccountId, OrderId, PlanId } from '../../src/ids.ts'
import { createShop, type Shop } from '../projections/shop.ts'

export const startMs = Date.parse('2026-11-21T00:00:00.000Z')
/** `acc_two` is a reseller. */
export const accounts = ['acc_one', 'acc_two'] as AccountId[]

/** Something that happens in the shop; `n` counts the steps. */
export type Step = (shop: Shop, n: number) => Promise<unknown>

const account = fc.constantFrom(...accounts)
const orderId = (n: number): OrderId => `ord_${n}` as OrderId

export const step: fc.Arbitrary<Step> = fc.oneof(
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
        shop.buyPlan(a, orderId(n), `pln_${a}` as PlanId),
  ),
  fc.tuple(fc.nat({ max: 40 }).map(orderId), fc.integer({ min: 1, max: 400 })).map(
    ([id, cents]): Step =>
      (shop) =>
        shop.refund(id, cents % 3 === 0 ? { kind: 'whole' } : { kind: 'cents', cents }),
  ),
  fc.integer({ min: -1500, max: 100_000 }).map(
    (ms): Step =>
      async (shop) =>
        shop.wait(ms),
  ),
)

export const steps = fc.array(step, { minLength: 10, maxLength: 60 })

/** A log in which `acc_two` is a reseller and both have money; then whatever the steps do. */
export const playInto = async (log: EventLog, list: readonly Step[]): Promise<Shop> => {
  for (const accountId of accounts) {
    const data = { accountId, reseller: accountId === 'acc_two' }
    const metadata = {
      correlationId: randomUUID(),
      causationId: null,
      actor: { kind: 'operator', name: 'test' },
      recordedAt: new Date(startMs - 5000).toISOString(),
    }
    await log.append(accountStream(accountId), 'noStream', [
      {
        id: randomUUID(),
        type: 'AccountCreated',
        data: JSON.stringify(data),
        metadata: JSON.stringify(metadata),
      },
    ])
  }
  const shop = createShop(log, startMs)
  for (const id of accounts) await shop.credit(id, 10_000)
  for (const [n, act] of list.entries()) await act(shop, n)
  return shop
}
