import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { type Posting, postingsOf } from '../../../src/domain/ledger/postings.ts'
import fc from '../../support/fast-check.ts'
import { account, credited, orderOf, play, steps } from './support.ts'

/** Each account's debits less credits, by book. */
const sums = (postings: readonly Posting[]): Map<string, bigint> => {
  const totals = new Map<string, bigint>()
  for (const { book, account: name, debitMicros, creditMicros } of postings) {
    const key = `${book} ${name}`
    totals.set(key, (totals.get(key) ?? 0n) + BigInt(debitMicros) - BigInt(creditMicros))
  }
  return totals
}
const bookSums = (postings: readonly Posting[]) => [
  ...sums(postings.map((posting) => ({ ...posting, account: '' }))).values(),
]

test('invariant: every entry sums to zero in each book, and every leg is positive', () => {
  fc.assert(
    fc.property(steps, fc.boolean(), (list, reseller) => {
      for (const { events } of play(list))
        for (const event of events) {
          if (!reseller && event.type.startsWith('Customer')) continue
          const postings = postingsOf(event, { accountId: account, reseller })
          assert.ok(bookSums(postings).every((sum) => sum === 0n))
          for (const { debitMicros, creditMicros } of postings)
            assert.ok(Math.min(debitMicros, creditMicros) === 0 && Math.max(debitMicros, creditMicros) > 0)
        }
    }),
  )
})

test('invariant: the books equal the wallet after every event', () => {
  fc.assert(
    fc.property(steps, (list) => {
      const postings: Posting[] = []
      for (const { events, after } of play(list)) {
        for (const event of events)
          postings.push(...postingsOf(event, { accountId: account, reseller: true }))
        const totals = sums(postings)
        const of = (name: string) => totals.get(name) ?? 0n
        assert.equal(-of(`service liabilities:wallet:${account}`), BigInt(after.availableMicros))
        assert.equal(-of(`service liabilities:holds:${account}`), BigInt(after.heldMicros))
        assert.equal(of(`service assets:receivable:${account}`), BigInt(after.receivableMicros))
        for (const [customer, { availableMicros, receivableMicros }] of after.customers) {
          const own = `reseller:${account}`
          assert.equal(-of(`${own} liabilities:customer:${customer}`), BigInt(availableMicros))
          assert.equal(of(`${own} assets:receivable:customer:${customer}`), BigInt(receivableMicros))
        }
      }
    }),
    { numRuns: 40 },
  )
})

test('invariant: the service owes a reseller the amount that the reseller books as its wallet', () => {
  fc.assert(
    fc.property(steps, (list) => {
      const all = play(list).flatMap(({ events }) => events)
      const totals = sums(all.flatMap((event) => postingsOf(event, { accountId: account, reseller: true })))
      const of = (name: string) => totals.get(name) ?? 0n
      const owed = -of(`service liabilities:wallet:${account}`) - of(`service liabilities:holds:${account}`)
      assert.equal(of(`reseller:${account} assets:service-wallet`), owed)
    }),
  )
})

test("invariant: the service's order revenue equals the resellers' cost and own use", () => {
  fc.assert(
    fc.property(steps, (list) => {
      const all = play(list).flatMap(({ events }) => events)
      const totals = sums(all.flatMap((event) => postingsOf(event, { accountId: account, reseller: true })))
      const under = (prefix: string) =>
        [...totals].reduce((sum, [name, total]) => (name.startsWith(prefix) ? sum + total : sum), 0n)
      assert.equal(
        -under('service revenue:'),
        under(`reseller:${account} expenses:own-use`) + under(`reseller:${account} expenses:cost-of-sales`),
      )
    }),
  )
})

test('an account that is not a reseller has no customers', () => {
  const [{ events }] = play([
    {
      afterMs: 0,
      command: { kind: 'customer-credit', customerId: 'cus_0', reference: 'pi', amountMicros: 1 },
    },
  ]) as [ReturnType<typeof play>[number]]
  assert.throws(() => postingsOf(events[0]!, { accountId: account, reseller: false }), /is no reseller/)
})

test('an account that is not a reseller has no own book', () => {
  const books = postingsOf(credited(5), { accountId: account, reseller: false }).map(({ book }) => book)
  assert.deepEqual(new Set(books), new Set(['service']))
})

const legs = (event: LedgerEvent, reseller = true): string[] =>
  postingsOf(event, { accountId: account, reseller }).map(
    ({ book, account: name, debitMicros, creditMicros }) =>
      `${book === 'service' ? 'service' : 'reseller'} ${debitMicros > 0 ? 'dr' : 'cr'} ${name} ${debitMicros + creditMicros}`,
  )

