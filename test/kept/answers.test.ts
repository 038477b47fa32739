import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { createKeptAnswers } from '../../projections/engine/answers/answers.ts'
import { createKeptStore } from '../../projections/engine/answers/store.ts'
import { createChangeCounter, subjectsOf } from '../../projections/engine/changes.ts'
import { createProgress } from '../../projections/engine/progress.ts'
import type { Table } from '../../projections/engine/read-model.ts'
import type { AccountId, CustomerId } from '../../src/kernel/ids.ts'
import { wholeAccount } from '../../src/terms/holder.ts'
import fc from '../support/fast-check.ts'

const ann = 'acc_ann' as AccountId
const ben = 'acc_ben' as AccountId

type Row = { readonly id: string; readonly account_id: string }
const orders = {
  name: 'orders',
  columns: { id: { type: 'text' }, account_id: { type: 'text' } },
  key: ['id'],
  indexes: [],
} satisfies Table<Row> as Table
const notices = {
  name: 'notices',
  columns: { id: { type: 'text' } },
  key: ['id'],
  indexes: [],
} satisfies Table<{ readonly id: string }> as Table

const none = { inserted: [], put: [], removed: [] }
const written = (account: string) =>
  subjectsOf([{ ...none, table: orders, put: [{ id: '1', account_id: account }] }])

/** Answers over a group that this process folds, and a counter of readings. */
const world = () => {
  const progress = createProgress({ pool: new pg.Pool(), groups: ['hot'] })
  progress.setUsable('hot', true)
  progress.setOwned('hot', true)
  const here = { nowMs: 1_000, touches: 0, readings: 0, progress }
  const kept = createKeptAnswers({
    store: createKeptStore({ clock: () => here.nowMs }),
    reads: { settled: async () => undefined, settledHere: async () => undefined },
    versionOf: (subjects) => progress.versionOf('hot', subjects),
    touchesOf: async () => here.touches,
  })
  const ask = async (asked: Partial<Parameters<typeof kept.answer>[0]> = {}, made = {}): Promise<number> => {
    const { bytes } = await kept.answer(
      { scope: wholeAccount(ann), as: 'orders', after: null, ...asked },
      async () => {
        here.readings += 1
        return { body: here.readings, ...made }
      },
    )
    return JSON.parse(bytes.toString())
  }
  return { here, kept, ask }
}

test('an answer is kept until a row of its account is written', async () => {
  const { here, ask } = world()
  assert.deepEqual([await ask(), await ask()], [1, 1])
  here.progress.changed('hot', written(ben))
  assert.equal(await ask(), 1, "another account's rows")
  here.progress.changed('hot', written(ann))
  assert.deepEqual([await ask(), await ask()], [2, 2])
})

test('each account, customer and question has its own answer', async () => {
  const { ask } = world()
  const ofCustomer = { scope: { accountId: ann, customerId: 'cus_1' as CustomerId } }
  for (const _ of ['first', 'again']) {
    const own = [await ask(), await ask({ scope: wholeAccount(ben) }), await ask({ as: 'order 1' })]
    assert.deepEqual([...own, await ask(ofCustomer)], [1, 2, 3, 4])
  }
})

test('what was read while a batch was on its way is not kept past it', async () => {
  const { here, ask } = world()
  here.progress.changed('hot', written(ann)) // about to be written
  assert.equal(await ask(), 1)
  here.progress.changed('hot', written(ann)) // written
  assert.equal(await ask(), 2)
})

test('a removed row, whose account is not at hand, changes every answer', async () => {
  const { here, ask } = world()
  assert.equal(await ask(), 1)
  here.progress.changed('hot', subjectsOf([{ ...none, table: orders, removed: [['1']] }]))
  assert.equal(await ask(), 2)
})

test('a table of no account changes the answers that are made of it', async () => {
  const { here, ask } = world()
  const feed = { as: 'announcements', tables: ['notices'] }
  assert.deepEqual([await ask(), await ask(feed)], [1, 2])
  here.progress.changed('hot', subjectsOf([{ ...none, table: notices, inserted: [{ id: 'ntc_1' }] }]))
  assert.deepEqual([await ask(), await ask(feed)], [1, 3])
})

test('a change outside the log shows in the answers that look there', async () => {
  const { here, ask } = world()
  assert.deepEqual([await ask(), await ask({ as: 'plans', outside: true })], [1, 2])
  here.touches = 1
  assert.deepEqual([await ask(), await ask({ as: 'plans', outside: true })], [1, 3])
})

test('the clock ends an answer at its instant, and so does a clock that went back', async () => {
  const { here, ask } = world()
  const made = { untilMs: 2_000 }
  assert.deepEqual([await ask({}, made), await ask({}, made)], [1, 1])
  here.nowMs = 1_999
  assert.equal(await ask({}, made), 1)
  here.nowMs = 2_000
  assert.equal(await ask({}, made), 2)
  here.nowMs = 500
  assert.equal(await ask({}, made), 3)
})

test('another catalogue is another answer', async () => {
  const { ask } = world()
  const [old, fresh] = [{}, {}]
  assert.deepEqual(
    [await ask({ with: old }), await ask({ with: old }), await ask({ with: fresh })],
    [1, 1, 2],
  )
})

test('a fleeting answer is never kept', async () => {
  const { ask } = world()
  assert.deepEqual([await ask({}, { fleeting: true }), await ask({}, { fleeting: true })], [1, 2])
})

test('where another process folds, or moved the checkpoint, nothing old is sent', async () => {
  const { here, ask } = world()
  assert.equal(await ask(), 1)
  here.progress.advanceOwn('hot', 5)
  assert.equal(await ask(), 1)
  here.progress.advance('hot', { position: 6, epoch: 0 }) // this process did not write it
  assert.equal(await ask(), 2)
  here.progress.setOwned('hot', false)
  assert.deepEqual([await ask(), await ask()], [3, 4])
  here.progress.setOwned('hot', true)
  assert.deepEqual([await ask(), await ask()], [5, 5])
})

test('requests at once share one reading, and one that fails fails for them alone', async () => {
  const { here, kept, ask } = world()
  assert.deepEqual(await Promise.all([ask(), ask(), ask()]), [1, 1, 1])
  here.progress.changed('hot', written(ann))
  const failing = () =>
    kept.answer({ scope: wholeAccount(ann), as: 'orders', after: null }, async () => {
      throw new Error('no database')
    })
  await assert.rejects(failing(), /no database/)
  assert.equal(await ask(), 2)
})

test('law: a version never stands still over a change of its subject, however few subjects are remembered', () => {
  const subject = fc.constantFrom('a', 'b', 'c', 'd')
  fc.assert(
    fc.property(fc.array(subject, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (changes, max) => {
      const counter = createChangeCounter(max)
      for (const account of changes) {
        const before = counter.version(account)
        counter.changed(written(account))
        assert.ok(counter.version(account) > before)
      }
    }),
  )
})
