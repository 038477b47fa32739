import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { findingText } from '../../src/audit/verify/finding.ts'
import { type VerifyOptions, verifyLog } from '../../src/audit/verify/verify.ts'
import { newId } from '../../src/ids.ts'
import { caughtUp, startEngine } from '../projections/engine.ts'
import { appendEach, auditWorld, everyKind, testKey } from './world.ts'

/** A log of every kind of event, sealed and folded into the read tables. */
const foldedWorld = async (t: TestContext) => {
  const world = await auditWorld(t)
  await appendEach(world.log, await everyKind())
  await world.seal()
  const engine = await startEngine(t, world.pool, world.log, groups)
  await caughtUp(engine, world.log)
  const { pool, log } = world
  const verify = (options: Partial<VerifyOptions> = {}) =>
    verifyLog(
      { pool, log, groups, logInPostgres: true },
      { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null, ...options },
    )
  return { ...world, engine, verify }
}

describe('a verification', () => {
  test('finds nothing wrong with a log of every kind of event', async (t) => {
    const { verify, log } = await foldedWorld(t)
    const result = await verify()
    assert.deepEqual(result.findings.map(findingText), [])
    assert.equal(result.position, await log.head())
    assert.equal(result.seals.unsealed, 0)
    assert.equal(result.seals.seals, 1)
  })
})
