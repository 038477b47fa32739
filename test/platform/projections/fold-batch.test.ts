import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import {
  foldBatch,
  type LoadRows,
  PoisonEvent,
  startFold,
} from '../../../src/platform/projections/fold-batch.ts'
import type { ReadModel, Table } from '../../../src/platform/projections/read-model.ts'
import { createRowCache } from '../../../src/platform/projections/row-cache.ts'
import fc, { runs } from '../../support/fast-check.ts'

type Thing = { readonly name: string; readonly sum: number }
type Act = { readonly act: 'insert' | 'add' | 'remove'; readonly name: string; readonly look: boolean }

const things: Table<Thing> = {
  name: 'things',
  columns: { name: { type: 'text' }, sum: { type: 'bigint' } },
  key: ['name'],
  indexes: [],
}

const model: ReadModel = {
  name: 'things',
  version: 1,
  tables: [things],
  reads: (event) =>
    (event.data as Act).look ? [{ table: things.name, key: [(event.data as Act).name] }] : [],
  apply: (event, rows) => {
    const { act, name } = event.data as Act
    if (act === 'insert') return rows.insert(things, { name, sum: 1 })
    const sum = rows.get(things, [name])?.sum
    if (sum === undefined) throw new Error(`${name} is not there`)
    return act === 'add' ? rows.put(things, { name, sum: sum + 1 }) : rows.remove(things, [name])
  },
}

const eventOf = (data: Act, position: number): RecordedEvent => ({
  type: 'Acted',
  data,
  id: `00000000-0000-7000-8000-${position.toString().padStart(12, '0')}`,
  stream: 'things-1' as StreamName,
  revision: position - 1,
  position,
  metadata: {
    correlationId: 'c',
    causationId: null,
    actor: { kind: 'system' },
    recordedAt: '2026-11-21T00:00:00.000Z',
  } as RecordedEvent['metadata'],
})

/** Actions that can follow each other: an insert of a missing row, the others of an existing one. */
const sensible = (list: readonly Act[]): Act[] => {
  const there = new Set<string>()
  return list.map(({ act, name, look }) => {
    if (!there.has(name)) {
      there.add(name)
      return { act: 'insert', name, look }
    }
    if (act === 'remove') there.delete(name)
    return { act: act === 'insert' ? 'add' : act, name, look }
  })
}

const acts = fc
  .array(
    fc.record({
      act: fc.constantFrom('insert' as const, 'add' as const, 'remove' as const),
      name: fc.constantFrom('a', 'b', 'c'),
      look: fc.boolean(),
    }),
    { maxLength: 40 },
  )
  .map(sensible)

test('batches of any size, in any pieces, with any cache, give the same table as single events', async () => {
  await fc.assert(
    fc.asyncProperty(
      acts,
      fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 4 }),
      fc.boolean(),
      fc.boolean(),
      async (list, sizes, piece, maxRows, complete, alone) => {
        const stored = new Map<string, Thing>()
        const load: LoadRows = async (_table, keys) =>
          keys.flatMap(([name]) => stored.get(`${name}`) ?? []) as never
        const cache = createRowCache({ maxRows, complete })
        const events = list.map((act, index) => eventOf(act, index + 1))
        for (let done = 0, turn = 0; done < events.length; turn++) {
          const batch = events.slice(done, done + sizes[turn % sizes.length]!)
          done += batch.length
          const fold = startFold({ models: [model], cache, load, ...(alone && { soleWriter: alone }) })
          for (let taken = 0; taken < batch.length; taken += piece)
            await fold.take(batch.slice(taken, taken + piece))
          assert.equal(fold.events, batch.length)
          assert.equal(fold.last, batch.at(-1))
          const { tables, commit } = fold.changes()
          for (const { inserted, put, removed } of tables) {
            for (const row of inserted as readonly Thing[]) {
              assert.ok(!stored.has(row.name), `${row.name} is inserted though it is there`)
              stored.set(row.name, row)
            }
            for (const row of put as readonly Thing[]) stored.set(row.name, row)
            for (const [name] of removed) stored.delete(`${name}`)
          }
          commit()
        }
        const expected = new Map<string, Thing>()
        for (const { act, name } of list)
          if (act === 'remove') expected.delete(name)
          else expected.set(name, { name, sum: (expected.get(name)?.sum ?? 0) + 1 })
        assert.deepEqual(stored, expected)
      },
    ),
    { numRuns: runs(500) },
  )
})

test('a row that is added and removed within a batch is not written at all', async () => {
  const list: Act[] = [
    { act: 'insert', name: 'a', look: false },
    { act: 'remove', name: 'a', look: false },
  ]
  const { tables } = await foldBatch({
    models: [model],
    events: list.map((act, index) => eventOf(act, index + 1)),
    cache: createRowCache({ maxRows: 10, complete: false }),
    load: async () => assert.fail('nothing needs to be loaded'),
  })
  assert.deepEqual(
    tables.flatMap(({ inserted, put, removed }) => [...inserted, ...put, ...removed]),
    [],
  )
})

test('a long batch yields repeatedly while it is folded', async () => {
  const names = Array.from({ length: 200 }, (_, n) => `thing ${n}`)
  let ways = 0
  const fold = startFold({
    models: [model],
    cache: createRowCache({ maxRows: 10, complete: false }),
    load: async () => assert.fail('nothing needs to be loaded'),
  })
  const events = names.map((name, index) => eventOf({ act: 'insert', name, look: false }, index + 1))
  await fold.take(events, async () => {
    ways += 1
  })
  assert.equal(fold.changes().tables[0]?.inserted.length, 200)
  assert.ok(ways >= 4, `it gave way ${ways} times`)
})

test('a row that is inserted twice within a batch is a poison event', async () => {
  const list: Act[] = [
    { act: 'insert', name: 'a', look: false },
    { act: 'insert', name: 'a', look: false },
  ]
  await assert.rejects(
    foldBatch({
      models: [model],
      events: list.map((act, index) => eventOf(act, index + 1)),
      cache: createRowCache({ maxRows: 10, complete: false }),
      load: async () => [],
    }),
    PoisonEvent,
  )
})

test('rows of events before a poison event are stored, and none of that event', async () => {
  const fold = startFold({
    models: [
      model,
      {
        ...model,
        name: 'wary',
        tables: [],
        reads: () => [],
        apply: (event) => {
          if (event.position === 3) throw new Error('not this one')
        },
      },
    ],
    cache: createRowCache({ maxRows: 10, complete: true }),
    load: async () => assert.fail('nothing needs to be loaded'),
  })
  const events = ['a', 'b', 'c', 'd'].map((name, index) =>
    eventOf({ act: 'insert', name, look: false }, index + 1),
  )
  await assert.rejects(fold.take(events), PoisonEvent)
  assert.equal(fold.last, events[1])
  assert.deepEqual(
    fold.changes().tables.map(({ inserted }) => inserted),
    [
      [
        { name: 'a', sum: 1 },
        { name: 'b', sum: 1 },
      ],
    ],
  )
})
