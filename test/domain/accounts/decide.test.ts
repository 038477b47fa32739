import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type AccountDecision,
  decideBlock,
  decideCap,
  decideCreation,
  decideIssue,
  decideRevocation,
  decideRoll,
  decideUnblock,
  type KeyIssue,
  maxActiveKeys,
} from '../../../src/domain/accounts/decide.ts'
import { type AccountState, accountFold } from '../../../src/domain/accounts/fold.ts'
import type { AccountId, KeyId } from '../../../src/kernel/ids.ts'
import fc from '../../support/fast-check.ts'

const accountId = 'acc_1' as AccountId
type Ask = (state: AccountState) => AccountDecision

const keyOf = (keyId: string, over: Partial<KeyIssue> = {}): KeyIssue => ({
  keyId: keyId as KeyId,
  scopes: ['buy'],
  dailyCapCents: null,
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
const issue =
  (keyId: string, dailyCapCents: number | null = null): Ask =>
  (state) =>
    decideIssue(state, keyOf(keyId, { dailyCapCents }), 0)
const cap =
  (keyId: string, dailyCapCents: number | null): Ask =>
  (state) =>
    decideCap(state, { keyId: keyId as KeyId, dailyCapCents })
const revoke =
  (keyId: string): Ask =>
  (state) =>
    decideRevocation(state, { keyId: keyId as KeyId })

const step = (state: AccountState, ask: Ask) => {
  const decision = ask(state)
  const events = decision.outcome === 'decided' ? decision.events : []
  const after = events.reduce<AccountState>(
    (folded, event, revision) => accountFold.evolve(folded, { ...event, revision, recordedAtMs: 0 }),
    state,
  )
  return { decision, events, after }
}
const stateAfter = (...asks: Ask[]): AccountState =>
  asks.reduce((state, ask) => step(state, ask).after, null as AccountState)
const refusalOf = (decision: AccountDecision) => {
  assert.equal(decision.outcome, 'refused')
  return decision.outcome === 'refused' ? decision.refusal.code : null
}

test('an account is created once', () => {
  const state = stateAfter(create)
  assert.deepEqual([state!.reseller, state!.blocked, state!.keys.size], [true, false, 0])
  assert.equal(refusalOf(create(state)), 'account_exists')
})

test('an account that does not exist can only be created', () => {
  for (const ask of [block, decideUnblock, issue('k'), cap('k', 1), revoke('k')])
    assert.equal(refusalOf(ask(null)), 'unknown_account')
})

test('blocking or unblocking twice adds no event', () => {
  const blocked = stateAfter(create, block)
  assert.equal(blocked!.blocked, true)
  assert.deepEqual(step(blocked, block).events, [])
  assert.equal(step(blocked, decideUnblock).after!.blocked, false)
  assert.deepEqual(step(stateAfter(create), decideUnblock).events, [])
})

test('a revoked key stays revoked, and its cap cannot be changed', () => {
  const state = stateAfter(create, issue('k', 500), revoke('k'))
  assert.equal(state!.keys.get('k' as KeyId)!.revoked, true)
  assert.deepEqual(step(state, revoke('k')).events, [])
  assert.deepEqual(step(state, issue('k')).events, [])
  assert.equal(refusalOf(cap('k', 900)(state)), 'key_revoked')
})

test('a cap is raised and removed, each with its own event', () => {
  const state = stateAfter(create, issue('k', 500))
  assert.deepEqual(step(state, cap('k', 900)).events, [
    { type: 'KeyCapped', data: { keyId: 'k', dailyCapCents: 900 } },
  ])
  assert.deepEqual(step(state, cap('k', 500)).events, [])
  assert.equal(step(state, cap('k', null)).after!.keys.get('k' as KeyId)!.dailyCapCents, null)
  assert.equal(refusalOf(cap('other', 1)(state)), 'unknown_key')
  assert.throws(() => cap('k', -1)(state), RangeError)
  assert.throws(() => cap('k', 0.5)(state), RangeError)
})

test('the number of active keys is limited; revoking one frees a place', () => {
  const full = stateAfter(create, ...Array.from({ length: maxActiveKeys }, (_, n) => issue(`k${n}`)))
  assert.equal(refusalOf(issue('more')(full)), 'too_many_keys')
  assert.equal(step(step(full, revoke('k0')).after, issue('more')).decision.outcome, 'decided')
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
        const { after } = step(state, command)
        assert.deepEqual(step(after, command).events, [])
        state = after
      }
    }),
  )
})

