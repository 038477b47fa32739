import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type AccountDecision,
  decideBlock,
  decideCap,
  decideCreation,
  decideIssue,
  decideLowBalance,
  decideRevocation,
  decideRoll,
  decideUnblock,
  type KeyIssue,
  maxActiveKeys,
} from '../../../src/domain/accounts/decide.ts'
import { type AccountState, accountFold, capOf } from '../../../src/domain/accounts/fold.ts'
import { applyDecided } from '../../../src/kernel/decider.ts'
import type { AccountId, KeyId } from '../../../src/kernel/ids.ts'
import type { CapCovers, KeyCap } from '../../../src/kernel/scopes.ts'
import { decider } from '../../support/decider.ts'
import fc from '../../support/fast-check.ts'

const accountId = 'acc_1' as AccountId
type Ask = (state: AccountState) => AccountDecision

const keyOf = (keyId: string, over: Partial<KeyIssue> = {}): KeyIssue => ({
  keyId: keyId as KeyId,
  scopes: ['buy'],
  cap: null,
  displayPrefix: 'fbx_abcd',
  name: null,
  expiresAtMs: null,
  networks: null,
  commitment: 'ab'.repeat(32),
  ...over,
})

const create: Ask = (state) =>
  decideCreation(state, { accountId, reseller: true, emailCommitment: '0'.repeat(64) })
const block: Ask = (state) => decideBlock(state, { reason: 'fraud' })
const orders = (cents: number | null): KeyCap | null => (cents === null ? null : { cents, covers: 'orders' })
const issue =
  (keyId: string, dailyCapCents: number | null = null): Ask =>
  (state) =>
    decideIssue(state, keyOf(keyId, { cap: orders(dailyCapCents) }), 0)
const cap =
  (keyId: string, dailyCapCents: number | null, covers?: CapCovers): Ask =>
  (state) =>
    decideCap(state, {
      keyId: keyId as KeyId,
      cap: dailyCapCents === null ? null : { cents: dailyCapCents, covers },
    })
const revoke =
  (keyId: string): Ask =>
  (state) =>
    decideRevocation(state, { keyId: keyId as KeyId })

const account = decider(accountFold)
const created = account.given(create)
const keyIn = ({ state }: typeof account, keyId: string) => state!.keys.get(keyId as KeyId)!

test('an account is created once', () => {
  const { reseller, blocked, keys } = created.state!
  assert.deepEqual([reseller, blocked, keys.size], [true, false, 0])
  created.when(create).thenRefused('account_exists')
})

test('an account that does not exist can only be created', () => {
  for (const ask of [block, decideUnblock, issue('k'), cap('k', 1), revoke('k')])
    account.when(ask).thenRefused('unknown_account')
})

test('blocking or unblocking twice adds no event', () => {
  const blocked = created.given(block)
  assert.equal(blocked.state!.blocked, true)
  blocked.when(block).thenEvents()
  assert.equal(blocked.given(decideUnblock).state!.blocked, false)
  created.when(decideUnblock).thenEvents()
})

test('a revoked key stays revoked, and its cap cannot be changed', () => {
  const revoked = created.given(issue('k', 500), revoke('k'))
  assert.equal(keyIn(revoked, 'k').revoked, true)
  revoked.when(revoke('k')).thenEvents()
  revoked.when(issue('k')).thenEvents()
  revoked.when(cap('k', 900)).thenRefused('key_revoked')
})

test('a cap is raised and removed, each with its own event', () => {
  const capped = created.given(issue('k', 500))
  capped.when(cap('k', 900)).thenEvents({ type: 'KeyCapped', data: { keyId: 'k', dailyCapCents: 900 } })
  capped.when(cap('k', 500)).thenEvents()
  assert.equal(keyIn(capped.given(cap('k', null)), 'k').dailyCapCents, null)
  capped.when(cap('other', 1)).thenRefused('unknown_key')
  assert.throws(() => capped.when(cap('k', -1)), RangeError)
  assert.throws(() => capped.when(cap('k', 0.5)), RangeError)
})

