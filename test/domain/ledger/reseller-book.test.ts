import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { type Posting, postingsOf } from '../../../src/domain/ledger/postings.ts'
import fc from '../../support/fast-check.ts'
import { account, play, type Step, steps, type WalletCommand } from './support.ts'

const dollar = 1_000_000

/** Debit balances by account, micro-dollars: of the service's book, and of the reseller's own. */
const balancesOf = (events: readonly LedgerEvent[]) => {
  const balances = { service: new Map<string, bigint>(), reseller: new Map<string, bigint>() }
  const add = ({ book, account: name, debitMicros, creditMicros }: Posting): void => {
    const of = balances[book === 'service' ? 'service' : 'reseller']
    of.set(name, (of.get(name) ?? 0n) + BigInt(debitMicros) - BigInt(creditMicros))
  }
  for (const event of events) postingsOf(event, { accountId: account, reseller: true }).forEach(add)
  return balances
}

const eventsOf = (commands: readonly WalletCommand[]): LedgerEvent[] =>
  play(commands.map((command): Step => ({ afterMs: 1000, command }))).flatMap(({ events }) => events)

/** Whole dollars by account, those at zero left out. */
const dollars = (balances: ReadonlyMap<string, bigint>): Record<string, number> =>
  Object.fromEntries(
    [...balances]
      .filter(([, micros]) => micros !== 0n)
      .map(([name, micros]) => [name.replace(`:${account}`, ''), Number(micros) / dollar]),
  )

const deposit = (reference: string, amount: number): WalletCommand => ({
  kind: 'credit',
  source: 'deposit',
  reference,
  amountMicros: amount * dollar,
})
const adjust = (reason: 'correction' | 'goodwill' | 'chargeback', amount: number): WalletCommand => ({
  kind: 'adjust',
  reference: `${reason} ${amount}`,
  reason,
  amountMicros: amount * dollar,
})
const chargedBack: readonly WalletCommand[] = [
  deposit('first', 100),
  { kind: 'debit', orderId: 'ord_1', keyId: null, amountCents: 8_000, capCents: null },
  adjust('chargeback', -100),
]

const examples: readonly {
  readonly what: string
  readonly commands: readonly WalletCommand[]
  readonly service: Record<string, number>
  readonly reseller: Record<string, number>
}[] = [
  {
    what: 'a chargeback of 100 with 20 left: 80 are owed, and no money of the owner is in',
    commands: chargedBack,
    service: { 'assets:receivable': 80, 'revenue:orders:residential': -80 },
    reseller: { 'liabilities:service-debt': -80, 'expenses:own-use': 80 },
  },
  {
    what: 'a later deposit of 100 pays 80 and leaves 20; all of it is funding',
    commands: [...chargedBack, deposit('second', 100)],
    service: {
      'assets:gateway:stripe': 100,
      'liabilities:wallet': -20,
      'revenue:orders:residential': -80,
    },
    reseller: { 'assets:service-wallet': 20, 'expenses:own-use': 80, 'equity:funding': -100 },
  },
  {
    what: 'a refund of 30 pays the debt and lowers the cost; it is no funding',
    commands: [
      ...chargedBack,
      { kind: 'credit', source: 'refund', reference: 'r', amountMicros: 30 * dollar },
    ],
    service: { 'assets:receivable': 50, 'revenue:orders:residential': -80, 'revenue:orders:isp': 30 },
    reseller: { 'liabilities:service-debt': -50, 'expenses:own-use': 50 },
  },
  {
    what: 'a debt that is written off is a gift of the service; it is no funding',
    commands: [...chargedBack, adjust('goodwill', 80)],
    service: { 'expenses:adjustments:goodwill': 80, 'revenue:orders:residential': -80 },
    reseller: { 'revenue:adjustments:goodwill': -80, 'expenses:own-use': 80 },
  },
  {
    what: "a customer's refund pays the reseller's debt at the service by its cost",
    commands: [
      deposit('first', 10),
      { kind: 'customer-credit', customerId: 'cus_1', reference: 'pi', amountMicros: 30 * dollar },
      {
        kind: 'customer-charge',
        customerId: 'cus_1',
        orderId: 'ord_2',
        keyId: 'key_1',
        amountCents: 2_000,
        costCents: 1_000,
        capCents: null,
      },
      adjust('chargeback', -10),
      {
        kind: 'customer-refund',
        customerId: 'cus_1',
        reference: 'ref_2',
        amountMicros: 8 * dollar,
        costMicros: 4 * dollar,
      },
    ],
    service: { 'assets:receivable': 6, 'revenue:orders:residential': -10, 'revenue:orders:isp': 4 },
    reseller: {
      'assets:gateway:btcpay': 30,
      'liabilities:customer:cus_1': -18,
      'liabilities:service-debt': -6,
      'revenue:sales': -12,
      'expenses:cost-of-sales': 6,
    },
  },
]

for (const { what, commands, service, reseller } of examples)
  test(`books of a reseller: ${what}`, () => {
    const balances = balancesOf(eventsOf(commands))
    assert.deepEqual(dollars(balances.service), service)
    assert.deepEqual(dollars(balances.reseller), reseller)
  })

test("invariant: after every event a reseller's book mirrors the service's book", () => {
  fc.assert(
    fc.property(steps, (list) => {
      const totals = { service: new Map<string, bigint>(), reseller: new Map<string, bigint>() }
      const under = (of: ReadonlyMap<string, bigint>, prefix: string): bigint =>
        [...of].reduce((sum, [name, micros]) => (name.startsWith(prefix) ? sum + micros : sum), 0n)
      for (const event of play(list).flatMap((played) => played.events)) {
        const one = balancesOf([event])
        for (const book of ['service', 'reseller'] as const)
          for (const [name, micros] of one[book])
            totals[book].set(name, (totals[book].get(name) ?? 0n) + micros)
        const { service, reseller } = totals
        for (const book of [service, reseller]) assert.equal(under(book, ''), 0n)
        const mirrored = [
          ['assets:receivable:', 'liabilities:service-debt'],
          ['assets:gateway:', 'equity:funding'],
          ['expenses:adjustments:goodwill', 'revenue:adjustments:goodwill'],
          ['expenses:adjustments:correction', 'revenue:adjustments:correction'],
        ] as const
        for (const [there, here] of mirrored)
          assert.equal(under(service, there), -under(reseller, here), `${there} and ${here}`)
      }
    }),
    { numRuns: 40 },
  )
})
