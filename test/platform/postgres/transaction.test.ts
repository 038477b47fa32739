import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inTransaction } from '../../../src/platform/postgres/transaction.ts'
import { testDatabase } from '../../support/postgres.ts'

test('a transaction lands completely or not at all, and its connection is returned', async (t) => {
  const { pool } = await testDatabase(t)
  await pool.query('create table public.notes (text text primary key)')
  const write = (texts: readonly string[]) =>
    inTransaction(pool, async (client) => {
      for (const text of texts) await client.query('insert into public.notes values ($1::text)', [text])
      return texts.length
    })
  assert.equal(await write(['a', 'b']), 2)
  await assert.rejects(write(['c', 'a']), /duplicate key/)
  const { rows } = await pool.query('select text from public.notes order by text')
  assert.deepEqual(rows, [{ text: 'a' }, { text: 'b' }])
  assert.equal(pool.idleCount, pool.totalCount)
})

test('a connection that breaks in a transaction returns the error of the work, and the pool continues', async (t) => {
  const { pool } = await testDatabase(t)
  const broken = inTransaction(pool, async (client) => {
    client.on('error', () => undefined)
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    await pool.query('select pg_terminate_backend($1::integer)', [rows[0]?.pid])
    await client.query('select 1').catch(() => undefined)
    throw new Error('the work failed')
  })
  await assert.rejects(broken, /the work failed/)
  assert.equal((await pool.query('select 1 as one')).rows[0].one, 1)
})

test('a repeatable read sees one moment', async (t) => {
  const { pool } = await testDatabase(t)
  await pool.query('create table public.notes (text text)')
  const counts = await inTransaction(
    pool,
    async (client) => {
      const count = async () => (await client.query('select from public.notes')).rowCount
      const before = await count()
      await pool.query("insert into public.notes values ('a')")
      return [before, await count()]
    },
    'isolation level repeatable read read only',
  )
  assert.deepEqual(counts, [0, 0])
})
