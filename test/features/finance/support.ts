import { randomUUID } from 'node:crypto'
import type { Moment } from '../../../src/features/finance/input-forms.ts'
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

const dayMs = 86_400_000
const reference = fc.integer({ min: 0, max: 20 }).map((n) => `txn_${n}`)

/** Lines of statements of this month, of earlier ones and of the future, their corrections, and ends of months. */
const statementSteps: readonly fc.Arbitrary<Step>[] = [
  fc
    .tuple(
      reference,
      fc.integer({ min: -500, max: 90_000 }),
      fc.integer({ min: -900_000, max: 9_000_000 }),
      fc.oneof(fc.integer({ min: -5_000, max: 300_000 }), fc.integer({ min: -2 * dayMs, max: 60 * dayMs })),
    )
    .map(
      ([ref, feeMicros, payoutMicros, agoMs]): Step =>
        (shop) =>
          shop.bookLine({ reference: ref, feeMicros, payoutMicros }, agoMs),
    ),
  fc.tuple(reference, fc.integer({ min: 0, max: 90_000 })).map(
    ([ref, feeMicros]): Step =>
      (shop) =>
        shop.correctLine(ref, feeMicros),
  ),
  fc.integer({ min: 0, max: 70 * dayMs }).map(
    (agoMs): Step =>
      (shop) =>
        shop.cutOff(agoMs),
  ),
  waiting(0, 25 * dayMs),
]

const step = fc.oneof(...moneySteps, ...furtherSteps, ...statementSteps, waiting(-1500, 100_000))

export const steps = fc.array(step, { minLength: 10, maxLength: 80, size: 'max' })

/** Lines of November that are posted in December: two before its end is recorded, one after it. */
export const datedBack: readonly Step[] = [
  async (shop) => shop.wait(15 * dayMs),
  (shop) => shop.bookLine({ reference: 'a', feeMicros: 700, payoutMicros: 50_000 }, 10 * dayMs),
  (shop) => shop.bookLine({ reference: 'b', feeMicros: 30, payoutMicros: 0 }, 12 * dayMs),
  (shop) => shop.correctLine('b', 40),
  (shop) => shop.cutOff(10 * dayMs),
  (shop) => shop.bookLine({ reference: 'c', feeMicros: 1, payoutMicros: 0 }, 10 * dayMs),
  (shop) => shop.correctLine('a', 600),
]
/** Times around these lines, and one position between them. */
export const datedBackMoments: readonly Moment[] = [
  ...[2, 4, 6, 10, 15].map((days): Moment => ({ kind: 'time', atMs: startMs + days * dayMs })),
  { kind: 'position', position: 6 },
]

/** A position, a time of the first hour, or one of the first months. */
export const moment: fc.Arbitrary<Moment> = fc.oneof(
  fc.nat({ max: 200 }).map((position): Moment => ({ kind: 'position', position })),
  fc.integer({ min: -10_000, max: 2_000_000 }).map((ms): Moment => ({ kind: 'time', atMs: startMs + ms })),
  fc.integer({ min: 0, max: 120 * dayMs }).map((ms): Moment => ({ kind: 'time', atMs: startMs + ms })),
)

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
