import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { apiKeyForm, apiKeyKind } from '../../../src/features/accounts/api-key.ts'
import { createDirectory, type DirectoryOptions } from '../../../src/features/accounts/authenticate.ts'
import { storeKey } from '../../../src/features/accounts/key-store.ts'
import { until } from '../../support/until.ts'
import { buyer, cause, projectedWorld } from './world.ts'

/** Where requests come from, and what most tests are not about. */
const from = '203.0.113.7'
const aside = { clock: Date.now, clockProblem: () => null, onUse: () => undefined }

/** A directory with counted queries and a clock that the test moves. */
const counted = (
  world: Pick<DirectoryOptions, 'pool' | 'log' | 'logger' | 'watch'>,
  over: Partial<DirectoryOptions> = {},
) => {
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
  const directory = createDirectory({ ...aside, ...world, pool, monotonicMs: () => state.nowMs, ...over })
  return { directory, state }
}

test('a key gives its account, scopes, cap and address', async (t) => {
  const world = await projectedWorld(t)
  const { accountId, keyId, key } = await buyer(world, {
    email: 'ann@example.com',
    cap: { cents: 500, covers: 'everything' },
    reseller: true,
  })
  assert.deepEqual(await createDirectory({ ...aside, ...world }).byKey(key, from), {
    accountId,
    keyId,
    capKeyId: keyId,
    scopes: ['buy'],
    cap: { cents: 500, covers: 'everything' },
    reseller: true,
    blocked: false,
    email: 'ann@example.com',
  })
})

test('a key works immediately after it was issued, even if the read models lag', async (t) => {
  const world = await projectedWorld(t)
  const { directory } = counted(world)
  await world.projections.pause()
  const { key } = await buyer(world)
  assert.notEqual(await directory.byKey(key, from), null)
  world.projections.resume()
})

test('a key with a typo and any other text cause no query', async (t) => {
  const world = await projectedWorld(t)
  const { directory, state } = counted(world)
  const key = apiKeyForm.generate()
  for (const text of ['', 'x', `${key}x`, key.slice(0, -1) + (key.endsWith('0') ? '1' : '0'), 'fbx_'])
    assert.equal(await directory.byKey(text, from), null)
  assert.equal(state.queries, 0)
})

