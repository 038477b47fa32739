import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AccountsResult } from '../../../src/features/accounts/account-service.ts'
import { claimEmail } from '../../../src/features/accounts/account-vault.ts'
import { apiKeyForm, apiKeyKind } from '../../../src/features/accounts/api-key.ts'
import { storeKey } from '../../../src/features/accounts/key-store.ts'
import { type AccountId, type KeyId, newId } from '../../../src/kernel/ids.ts'
import type { Done } from '../../../src/platform/commands/command.ts'
import { buyer, cause, serviceWorld } from './world.ts'

const textOfLog = async (log: Awaited<ReturnType<typeof serviceWorld>>['log']): Promise<string> =>
  JSON.stringify(await log.readAll(0, 1_000))

/** A result without where and when its events are written. */
const whatChanged = (result: AccountsResult) => {
  const { position: _, atMs: __, ...rest } = result as Done
  return rest
}

test("an account's e-mail is unique, in any case", async (t) => {
  const { accounts } = await serviceWorld(t)
  const first = await accounts.create({ email: 'Ann@Example.com', reseller: false }, cause)
  assert.ok(first.outcome === 'done')
  assert.deepEqual(await accounts.create({ email: 'ann@example.com', reseller: false }, cause), {
    outcome: 'refused',
    refusal: { code: 'email_taken', accountId: first.accountId },
  })
})

test('two processes that create the same account at once make one', async (t) => {
  const { accounts, elsewhere } = await serviceWorld(t)
  const create = (service: typeof accounts) =>
    service.create({ email: 'ann@example.com', reseller: false }, cause)
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, n) => create(n % 2 === 0 ? accounts : elsewhere.accounts)),
  )
  assert.equal(results.filter(({ outcome }) => outcome === 'done').length, 1)
})

test('an account whose creation was interrupted after the vault is completed by the next attempt', async (t) => {
  const { accounts, pool } = await serviceWorld(t)
  const { accountId } = await claimEmail(pool, 'ann@example.com', newId<AccountId>('acc'))
  assert.equal(await accounts.read(accountId, cause), null)
  const made = await accounts.create({ email: 'ann@example.com', reseller: true }, cause)
  assert.deepEqual(whatChanged(made), { outcome: 'done', changed: true, accountId })
})

test('an invalid e-mail is refused before anything is stored', async (t) => {
  const { accounts, pool } = await serviceWorld(t)
  for (const email of ['', 'ann', 'ann@', '@example.com', 'a b@example.com', 'a@b@c', 'a\0@example.com'])
    assert.equal((await accounts.create({ email, reseller: false }, cause)).outcome, 'refused')
  assert.equal((await pool.query('select 1 from vault.accounts')).rowCount, 0)
})

test('the log never contains a key, its hash, or an e-mail', async (t) => {
  const world = await serviceWorld(t)
  const { key } = await buyer(world, { email: 'ann@example.com' })
  const text = await textOfLog(world.log)
  assert.ok(text.includes('KeyIssued'))
  for (const secret of [
    key,
    key.slice(9),
    apiKeyForm.hash(key).toString('hex'),
    'ann@example.com',
    'example.com',
  ])
    assert.ok(!text.includes(secret), secret)
})

test('every change records its actor', async (t) => {
  const world = await serviceWorld(t)
  const { accountId, keyId } = await buyer(world)
  await world.accounts.capKey(
    keyId,
    { cents: 900 },
    { ...cause, actor: { kind: 'operator', name: 'raiser' } },
  )
  const last = (await world.log.readAll(0, 100)).at(-1)!
  assert.deepEqual(JSON.parse(last.metadata).actor, { kind: 'operator', name: 'raiser' })
  assert.equal((await world.accounts.read(accountId, cause))!.keys.get(keyId)!.dailyCapCents, 900)
})

test('a key for an account that does not exist is refused and leaves no hash', async (t) => {
  const { accounts, pool } = await serviceWorld(t)
  const issue = { accountId: 'acc_none' as AccountId, scopes: ['buy'] as const, cap: null }
  assert.deepEqual(await accounts.issueKey(issue, cause), {
    outcome: 'refused',
    refusal: { code: 'unknown_account' },
  })
  assert.equal((await pool.query('select 1 from vault.api_keys')).rowCount, 0)
})

test('a key is revoked once, and an unknown one cannot be revoked', async (t) => {
  const world = await serviceWorld(t)
  const { accountId, keyId } = await buyer(world)
  assert.deepEqual(whatChanged(await world.accounts.revokeKey(keyId, cause)), {
    outcome: 'done',
    changed: true,
    accountId,
  })
  assert.deepEqual(whatChanged(await world.accounts.revokeKey(keyId, cause)), {
    outcome: 'done',
    changed: false,
    accountId,
  })
  assert.equal((await world.accounts.revokeKey('key_none' as KeyId, cause)).outcome, 'refused')
  const orphan = { hash: apiKeyForm.hash(apiKeyForm.generate()), id: 'key_orphan', owner: accountId }
  await storeKey(world.pool, apiKeyKind, orphan)
  assert.deepEqual(await world.accounts.revokeKey(orphan.id as KeyId, cause), {
    outcome: 'refused',
    refusal: { code: 'unknown_key' },
  })
})

test('blocking and unblocking from two processes take effect in both at once', async (t) => {
  const world = await serviceWorld(t)
  const { accountId } = await buyer(world)
  await world.accounts.block(accountId, 'fraud', cause)
  assert.equal((await world.elsewhere.accounts.read(accountId, cause))!.blocked, true)
  await world.elsewhere.accounts.unblock(accountId, cause)
  assert.equal((await world.accounts.read(accountId, cause))!.blocked, false)
  assert.equal((await world.accounts.block('acc_none' as AccountId, 'fraud', cause)).outcome, 'refused')
})
