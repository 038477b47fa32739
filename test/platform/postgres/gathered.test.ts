import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { createBatchLoader } from '../../../src/platform/postgres/batch-loader.ts'

test('requests in one turn, and during a look-up, share one look-up', async () => {
  const calls: (readonly string[])[] = []
  const gates: PromiseWithResolvers<void>[] = []
  const find = createBatchLoader<string, number>(async (keys) => {
    calls.push(keys)
    const gate = Promise.withResolvers<void>()
    gates.push(gate)
    await gate.promise
    return new Map(keys.filter((key) => key !== 'absent').map((key) => [key, key.length]))
  })
  const first = [find('a'), find('bb'), find('a'), find('absent')]
  await new Promise(setImmediate)
  assert.deepEqual(calls, [['a', 'bb', 'absent']])
  // Requested after the first look-up began: its result may be older than the request.
  const second = [find('a'), find('cccc')]
  await new Promise(setImmediate)
  assert.equal(calls.length, 1)
  gates[0]!.resolve()
  assert.deepEqual(await Promise.all(first), [1, 2, 1, undefined])
  await new Promise(setImmediate)
  assert.deepEqual(calls[1], ['a', 'cccc'])
  gates[1]!.resolve()
  assert.deepEqual(await Promise.all(second), [1, 4])
})

test('a failed look-up fails for all its callers, and the next one starts again', async () => {
  let fails = true
  const find = createBatchLoader<string, number>(async (keys) => {
    if (fails) throw new Error('the database is gone')
    return new Map(keys.map((key) => [key, 1]))
  })
  const both = await Promise.allSettled([find('a'), find('b')])
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  fails = false
  assert.equal(await find('a'), 1)
})

test('a look-up in an exchanged table fails at once, not key by key', async () => {
  let calls = 0
  const find = createBatchLoader<number, number>(async () => {
    calls += 1
    throw Object.assign(new pg.DatabaseError('column "n" does not exist', 0, 'error'), { code: '42703' })
  })
  await Promise.allSettled(Array.from({ length: 100 }, (_, n) => find(n)))
  assert.equal(calls, 1)
})

test('one look-up has a bounded number of keys', async () => {
  const sizes: number[] = []
  const find = createBatchLoader<number, number>(async (keys) => {
    sizes.push(keys.length)
    return new Map(keys.map((key) => [key, key]))
  })
  const all = await Promise.all(Array.from({ length: 1200 }, (_, n) => find(n)))
  assert.deepEqual(all, [...Array(1200).keys()])
  assert.deepEqual(sizes, [500, 500, 200])
})
