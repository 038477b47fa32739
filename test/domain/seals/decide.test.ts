import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideRotation, decideSeal } from '../../../src/domain/seals/decide.ts'
import type { LogSealed, SealKeyRotated, SealState } from '../../../src/domain/seals/events.ts'

const sealedThrough = (throughOrdinal: number, publicKey: string) =>
  ({ throughOrdinal, publicKey, digest: 'digest' }) as LogSealed['data']
const state = { publicKey: 'current', last: sealedThrough(10, 'current') } as SealState
const rotation = {
  previousPublicKey: 'current',
  publicKey: 'next',
  sealedOrdinal: 10,
} as SealKeyRotated['data']

test('only the current key seals, and only after the last seal', () => {
  const from = { throughOrdinal: 10, digest: 'digest' }
  const outcomeOf = (seal: LogSealed['data'], at = from) => decideSeal(state, seal, at).answer.outcome
  assert.equal(outcomeOf(sealedThrough(12, 'current')), 'sealed')
  assert.equal(outcomeOf(sealedThrough(12, 'former')), 'key_retired')
  assert.equal(outcomeOf(sealedThrough(12, 'current'), { ...from, throughOrdinal: 9 }), 'moved')
})

test('only the current key is replaced, once, and at the last seal', () => {
  const outcomeOf = (change: Partial<SealKeyRotated['data']>) =>
    decideRotation(state, { ...rotation, ...change }, null).answer.outcome
  assert.equal(outcomeOf({}), 'rotated')
  assert.equal(outcomeOf({ previousPublicKey: 'former' }), 'key_retired')
  assert.equal(outcomeOf({ publicKey: 'current' }), 'already_rotated')
  assert.equal(outcomeOf({ sealedOrdinal: 9 }), 'moved')
})
