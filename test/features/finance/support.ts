import { randomUUID } from 'node:crypto'
import type { AccountId, CustomerId, OrderId } from '../../../src/kernel/ids.ts'
import { accountStream } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createShop, type Shop } from '../../projections/shop.ts'
import { accounts, moneySteps, type Step, startMs, waiting } from '../../projections/steps.ts'
import fc from '../../support/fast-check.ts'

const reseller = 'acc_two' as AccountId
const account = fc.constantFrom(...accounts)
const customer = fc.constantFrom('cus_ada' as CustomerId, 'cus_bob' as CustomerId)
const signedMicros = fc.integer({ min: -60_000_000, max: 30_000_000 }).filter((micros) => micros !== 0)

/** Deposits, adjustments of every reason, and movements of a reseller's customers. */
const furtherSteps: readonly fc.Arbitrary<Step>[] = [
  fc.tuple(account, fc.integer({ min: 1, max: 5000 })).map(
    ([a, cents]): Step =>
      (shop) =>
        shop.deposit(a, cents),
  ),
  fc.tuple(account, fc.constantFrom('correction', 'goodwill'), signedMicros).map(
    ([a, reason, micros]): Step =>
      (shop) =>
        shop.adjust(a, reason as 'goodwill', micros),
  ),
  fc.tuple(customer, fc.integer({ min: 1, max: 9000 })).map(
    ([c, cents]): Step =>
      (shop) =>
        shop.customerPays(reseller, c, cents),
  ),
  fc.tuple(customer, fc.constantFrom('payment', 'correction', 'goodwill', 'chargeback'), signedMicros).map(
    ([c, reason, micros]): Step =>
      (shop) =>
        shop.adjustCustomer(reseller, c, reason as 'payment', micros),
  ),
  fc.tuple(customer, fc.nat({ max: 2500 }), fc.nat({ max: 2000 })).map(
    ([c, amountCents, costCents]): Step =>
      (shop, n) =>
        shop.sellPlan(reseller, c, `ord_${n}` as OrderId, { amountCents, costCents }),
  ),
]

const step = fc.oneof(...moneySteps, ...furtherSteps, waiting(-1500, 100_000))

export const steps = fc.array(step, { minLength: 10, maxLength: 80, size: 'max' })

/** The kinds of money events that a log holds. */
export const moneyKindsOf = async (log: EventLog): Promise<string[]> =>
  [
    ...new Set(
      (await log.readAll(0, 1_000_000))
        .filter(({ stream }) => stream.startsWith('ledger-'))
        .map(({ type }) => type),
    ),
  ].sort()

/** A log in which `acc_two` is a reseller and both have money, and then the given steps. */
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
