import assert from 'node:assert/strict'
import { test } from 'node:test'
import { countedPage, createKysely } from '../../../src/platform/postgres/kysely.ts'
import { testDatabase } from '../../support/postgres.ts'

type Database = { fruits: { name: string; basket: string }; counts: { basket: string; known: number } }

test('a page has the total with its rows, before the first row, within and after the last', async (t) => {
  const { pool } = await testDatabase(t)
  await pool.query(`create table public.fruits (name text, basket text); create table public.counts (basket text, known bigint);
    insert into public.fruits values ('apple', 'a'), ('banana', 'a'), ('cherry', 'a'), ('date', 'b');
    insert into public.counts values ('a', 3)`)
  const db = createKysely<Database>(pool)
  const page = (basket: string, limit: number, offset: number) => {
    const fitting = db.withSchema('public').selectFrom('fruits').select('name').where('basket', '=', basket)
    const [counted, known] = [
      fitting.clearSelect().select((is) => is.fn.countAll<number>().as('total')),
      db.withSchema('public').selectFrom('counts').select('known as total').where('basket', '=', basket),
    ]
    return Promise.all(
      [counted, known].map((counting) => countedPage(fitting.orderBy('name'), counting, { limit, offset })),
    )
  }
  const seen = async (...args: Parameters<typeof page>) =>
    (await page(...args)).map(({ rows, total }) => [rows.map(({ name }) => name).join(), total])
  assert.deepEqual(await seen('a', 2, 0), [
    ['apple,banana', 3],
    ['apple,banana', 3],
  ])
  assert.deepEqual(await seen('a', 2, 2), [
    ['cherry', 3],
    ['cherry', 3],
  ])
  assert.deepEqual(await seen('a', 2, 9), [
    ['', 3],
    ['', 3],
  ])
  assert.deepEqual(await seen('c', 2, 0), [
    ['', 0],
    ['', 0],
  ])
  // Without a total there are none.
  assert.deepEqual(await seen('b', 2, 0), [
    ['date', 1],
    ['date', 0],
  ])
})
