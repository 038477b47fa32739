import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PlanId, ProxyId } from '../../../src/kernel/ids.ts'
import { createCredentials } from '../../../src/platform/vault/credentials.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { createVault, SealBroken } from '../../../src/platform/vault/seal.ts'
import fc from '../../support/fast-check.ts'

const master = masterKey(Buffer.alloc(32, 7))
const other = masterKey(Buffer.alloc(32, 8))
const bytes = fc.uint8Array({ maxLength: 500 })

test('a sealed value opens under the same key and context', () => {
  fc.assert(
    fc.property(bytes, fc.string(), (plain, context) => {
      const vault = createVault(master)
      assert.deepEqual(createVault(master).open(vault.seal(plain, context), context), Buffer.from(plain))
    }),
  )
})

test('a sealed value opens under no other key and no other context', () => {
  const sealed = createVault(master).seal(Buffer.from('secret'), 'webhook-secret whs_1')
  assert.throws(() => createVault(other).open(sealed, 'webhook-secret whs_1'), SealBroken)
  assert.throws(() => createVault(master).open(sealed, 'webhook-secret whs_2'), SealBroken)
})

test('a change of any bit is detected', () => {
  const vault = createVault(master)
  fc.assert(
    fc.property(bytes, fc.nat(), fc.nat(7), (plain, at, bit) => {
      const sealed = vault.seal(plain, 'context')
      sealed[at % sealed.length]! ^= 1 << bit
      assert.throws(() => vault.open(sealed, 'context'), SealBroken)
    }),
  )
})

test('a truncated value is not a sealed value', () => {
  const vault = createVault(master)
  const sealed = vault.seal(Buffer.from('secret'), 'context')
  for (let length = 0; length < sealed.length; length += 1)
    assert.throws(() => vault.open(sealed.subarray(0, length), 'context'), SealBroken)
  assert.throws(
    () => vault.open(Buffer.from('x'), 'webhook value whv_1'),
    /^SealBroken: the row of webhook value whv_1 was changed/,
  )
})

test('the same bytes have another form each time they are sealed', () => {
  const vault = createVault(master)
  assert.notDeepEqual(vault.seal(Buffer.from('secret'), 'c'), vault.seal(Buffer.from('secret'), 'c'))
})

test('a master key has 32 bytes', () => {
  assert.throws(() => masterKey(Buffer.alloc(31)), RangeError)
})

test('credentials are the same in every process and safe in every line format', () => {
  const credential = createCredentials(master).of('pln_1' as PlanId, 0)
  assert.deepEqual(createCredentials(master).of('pln_1' as PlanId, 0), credential)
  assert.match(credential.username, /^[a-z0-9]{14}$/)
  assert.match(credential.password, /^[A-Za-z0-9]{20}$/)
})

test('issued credentials are the same in every release', () => {
  assert.deepEqual(createCredentials(master).of('pln_1' as PlanId, 0), {
    username: 'v31fhq2kz88b1k',
    password: '7KKWBivBxGX9O1DmdKiQ',
  })
})

test('a rotation changes the password and keeps the username', () => {
  const credentials = createCredentials(master)
  const [before, after] = [credentials.of('pln_1' as PlanId, 0), credentials.of('pln_1' as PlanId, 1)]
  assert.equal(after.username, before.username)
  assert.notEqual(after.password, before.password)
})

test('no two plans, rentals or keys share a credential', () => {
  const credentials = createCredentials(master)
  const all = Array.from({ length: 2_000 }, (_, n) => credentials.of(`prx_${n}` as ProxyId, 0))
  all.push(createCredentials(other).of('prx_0' as ProxyId, 0))
  assert.equal(new Set(all.map(({ username }) => username)).size, all.length)
  assert.equal(new Set(all.map(({ password }) => password)).size, all.length)
})