const refund = {
  source: 'refund',
  reference: 'r',
  depositId: null,
  orderId: 'ord_1',
  gateway: null,
  family: 'isp',
} as const
const hold = { holdId: 'h', keyId: null, platform: 'tiktok', amountMicros: 3, availableAfterMicros: 0 }

/** Every flow of money, one row each. */
const flows: readonly { flow: string; event: LedgerEvent; expected: readonly string[] }[] = [
  {
    flow: 'own deposit',
    event: {
      type: 'WalletCredited',
      data: {
        ...refund,
        source: 'deposit',
        gateway: 'stripe',
        family: null,
        amountMicros: 10,
        receivableMicros: 0,
        availableAfterMicros: 10,
      },
    },
    expected: [
      'service dr assets:gateway:stripe 10',
      'service cr liabilities:wallet:acc_test 10',
      'reseller dr assets:service-wallet 10',
      'reseller cr equity:funding 10',
    ],
  },
  {
    flow: 'order',
    event: {
      type: 'WalletDebited',
      data: {
        order: orderOf({ amountCents: 1, family: 'ipv4' }),
        amountMicros: 10_000,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'service cr revenue:orders:ipv4 10000',
      'service dr liabilities:wallet:acc_test 10000',
      'reseller cr assets:service-wallet 10000',
      'reseller dr expenses:own-use 10000',
    ],
  },
  {
    flow: 'refund that pays a debt in part',
    event: {
      type: 'WalletCredited',
      data: { ...refund, amountMicros: 10, receivableMicros: 4, availableAfterMicros: 6 },
    },
    expected: [
      'service dr revenue:orders:isp 10',
      'service cr liabilities:wallet:acc_test 6',
      'service cr assets:receivable:acc_test 4',
      'reseller dr assets:service-wallet 6',
      'reseller dr liabilities:service-debt 4',
      'reseller cr expenses:own-use 10',
    ],
  },
  {
    flow: 'hold',
    event: { type: 'FundsHeld', data: hold },
    expected: ['service dr liabilities:wallet:acc_test 3', 'service cr liabilities:holds:acc_test 3'],
  },
  {
    flow: 'capture',
    event: { type: 'HoldCaptured', data: hold },
    expected: [
      'service cr revenue:scrapes:tiktok 3',
      'service dr liabilities:holds:acc_test 3',
      'reseller cr assets:service-wallet 3',
      'reseller dr expenses:own-use 3',
    ],
  },
  {
    flow: 'release',
    event: { type: 'HoldReleased', data: hold },
    expected: ['service cr liabilities:wallet:acc_test 3', 'service dr liabilities:holds:acc_test 3'],
  },
  {
    flow: 'release that pays a debt',
    event: { type: 'HoldReleased', data: { ...hold, debtChangeMicros: -2 } },
    expected: [
      'service cr liabilities:wallet:acc_test 1',
      'service dr liabilities:holds:acc_test 3',
      'service cr assets:receivable:acc_test 2',
      'reseller cr assets:service-wallet 2',
      'reseller dr liabilities:service-debt 2',
    ],
  },
  {
    flow: 'adjustment, down',
    event: {
      type: 'WalletAdjusted',
      data: {
        reference: 'a',
        reason: 'correction',
        gateway: null,
        amountMicros: -7,
        receivableMicros: 0,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'service cr expenses:adjustments:correction 7',
      'service dr liabilities:wallet:acc_test 7',
      'reseller cr assets:service-wallet 7',
      'reseller dr revenue:adjustments:correction 7',
    ],
  },
  {
    flow: 'chargeback of more than is there',
    event: {
      type: 'WalletAdjusted',
      data: {
        reference: 'a',
        reason: 'chargeback',
        gateway: 'stripe',
        amountMicros: -7,
        receivableMicros: 2,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'service cr assets:gateway:stripe 7',
      'service dr liabilities:wallet:acc_test 5',
      'service dr assets:receivable:acc_test 2',
      'reseller cr assets:service-wallet 5',
      'reseller cr liabilities:service-debt 2',
      'reseller dr equity:funding 7',
    ],
  },
  {
    flow: 'refund at the provider of more than is there',
    event: {
      type: 'WalletAdjusted',
      data: {
        reference: 'a',
        reason: 'deposit_refund',
        gateway: 'stripe',
        amountMicros: -7,
        debtChangeMicros: 2,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'service cr assets:gateway:stripe 7',
      'service dr liabilities:wallet:acc_test 5',
      'service dr assets:receivable:acc_test 2',
      'reseller cr assets:service-wallet 5',
      'reseller cr liabilities:service-debt 2',
      'reseller dr equity:funding 7',
    ],
  },
  {
    flow: 'customer deposit that pays a debt in part',
    event: {
      type: 'CustomerCredited',
      data: {
        customerId: 'cus_1',
        reference: 'pi_1',
        gateway: 'stripe',
        depositId: 'dep_1',
        amountMicros: 10,
        receivableMicros: 3,
        creditAfterMicros: 7,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'reseller dr assets:gateway:stripe 10',
      'reseller cr liabilities:customer:cus_1 7',
      'reseller cr assets:receivable:customer:cus_1 3',
    ],
  },
  {
    flow: 'customer order',
    event: {
      type: 'CustomerCharged',
      data: {
        customerId: 'cus_1',
        order: orderOf({ amountCents: 2, costCents: 1, family: 'ipv4' }),
        amountMicros: 20_000,
        costMicros: 10_000,
        creditAfterMicros: 0,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'service cr revenue:orders:ipv4 10000',
      'service dr liabilities:wallet:acc_test 10000',
      'reseller cr revenue:sales 20000',
      'reseller dr liabilities:customer:cus_1 20000',
      'reseller cr assets:service-wallet 10000',
      'reseller dr expenses:cost-of-sales 10000',
    ],
  },
  {
    flow: 'customer refund that pays debts on both sides in part',
    event: {
      type: 'CustomerRefunded',
      data: {
        customerId: 'cus_1',
        reference: 'ref_1',
        orderId: 'ord_1',
        family: 'ipv4',
        amountMicros: 20,
        receivableMicros: 5,
        costMicros: 10,
        walletReceivableMicros: 4,
        creditAfterMicros: 15,
        availableAfterMicros: 6,
      },
    },
    expected: [
      'service dr revenue:orders:ipv4 10',
      'service cr liabilities:wallet:acc_test 6',
      'service cr assets:receivable:acc_test 4',
      'reseller dr revenue:sales 20',
      'reseller cr liabilities:customer:cus_1 15',
      'reseller cr assets:receivable:customer:cus_1 5',
      'reseller dr assets:service-wallet 6',
      'reseller dr liabilities:service-debt 4',
      'reseller cr expenses:cost-of-sales 10',
    ],
  },
  {
    flow: 'customer chargeback of more than is there',
    event: {
      type: 'CustomerAdjusted',
      data: {
        customerId: 'cus_1',
        reference: 'cb_1',
        reason: 'chargeback',
        gateway: 'stripe',
        amountMicros: -7,
        receivableMicros: 2,
        creditAfterMicros: 0,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'reseller cr assets:gateway:stripe 7',
      'reseller dr liabilities:customer:cus_1 5',
      'reseller dr assets:receivable:customer:cus_1 2',
    ],
  },
  {
    flow: 'customer refund at the provider that failed, which pays the debt first',
    event: {
      type: 'CustomerAdjusted',
      data: {
        customerId: 'cus_1',
        reference: 're_1 failed',
        reason: 'deposit_refund',
        gateway: 'stripe',
        amountMicros: 7,
        debtChangeMicros: -2,
        creditAfterMicros: 5,
        availableAfterMicros: 0,
      },
    },
    expected: [
      'reseller dr assets:gateway:stripe 7',
      'reseller cr liabilities:customer:cus_1 5',
      'reseller cr assets:receivable:customer:cus_1 2',
    ],
  },
  {
    flow: 'customer paid outside of any gateway',
    event: {
      type: 'CustomerAdjusted',
      data: {
        customerId: 'cus_1',
        reference: 'cash',
        reason: 'payment',
        gateway: null,
        amountMicros: 7,
        receivableMicros: 0,
        creditAfterMicros: 7,
        availableAfterMicros: 0,
      },
    },
    expected: ['reseller dr assets:gateway:manual 7', 'reseller cr liabilities:customer:cus_1 7'],
  },
]

for (const { flow, event, expected } of flows)
  test(`${flow}: the entry equals the table's`, () => assert.deepEqual(legs(event), expected))

test('a deposit without a gateway cannot be booked', () => {
  const event: LedgerEvent = {
    type: 'WalletCredited',
    data: { ...refund, source: 'deposit', amountMicros: 10, receivableMicros: 0, availableAfterMicros: 10 },
  }
  assert.throws(() => legs(event), /without its gateway/)
})