test('a frequent key causes no query without a change, and simultaneous requests share one query', async (t) => {
  const world = await projectedWorld(t)
  const { key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  const watch = { ...world.watch, version: () => 1 }
  const { directory, state } = counted({ ...world, watch })
  await Promise.all(Array.from({ length: 50 }, () => directory.byKey(key, from)))
  assert.equal(state.queries, 1)
  state.nowMs += 9_999
  await directory.byKey(key, from)
  assert.equal(state.queries, 1)
  state.nowMs += 1
  await Promise.all(Array.from({ length: 50 }, () => directory.byKey(key, from)))
  assert.equal(state.queries, 2)
})

test('a key is read again after a reported change of accounts or keys', async (t) => {
  const world = await projectedWorld(t)
  const { key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  let version = 1
  const { directory, state } = counted({ ...world, watch: { ...world.watch, version: () => version } })
  await directory.byKey(key, from)
  version = 2
  await directory.byKey(key, from)
  await directory.byKey(key, from)
  assert.equal(state.queries, 2)
})

test('a key is read again after half a second while changes may be missed', async (t) => {
  const world = await projectedWorld(t)
  const { key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  const { directory, state } = counted({ ...world, watch: { ...world.watch, version: () => null } })
  await directory.byKey(key, from)
  state.nowMs += 499
  await directory.byKey(key, from)
  assert.equal(state.queries, 1)
  state.nowMs += 1
  await directory.byKey(key, from)
  assert.equal(state.queries, 2)
})

test('a revoked key and a block take effect when the read models have them', async (t) => {
  const world = await projectedWorld(t)
  const { accountId, keyId, key } = await buyer(world)
  await until(() => world.projections.caughtUp())
  const { directory } = counted(world)
  assert.equal((await directory.byKey(key, from))!.blocked, false)
  await world.elsewhere.accounts.block(accountId, 'fraud', cause)
  await until(() => world.projections.caughtUp())
  assert.equal((await directory.byKey(key, from))!.blocked, true)
  await world.elsewhere.accounts.revokeKey(keyId, cause)
  await until(() => world.projections.caughtUp())
  assert.equal(await directory.byKey(key, from), null)
})

test('on the real clock a revocation in another process takes effect by itself', async (t) => {
  const world = await projectedWorld(t)
  const { keyId, key } = await buyer(world)
  const directory = createDirectory({ ...aside, ...world })
  assert.notEqual(await directory.byKey(key, from), null)
  await world.elsewhere.accounts.revokeKey(keyId, cause)
  await until(async () => (await directory.byKey(key, from)) === null)
})

test('a key that another process rotated ends here after its overlap, and its successor works', async (t) => {
  const world = await projectedWorld(t)
  const { keyId, key } = await buyer(world)
  const directory = createDirectory({ ...aside, ...world })
  assert.notEqual(await directory.byKey(key, from), null)
  const rolled = await world.elsewhere.accounts.rollKey({ keyId, overlapMs: 0 }, cause)
  assert.equal(rolled.outcome, 'done')
  await until(async () => (await directory.byKey(key, from)) === null)
  const next = rolled.outcome === 'done' ? await directory.byKey(rolled.key, from) : null
  assert.equal(next?.capKeyId, keyId)
})

test('a hash without KeyIssued is not a key', async (t) => {
  const world = await projectedWorld(t)
  const { accountId } = await buyer(world)
  const key = apiKeyForm.generate()
  await storeKey(world.pool, apiKeyKind, {
    hash: apiKeyForm.hash(key),
    id: 'key_orphan',
    owner: accountId,
  })
  assert.equal(await createDirectory({ ...aside, ...world }).byKey(key, from), null)
})

test('an unknown key is read again after a tenth of a second, and not before', async (t) => {
  const world = await projectedWorld(t)
  const { directory, state } = counted(world)
  const key = apiKeyForm.generate()
  assert.equal(await directory.byKey(key, from), null)
  const { queries } = state
  state.nowMs += 99
  assert.equal(await directory.byKey(key, from), null)
  assert.equal(state.queries, queries)
  state.nowMs += 1
  assert.equal(await directory.byKey(key, from), null)
  assert.ok(state.queries > queries)
})

test('a failed look-up is reported to its caller, and the next request reads again', async (t) => {
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
  const directory = createDirectory({ ...aside, ...world, pool })
  await assert.rejects(directory.byKey(key, from), /no connection/)
  broken = false
  assert.notEqual(await directory.byKey(key, from), null)
})

test('an expiring key works to its last millisecond and no longer, also if it is cached', async (t) => {
  const world = await projectedWorld(t)
  const expiresAtMs = Date.now() + 3_600_000
  const { key } = await buyer(world, { expiresAtMs })
  await until(() => world.projections.caughtUp())
  let nowMs = expiresAtMs - 1
  const { directory, state } = counted(world, { clock: () => nowMs })
  // While no group of read models advances, an answer stays cached.
  const queries = await until(async () => {
    const before = state.queries
    assert.notEqual(await directory.byKey(key, from), null)
    return state.queries === before && before
  })
  nowMs = expiresAtMs
  assert.equal(await directory.byKey(key, from), null)
  assert.equal(state.queries, queries, 'it was cached')
})

test('while the clock of the process is wrong, no key is reported as expired or valid', async (t) => {
  const world = await projectedWorld(t)
  const { key } = await buyer(world, { expiresAtMs: Date.now() + 3_600_000 })
  await until(() => world.projections.caughtUp())
  const { directory } = counted(world, { clockProblem: () => 'the clock is behind the log' })
  await assert.rejects(directory.byKey(key, from), { code: 'overloaded' })
})

test('a key with networks works only from those, and only accepted requests count as use', async (t) => {
  const world = await projectedWorld(t)
  const networks = ['203.0.113.0/24', '2001:db8::/32', '198.51.100.9']
  const { key, keyId } = await buyer(world, { networks })
  await until(() => world.projections.caughtUp())
  const uses: string[] = []
  const { directory } = counted(world, { onUse: (used) => uses.push(used) })
  for (const address of ['203.0.113.255', '2001:db8:ffff::1', '198.51.100.9'])
    assert.equal((await directory.byKey(key, address))?.keyId, keyId, address)
  for (const address of ['203.0.114.0', '2001:db9::1', '198.51.100.8', '::1', ''])
    assert.equal(await directory.byKey(key, address), null, address)
  assert.deepEqual(uses, [keyId, keyId, keyId])
})

test('the rights of a key are read from the log: edited or missing read tables change nothing', async (t) => {
  const world = await projectedWorld(t)
  const { key, accountId } = await buyer(world)
  await until(() => world.projections.caughtUp())
  await world.pool.query(
    `update read.keys set scopes = '{buy,scrape}', networks = null, daily_cap_cents = null`,
  )
  await world.pool.query('update read.accounts set blocked = false, reseller = true')
  const { directory } = counted(world)
  const caller = await directory.byKey(key, from)
  assert.deepEqual([caller?.accountId, caller?.scopes, caller?.reseller], [accountId, ['buy'], false])
  await world.pool.query('drop table read.keys, read.accounts')
  assert.notEqual(await counted(world).directory.byKey(key, from), null)
})

test('an exchanged hash authenticates no key and is logged, and works again once it is restored', async (t) => {
  const world = await projectedWorld(t)
  const { pool } = world
  const rich = await buyer(world)
  const poor = await buyer(world, { email: 'poor@example.com' })
  const logged: object[] = []
  const logger = { error: (fields: object) => logged.push(fields) } as unknown as DirectoryOptions['logger']
  const ask = (key: string) => createDirectory({ ...aside, ...world, logger }).byKey(key, from)
  const insiders = apiKeyForm.generate()
  await pool.query('create table public.saved as select * from vault.api_keys')
  const edits: readonly (readonly [string, string])[] = [
    ['update vault.api_keys set hash = $1 where key_id = $2', insiders],
    // The row of a key of their own, salt and all, under the name of another.
    [
      `with own as (delete from vault.api_keys where key_id = '${poor.keyId}' returning hash, salt)
       update vault.api_keys set (hash, salt) = (select hash, salt from own)
        where key_id = $2 and $1::bytea is not null`,
      poor.key,
    ],
    [
      `update vault.api_keys set account_id = '${rich.accountId}' where hash = $1 and $2::text <> ''`,
      poor.key,
    ],
    [`update vault.api_keys set salt = null where hash = $1 and $2::text <> ''`, rich.key],
  ]
  for (const [edit, key] of edits) {
    await pool.query(edit, [apiKeyForm.hash(key as typeof insiders), rich.keyId])
    assert.equal(await ask(key), null, edit)
    await pool.query('delete from vault.api_keys')
    await pool.query('insert into vault.api_keys select * from public.saved')
    assert.equal((await ask(rich.key))?.accountId, rich.accountId)
  }
  // A key of another account is no key of this one: nothing was exchanged that an event commits to.
  assert.deepEqual(logged, [
    { accountId: rich.accountId, keyId: rich.keyId },
    { accountId: rich.accountId, keyId: rich.keyId },
    { accountId: rich.accountId, keyId: rich.keyId },
  ])
})
