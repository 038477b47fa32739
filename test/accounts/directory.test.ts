import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { createDirectory, type DirectoryOptions } from '../../src/accounts/directory.ts'
import { generateKey, hashKey } from '../../src/accounts/key.ts'
import { storeKey } from '../../src/accounts/vault.ts'
import type { KeyId } from '../../src/ids.ts'
import { until } from '../support/until.ts'
import { buyer, cause, projectedWorld } from './world.ts'

/** A directory whose queries are counted and whose clock stands still until it is moved. */
const counted = (world: Pick<DirectoryOptions, 'pool' | 'log' | 'reached'>) => {
  const state = { queries: 0, nowMs: 1_000 }
  const pool = new Proxy(world.pool, {
    get(target, name, receiver) {
      const value = Reflect.get(target, name, receiver)
      if (name !== 'query') return value
      return (...args: Parameters<pg.Pool['query']>) => {
        state.queries += 1
        return value.apply(target, args)
      }
    },
  })
  const directory = createDirectory({ ...world, pool, monotonicMs: () => state.nowMs })
  return { directory, state }
}

test('a key tells its account, scopes, cap and address', async (t) => {
  const world = await projectedWorld(t)
  const { accountId, keyId, key } = await buyer(world, {
    email: 'ann@example.com',
    dailyCapCents: 500,
    reseller: true,
  })
  assert.deepEqual(await createDirectory(world).byKey(key), {
    accountId,
    keyId,
    scopes: ['buy'],
    dailyCapCents: 500,
    reseller: true,
    blocked: false,
    email: 'ann@example.com',
  })
})

test('a key works at once after it was issued, though the read models lag', async (t) => {
  const world = await projectedWorld(t)
  const { directory } = counted(world)
  await world.projections.pause()
  const { key } = await buyer(world)
  const asked = directory.byKey(key)
  world.projections.resume()
  assert.notEqual(await asked, null)
})

test('while the read models cannot catch up, a valid key is asked to come back and never told that it is unknown', async (t) => {
  const world = await projectedWorld(t)
  const { directory } = counted({ ...world, reached: async () => false })
  await world.projections.pause()
  const { key } = await buyer(world)
  await assert.rejects(directory.byKey(key), { name: 'ReadsBehind' })
})

test('a key with a typo and any other text cost no query', async (t) => {
  const world = await projectedWorld(t)
  const { directory, state } = counted(world)
  const key = generateKey()
  for (const text of ['', 'x', `${key}x`, key.slice(0, -1) + (key.endsWith('0') ? '1' : '0'), 'fbx_'])
    assert.equal(await directory.byKey(text), null)
  assert.equal(state.queries, 0)
})

test('a busy key costs one query in half a second, and requests that come at once share it', async (t) => {
  const world = await projectedWorld(t)
  const { key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  const { directory, state } = counted(world)
  await Promise.all(Array.from({ length: 50 }, () => directory.byKey(key)))
  assert.equal(state.queries, 1)
  state.nowMs += 249
  await directory.byKey(key)
  assert.equal(state.queries, 1)
  state.nowMs += 100
  await Promise.all(Array.from({ length: 50 }, () => directory.byKey(key)))
  await until(() => state.queries > 1, { what: 'a second query' })
  assert.equal(state.queries, 2)
})

test('many busy keys share the query that looks them up again', async (t) => {
  const world = await projectedWorld(t)
  const keys: string[] = []
  for (let n = 0; n < 20; n++) keys.push((await buyer(world, { email: `busy-${n}@example.com` })).key)
  await until(() => world.projections.caughtUp())
  const { directory, state } = counted(world)
  const callers = await Promise.all(keys.map((key) => directory.byKey(key)))
  assert.equal(new Set(callers.map((caller) => caller?.accountId)).size, keys.length)
  const { queries } = state
  state.nowMs += 300
  for (const key of keys) await directory.byKey(key)
  await until(() => state.queries > queries, { what: 'another query' })
  assert.equal(state.queries, queries + 1)
})

test('a revoked key and a block act at the latest half a second after the read models know them', async (t) => {
  const world = await projectedWorld(t)
  const { accountId, keyId, key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  const { directory, state } = counted(world)
  assert.equal((await directory.byKey(key))!.blocked, false)
  await world.elsewhere.accounts.block(accountId, 'fraud', cause)
  await until(() => world.projections.caughtUp())
  state.nowMs += 500
  assert.equal((await directory.byKey(key))!.blocked, true)
  await world.elsewhere.accounts.revokeKey(keyId, cause)
  await until(() => world.projections.caughtUp())
  state.nowMs += 500
  assert.equal(await directory.byKey(key), null)
})

// That it acts within half a second of the read models' knowing it is shown above, on a clock that stands still.
test('on the real clock a revocation in another process acts by itself', async (t) => {
  const world = await projectedWorld(t)
  const { keyId, key } = await buyer(world)
  const directory = createDirectory(world)
  assert.notEqual(await directory.byKey(key), null)
  await world.elsewhere.accounts.revokeKey(keyId, cause)
  await until(async () => (await directory.byKey(key)) === null)
})

test('a hash whose KeyIssued never came is no key', async (t) => {
  const world = await projectedWorld(t)
  const { accountId } = await buyer(world)
  const key = generateKey()
  await storeKey(world.pool, { hash: hashKey(key), keyId: 'key_orphan' as KeyId, accountId })
  assert.equal(await createDirectory(world).byKey(key), null)
})

test('an unknown key is asked for again after a tenth of a second, and not before', async (t) => {
  const world = await projectedWorld(t)
  const { directory, state } = counted(world)
  const key = generateKey()
  assert.equal(await directory.byKey(key), null)
  const { queries } = state
  state.nowMs += 99
  assert.equal(await directory.byKey(key), null)
  assert.equal(state.queries, queries)
  state.nowMs += 1
  assert.equal(await directory.byKey(key), null)
  assert.ok(state.queries > queries)
})

test('a failed look-up is told to who asked, and the next one asks again', async (t) => {
  const world = await projectedWorld(t)
  const { key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  let broken = true
  const pool = new Proxy(world.pool, {
    get: (target, name, receiver) =>
      name === 'query' && broken
        ? () => Promise.reject(new Error('no connection'))
        : Reflect.get(target, name, receiver),
  })
  const directory = createDirectory({ ...world, pool })
  await assert.rejects(directory.byKey(key), /no connection/)
  broken = false
  assert.notEqual(await directory.byKey(key), null)
})
