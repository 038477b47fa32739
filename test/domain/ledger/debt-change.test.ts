import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventDictionary } from '../../../src/audit/event-dictionary-page.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { postingsOf } from '../../../src/domain/ledger/postings.ts'
import { legsOf } from '../../features/exports/dictionary-reader.ts'
import fc from '../../support/fast-check.ts'
import { account, play, steps } from './support.ts'

const dictionary = JSON.parse(JSON.stringify(eventDictionary()))

/** The event as versions before 0.2.0 wrote it. */
const asBefore = (event: LedgerEvent): LedgerEvent => {
  const { debtChangeMicros, walletDebtChangeMicros, ...data } = event.data as {
    debtChangeMicros?: number
    walletDebtChangeMicros?: number
  }
  if (debtChangeMicros === undefined || event.type === 'HoldReleased') return event
  const receivableMicros = event.type.endsWith('Adjusted') ? debtChangeMicros : 0 - debtChangeMicros
  const wallet =
    walletDebtChangeMicros === undefined ? {} : { walletReceivableMicros: 0 - walletDebtChangeMicros }
  return { ...event, data: { ...data, receivableMicros, ...wallet } } as unknown as LedgerEvent
}

test('invariant: old and new events, in any mix, fold to the same wallet and the same books', () => {
  const changes = new Set<string>()
  fc.assert(
    fc.property(steps, fc.infiniteStream(fc.boolean()), (list, choices) => {
      const played = play(list)
      const events = played.flatMap((each) => each.events.map((event) => ({ event, atMs: each.nowMs })))
      let state = ledgerFold.initial
      for (const [revision, { event, atMs }] of events.entries()) {
        const mixed = choices.next().value ? asBefore(event) : event
        if ('debtChangeMicros' in event.data)
          changes.add(`${event.type} ${Math.sign(event.data.debtChangeMicros ?? 0)}`)
        state = ledgerFold.evolve(state, { ...mixed, revision, recordedAtMs: atMs })
        const books = postingsOf(event, { accountId: account, reseller: true })
        assert.deepEqual(postingsOf(mixed, { accountId: account, reseller: true }), books)
        const { type, data: facts } = mixed
        const legs = legsOf(dictionary, { type, facts, owner: account, reseller: true })
        assert.deepEqual(
          legs.map((leg) => `${leg.book} ${leg.account} ${leg.debitMicros}`).sort(),
          books.map((leg) => `${leg.book} ${leg.account} ${leg.debitMicros - leg.creditMicros}`).sort(),
        )
      }
      const { availableMicros, heldMicros, receivableMicros, customers } = played.at(-1)?.after ?? state
      assert.deepEqual(
        [state.availableMicros, state.heldMicros, state.receivableMicros, [...state.customers]],
        [availableMicros, heldMicros, receivableMicros, [...customers]],
      )
    }),
    { numRuns: 60, seed: 20_261_126 },
  )
  for (const change of [
    ...['WalletCredited -1', 'WalletAdjusted 1', 'HoldReleased -1'],
    ...['CustomerCredited -1', 'CustomerAdjusted 1'],
  ])
    assert.ok(changes.has(change), `no ${change} among ${[...changes].join(', ')}`)
})

test("in today's events a paid debt is negative", () => {
  fc.assert(
    fc.property(steps, (list) => {
      for (const { before, events, after } of play(list))
        for (const { type, data } of events) {
          assert.ok(!('receivableMicros' in data) && !('walletReceivableMicros' in data), type)
          if (type !== 'WalletCredited' && type !== 'WalletAdjusted' && type !== 'HoldReleased') continue
          assert.equal(data.debtChangeMicros ?? 0, after.receivableMicros - before.receivableMicros)
        }
    }),
    { numRuns: 40 },
  )
})

test('an event with both or neither change of a debt is not booked', () => {
  const of = (change: object): LedgerEvent => ({
    type: 'WalletCredited',
    data: {
      ...{
        source: 'manual',
        reference: 'r',
        gateway: 'manual',
        depositId: null,
        orderId: null,
        family: null,
      },
      ...{ amountMicros: 5, availableAfterMicros: 5, ...change },
    },
  })
  const book = (change: object) => () => postingsOf(of(change), { accountId: account, reseller: false })
  assert.throws(book({}), /has no debtChangeMicros/)
  assert.throws(book({ debtChangeMicros: 0, receivableMicros: 0 }), /both an old and a new debtChangeMicros/)
})