test('the number of active keys is limited; revoking one frees a place', () => {
  const full = created.given(...Array.from({ length: maxActiveKeys }, (_, n) => issue(`k${n}`)))
  full.when(issue('more')).thenRefused('too_many_keys')
  full.given(revoke('k0')).when(issue('more')).thenEvents('KeyIssued')
})

test('invariant: repeating any command at once adds no event or is refused', () => {
  const keyId = fc.constantFrom('a', 'b', 'c')
  const ask: fc.Arbitrary<Ask> = fc.oneof(
    fc.constantFrom(create, block, decideUnblock),
    keyId.map((id) => issue(id, 100)),
    keyId.map(revoke),
    fc.tuple(keyId, fc.option(fc.nat(1_000))).map(([id, cents]) => cap(id, cents)),
  )
  fc.assert(
    fc.property(fc.array(ask, { maxLength: 60, size: 'max' }), (asks) => {
      let state: AccountState = null
      for (const command of asks) {
        const first = command(state)
        if (first.outcome === 'decided') state = applyDecided(accountFold, state, first.events, 0)
        const again = command(state)
        if (again.outcome === 'decided') assert.deepEqual(again.events, [])
      }
    }),
  )
})

const dayMs = 86_400_000

/** An account with one key that was issued at 0. */
const withKey = (over: Partial<KeyIssue>) =>
  created.given((state) => decideIssue(state, keyOf('old', over), 0))
const roll =
  (overlapMs: number, over: { expiresAtMs?: number } = {}) =>
  (state: AccountState, nowMs: number) =>
    decideRoll(
      state,
      {
        keyId: 'old' as KeyId,
        overlapMs,
        next: { ...over, keyId: 'new' as KeyId, displayPrefix: 'fbx_next', commitment: 'cd'.repeat(32) },
      },
      nowMs,
    )

test('a changed cap covers what the former one covered, unless it says otherwise', () => {
  const everything = created.given(issue('key'), cap('key', 500, 'everything'))
  const raised = everything.given(cap('key', 900))
  assert.deepEqual(capOf(keyIn(raised, 'key')), { cents: 900, covers: 'everything' })
  assert.deepEqual(capOf(keyIn(raised.given(cap('key', 900, 'orders')), 'key')), {
    cents: 900,
    covers: 'orders',
  })
  raised.when(cap('key', 900)).thenEvents()
  const again = raised.given(cap('key', null), cap('key', 900))
  assert.deepEqual(
    capOf(keyIn(again, 'key')),
    { cents: 900, covers: 'orders' },
    'a removed cap covers nothing',
  )
})

test('a cap for orders alone is refused for a key that cannot order', () => {
  const scrapes = { scopes: ['scrape'] as const }
  const issued = (covers: 'orders' | 'everything') => (state: AccountState) =>
    decideIssue(state, keyOf('key', { ...scrapes, cap: { cents: 500, covers } }), 0)
  created.when(issued('orders')).thenRefused('cap_covers_nothing')
  const capped = created.given(issued('everything'))
  capped.when(cap('key', 900)).thenEvents('KeyCapped')
  capped.when(cap('key', 900, 'orders')).thenRefused('cap_covers_nothing')
  capped.given(cap('key', null)).when(cap('key', 900)).thenRefused('cap_covers_nothing')
})

test('a rotated key has the name, scopes, cap and networks of its predecessor, which ends after the overlap', () => {
  const held = withKey({
    name: 'shop',
    cap: { cents: 500, covers: 'everything' },
    networks: ['203.0.113.0/24'],
  })
  const rolled = held.at(dayMs).given(roll(3_600_000))
  const former = keyIn(rolled, 'old')
  assert.equal(former.expiresAtMs, dayMs + 3_600_000)
  assert.deepEqual(keyIn(rolled, 'new'), {
    ...former,
    commitment: 'cd'.repeat(32),
    displayPrefix: 'fbx_next',
    expiresAtMs: null,
    capKeyId: 'old',
  })
})

