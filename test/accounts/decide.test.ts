import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type AccountDecision,
  decideBlock,
  decideCap,
  decideCreation,
  decideIssue,
  decideRevocation,
  decideUnblock,
  maxActiveKeys,
} from '../../src/accounts/decide.ts'
import { type AccountState, accountFold } from '../../src/accounts/fold.ts'
import type { AccountId, KeyId } from '../../src/ids.ts'
import fc from '../support/fast-check.ts'

const accountId = 'acc_1' as AccountId
type Ask = (state: AccountState) => AccountDecision

const create: Ask = (state) => decideCreation(state, { accountId, reseller: true })
const block: Ask = (state) => decideBlock(state, { reason: 'fraud' })
const issue =
  (keyId: string, dailyCapCents: number | null = null): Ask =>
  (state) =>
    decideIssue(state, { keyId: keyId as KeyId, scopes: ['buy'], dailyCapCents, displayPrefix: 'fbx_abcd' })
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

test('nothing but its creation happens to an account that does not exist', () => {
  for (const ask of [block, decideUnblock, issue('k'), cap('k', 1), revoke('k')])
    assert.equal(refusalOf(ask(null)), 'unknown_account')
})

test('blocking and unblocking twice says nothing new', () => {
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

test('a cap is raised and lifted, each with an event of its own', () => {
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

test('keys that work at once are limited; revoking one makes room', () => {
  const full = stateAfter(create, ...Array.from({ length: maxActiveKeys }, (_, n) => issue(`k${n}`)))
  assert.equal(refusalOf(issue('more')(full)), 'too_many_keys')
  assert.equal(step(step(full, revoke('k0')).after, issue('more')).decision.outcome, 'decided')
})

test('law: whatever is asked, asking it again right away says nothing new or is refused', () => {
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
      for (const asked of asks) {
        const { after } = step(state, asked)
        assert.deepEqual(step(after, asked).events, [])
        state = after
      }
    }),
  )
})
