import assert from 'node:assert/strict'
import { test } from 'node:test'
import { writeInt8 } from '../../../src/kernel/digest.ts'
import { type CopyColumn, copyRows, runPipeline, type Step } from '../../../src/platform/postgres/pipeline.ts'
import { openSession } from '../../../src/platform/postgres/postgres-session.ts'
import fc, { anyChar, runs } from '../../support/fast-check.ts'
import { testDatabase } from '../../support/postgres.ts'

type Line = { readonly words: string | null; readonly amount: number | null; readonly json: unknown }

const columns: readonly CopyColumn<Line>[] = [
  { value: ({ words }) => words, format: { kind: 'text', text: (value) => value } },
  { value: ({ amount }) => amount, format: { kind: 'fixed', bytes: 8, write: writeInt8 } },
  {
    value: ({ json }) => json,
    format: { kind: 'bytes', bytes: (value) => Buffer.from(`\x01${JSON.stringify(value)}`) },
  },
]

const copyLines = (lines: readonly Line[]): Step => ({
  statement: {
    name: 'copy-lines',
    text: 'copy public.lines (words, amount, json) from stdin (format binary)',
  },
  copied: copyRows(columns, lines),
})

const run = (name: string, text: string, ...values: (string | null)[]): Step => ({
  statement: { name, text },
  values,
})

const world = async (t: Parameters<typeof testDatabase>[0]) => {
  const { pool } = await testDatabase(t)
  await pool.query(
    'create table public.lines (place serial, words text, amount bigint check (amount <> 13), json jsonb)',
  )
  const { client, close } = await openSession(pool, 'test')
  t.after(close)
  const lines = async (): Promise<readonly Line[]> =>
    (await client.query('select words, amount, json from public.lines order by place')).rows
  return { pool, client, lines }
}

const line = (words: string, amount = 1): Line => ({ words, amount, json: { words } })

test('steps run in order in one transaction, and each has an answer', async (t) => {
  const { client, lines } = await world(t)
  const answers = await runPipeline(client, [
    run('count', 'select count(*), pg_current_xact_id() from public.lines where amount > $1::bigint', '0'),
    copyLines([line('a'), line('b')]),
    run('count', 'select count(*), pg_current_xact_id() from public.lines where amount > $1::bigint', '0'),
    run('', 'select null::text, $1::text', null),
  ])
  const [before, copied, after, last] = answers
  assert.deepEqual([before![0]![0], copied, after![0]![0], last], ['0', [], '2', [[null, null]]])
  assert.equal(before![0]![1], after![0]![1])
  assert.deepEqual(await lines(), [line('a'), line('b')])
})

test('a statement name with a new text has that text from then on', async (t) => {
  const { client } = await world(t)
  const answer = async (text: string): Promise<unknown> => (await runPipeline(client, [run('same', text)]))[0]
  assert.deepEqual(await answer('select 1'), [['1']])
  assert.deepEqual(await answer('select 2'), [['2']])
  assert.deepEqual(await answer('select 2'), [['2']])
})

test('a failed step is reported, no step has an effect, and the connection remains usable', async (t) => {
  const { client, lines } = await world(t)
  const divide = run('divide', 'select 1 / $1::int', '0')
  const cases: readonly (readonly [string, readonly Step[]])[] = [
    ['22012', [divide, copyLines([line('a')])]],
    ['22012', [copyLines([line('a')]), divide]],
    ['23514', [copyLines([line('a')]), copyLines([line('b'), line('c', 13)]), copyLines([line('d')])]],
    ['42P01', [copyLines([line('a')]), run('absent', 'select from absent')]],
    ['22P04', [{ ...copyLines([]), copied: Buffer.from('no rows') } as Step, copyLines([line('a')])]],
  ]
  for (const [code, steps] of cases) {
    await assert.rejects(runPipeline(client, steps), { code })
    assert.deepEqual(await lines(), [])
  }
  await runPipeline(client, [run('divide', 'select 1 / $1::int', '1'), copyLines([line('a')])])
  assert.deepEqual(await lines(), [line('a')])
})

test('a broken connection fails the running steps', async (t) => {
  const { pool, client } = await world(t)
  const [[pid] = []] = (await runPipeline(client, [run('', 'select pg_backend_pid()')]))[0]!
  const sleeping = runPipeline(client, [
    copyLines([line('a')]),
    run('sleep', 'select pg_sleep($1::float8)', '60'),
  ])
  const failing = assert.rejects(sleeping, /terminat/)
  await pool.query('select pg_terminate_backend($1::int)', [pid])
  await failing
  const { rows } = await pool.query('select from public.lines')
  assert.equal(rows.length, 0)
})

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: anyChar }).map((value) => value.replaceAll('\0', '').toWellFormed()),
  fc.constantFrom('', '\\N', '\\.', 'a\tb\n', 'é', '€', '😀'),
)

test('invariant: Postgres copies rows unchanged, for any content', async (t) => {
  const { client, lines } = await world(t)
  const row = fc.record({
    words: fc.option(text),
    amount: fc.option(fc.maxSafeInteger().filter((amount) => amount !== 13)),
    json: fc.option(fc.array(text)),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(row), async (given) => {
      await client.query('truncate public.lines')
      await runPipeline(client, [copyLines(given)])
      assert.deepEqual(
        (await lines()).map((each) => ({ ...each })),
        given.map((each) => ({ ...each })),
      )
    }),
    { numRuns: runs(200) },
  )
})