test('a new cap applies to a key and to all keys it was rotated from or to, even revoked ones', () => {
  const rolled = withKey({}).at(dayMs).given(roll(3_600_000), issue('other'))
  for (const keyId of ['old', 'new']) {
    const capped = rolled.given(cap(keyId, 500))
    assert.deepEqual(
      ['old', 'new', 'other'].map((id) => keyIn(capped, id).dailyCapCents),
      [500, 500, null],
    )
  }
  rolled
    .given(revoke('old'))
    .when(cap('new', 500))
    .thenEvents(
      { type: 'KeyCapped', data: { keyId: 'old', dailyCapCents: 500 } },
      { type: 'KeyCapped', data: { keyId: 'new', dailyCapCents: 500, capKeyId: 'old' } },
    )
})

test('the successor of an expiring key has the same lifetime, unless another expiry is given', () => {
  const held = withKey({ expiresAtMs: 90 * dayMs })
  const rolled = held.at(80 * dayMs).given(roll(7 * dayMs))
  assert.equal(keyIn(rolled, 'new').expiresAtMs, 170 * dayMs)
  assert.equal(keyIn(rolled, 'old').expiresAtMs, 87 * dayMs)
  const shorter = held.at(80 * dayMs).given(roll(7 * dayMs, { expiresAtMs: 100 * dayMs }))
  assert.equal(keyIn(shorter, 'new').expiresAtMs, 100 * dayMs)
  const late = held.at(89 * dayMs).given(roll(7 * dayMs))
  assert.equal(keyIn(late, 'old').expiresAtMs, 90 * dayMs, 'an overlap gives no longer life')
})

test('an inactive key cannot be rotated, and a past expiry is refused', () => {
  const held = withKey({}).at(dayMs)
  held.given(revoke('old')).when(roll(dayMs)).thenRefused('key_revoked')
  withKey({ expiresAtMs: dayMs }).at(dayMs).when(roll(dayMs)).thenRefused('key_expired')
  held.when(roll(dayMs, { expiresAtMs: dayMs })).thenRefused('expiry_passed')
  created.at(dayMs).when(roll(dayMs)).thenRefused('unknown_key')
  held.when((state) => decideIssue(state, keyOf('k', { expiresAtMs: 5 }), 5)).thenRefused('expiry_passed')
})

test('expired keys do not count towards the limit of keys', () => {
  const issueAt = (keyId: string, expiresAtMs: number | null) => (state: AccountState, nowMs: number) =>
    decideIssue(state, keyOf(keyId, { expiresAtMs }), nowMs)
  const full = created.given(...Array.from({ length: maxActiveKeys }, (_, n) => issueAt(`k${n}`, dayMs)))
  full
    .at(dayMs - 1)
    .when(issueAt('more', null))
    .thenRefused('too_many_keys')
  full.at(dayMs).when(issueAt('more', null)).thenEvents('KeyIssued')
})

test('a threshold of the low balance is set, changed and removed, and the same one is no event', () => {
  const account = decider(accountFold).given(create)
  const set =
    (cents: number | null): Ask =>
    (state) =>
      decideLowBalance(state, cents)
  account.when(set(null)).thenEvents()
  account.when(set(5_000)).thenEvents('LowBalanceThresholdSet')
  account.given(set(5_000)).when(set(5_000)).thenEvents()
  account.given(set(5_000)).when(set(null)).thenEvents('LowBalanceThresholdSet')
  decider(accountFold).when(set(5_000)).thenRefused('unknown_account')
  for (const cents of [0, -1]) assert.throws(() => decideLowBalance(null, cents), RangeError)
})