const dayMs = 86_400_000

/** An account with one key that was issued at 0. */
const withKey = (over: Partial<KeyIssue>): AccountState => {
  const { after } = step(step(null, create).after, (state) => decideIssue(state, keyOf('old', over), 0))
  return after
}
const rolled = (state: AccountState, atMs: number, overlapMs: number, over: { expiresAtMs?: number } = {}) =>
  decideRoll(
    state,
    {
      keyId: 'old' as KeyId,
      overlapMs,
      next: { ...over, keyId: 'new' as KeyId, displayPrefix: 'fbx_next', commitment: 'cd'.repeat(32) },
    },
    atMs,
  )

test('a rotated key has the name, scopes, cap and networks of its predecessor, which ends after the overlap', () => {
  const held = { name: 'shop', dailyCapCents: 500, networks: ['203.0.113.0/24'] }
  const { decision, after } = step(withKey(held), (state) => rolled(state, dayMs, 3_600_000))
  assert.equal(decision.outcome, 'decided')
  const former = after!.keys.get('old' as KeyId)!
  const next = after!.keys.get('new' as KeyId)!
  assert.equal(former.expiresAtMs, dayMs + 3_600_000)
  assert.deepEqual(next, {
    ...former,
    commitment: 'cd'.repeat(32),
    displayPrefix: 'fbx_next',
    expiresAtMs: null,
    capKeyId: 'old',
  })
})

test('the successor of an expiring key has the same lifetime, unless another expiry is given', () => {
  const state = withKey({ expiresAtMs: 90 * dayMs })
  const next = (over: { expiresAtMs?: number } = {}) =>
    step(state, (before) => rolled(before, 80 * dayMs, 7 * dayMs, over)).after!.keys
  assert.equal(next().get('new' as KeyId)!.expiresAtMs, 170 * dayMs)
  assert.equal(next({ expiresAtMs: 100 * dayMs }).get('new' as KeyId)!.expiresAtMs, 100 * dayMs)
  assert.equal(next().get('old' as KeyId)!.expiresAtMs, 87 * dayMs)
  const late = step(state, (before) => rolled(before, 89 * dayMs, 7 * dayMs)).after!
  assert.equal(late.keys.get('old' as KeyId)!.expiresAtMs, 90 * dayMs, 'an overlap gives no longer life')
})

test('an inactive key cannot be rotated, and a past expiry is refused', () => {
  const codeOf = (decision: AccountDecision) => decision.outcome === 'refused' && decision.refusal.code
  const gone = step(withKey({}), revoke('old')).after
  assert.equal(codeOf(rolled(gone, dayMs, dayMs)), 'key_revoked')
  assert.equal(codeOf(rolled(withKey({ expiresAtMs: dayMs }), dayMs, dayMs)), 'key_expired')
  assert.equal(codeOf(rolled(withKey({}), dayMs, dayMs, { expiresAtMs: dayMs })), 'expiry_passed')
  assert.equal(codeOf(rolled(step(null, create).after, dayMs, dayMs)), 'unknown_key')
  assert.equal(codeOf(decideIssue(withKey({}), keyOf('k', { expiresAtMs: 5 }), 5)), 'expiry_passed')
})

test('expired keys do not count towards the limit of keys', () => {
  let state = step(null, create).after
  for (let n = 0; n < maxActiveKeys; n += 1)
    state = step(state, (before) => decideIssue(before, keyOf(`k${n}`, { expiresAtMs: dayMs }), 0)).after
  assert.equal(decideIssue(state, keyOf('more'), dayMs - 1).outcome, 'refused')
  assert.equal(decideIssue(state, keyOf('more'), dayMs).outcome, 'decided')
})
