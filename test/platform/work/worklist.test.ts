import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { createPages, worklist, worklistRound, workOnEach } from '../../../src/platform/work/worklist.ts'
import { testDatabase } from '../../support/postgres.ts'

/** Processes 1, 2, 3, 4, of which some fail; returns the processed ones, and the final error. */
const workOn = async (failing: Readonly<Record<number, Error>>) => {
  const tried: number[] = []
  const thrown: unknown = await workOnEach([1, 2, 3, 4], async (item) => {
    tried.push(item)
    if (failing[item]) throw failing[item]
  }).then(
    () => null,
    (error: unknown) => error,
  )
  return { tried, thrown }
}

test('a failure in a round of a reactor is reported after all other items had their turn', async () => {
  assert.deepEqual(await workOn({}), { tried: [1, 2, 3, 4], thrown: null })
  const [one, two] = [new Error('one'), new Error('two')]
  assert.deepEqual(await workOn({ 2: one }), { tried: [1, 2, 3, 4], thrown: one })
  const { tried, thrown } = await workOn({ 1: one, 4: two })
  assert.deepEqual(tried, [1, 2, 3, 4])
  assert.ok(thrown instanceof AggregateError)
  assert.deepEqual(thrown.errors, [one, two])
})

test('an unavailable log ends the round, because other items would only wait for it', async () => {
  const overload = new CommandOverload('the log cannot be reached', 1)
  assert.deepEqual(await workOn({ 2: overload }), { tried: [1, 2], thrown: overload })
})

type Thing = { readonly thing_id: string; readonly due_at: string }

/** So many things, two of which are due at each instant. */
const openThings = async (t: TestContext, count: number) => {
  const { pool } = await testDatabase(t)
  await pool.query(`create table read.things (thing_id text primary key, due_at timestamptz not null);
    insert into read.things
    select 't' || n, '2026-11-21T12:00:00Z'::timestamptz + (n / 2) * interval '1 second' from generate_series(1, ${count}) n`)
  return {
    pool,
    list: {
      name: 'things',
      read: 'select thing_id, due_at from read.things where due_at <= $1::timestamptz',
      values: () => ['2026-11-21T13:00:00Z'],
      key: { due_at: 'timestamptz', thing_id: 'text' },
      limit: 2,
    },
  } as const
}

const ids = (rows: readonly Thing[]): readonly string[] => rows.map(({ thing_id: id }) => id)

test('each row of a list has its turn, however many rows before it remain', async (t) => {
  const { pool, list } = await openThings(t, 5)
  const next = createPages<Thing>(pool, list)
  const rounds = [await next(), await next(), await next(), await next()].map(ids)
  assert.deepEqual(rounds, [['t1', 't2'], ['t3', 't4'], ['t5'], ['t1', 't2']])
})

test('a list that has become shorter is read from its start', async (t) => {
  const { pool, list } = await openThings(t, 4)
  const next = createPages<Thing>(pool, list)
  await next()
  await pool.query("delete from read.things where thing_id <> 't1'")
  assert.deepEqual([await next(), await next()].map(ids), [[], ['t1']])
})

test('a worklist processes its rows concurrently, prepares only if there are rows, and continues after a failure', async (t) => {
  const { pool, list } = await openThings(t, 3)
  const worked: string[] = []
  let prepared = 0
  let open = 0
  let most = 0
  const things = worklist<Thing>({
    ...list,
    limit: 10,
    atOnce: 2,
    before: async () => {
      prepared += 1
    },
    work: async ({ thing_id: id }) => {
      open += 1
      most = Math.max(most, open)
      await pool.query('select pg_sleep(0.01)')
      open -= 1
      worked.push(id)
      if (id === 't1') throw new Error('t1 cannot be decided')
    },
  })
  const round = worklistRound(pool, [things])
  await assert.rejects(round(), /t1 cannot be decided/)
  assert.deepEqual([...worked].sort(), ['t1', 't2', 't3'])
  assert.deepEqual([most, prepared], [2, 1])
  await pool.query('delete from read.things')
  await round()
  assert.equal(prepared, 1)
})
