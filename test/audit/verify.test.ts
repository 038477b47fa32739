import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import type { VerifyOptions } from '../../src/audit/checks/checks.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newEventId, newId } from '../../src/kernel/ids.ts'
import type { EventLog, StoredEvent } from '../../src/platform/eventstore/port.ts'
import { caughtUp, startEngine } from '../platform/projections/engine.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { testDatabase } from '../support/postgres.ts'
import { appendEach, auditWorld, everyKind, sealable, testKey } from './world.ts'

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

  test('locates changed, removed or added events in a log with gaps between positions', async (t) => {
    const { pool } = await testDatabase(t)
    const memory = createMemoryLog()
    let seen = (events: readonly StoredEvent[]): readonly StoredEvent[] => events
    // Numbered as in EventStoreDB. Events there cannot be changed in place, so the read events are changed.
    const log: EventLog = {
      ...memory,
      head: async () => 1000 * (await memory.head()),
      readAll: async (after, limit) => {
        const all = (await memory.readAll(0, 10_000)).map((event) => ({
          ...event,
          position: 1000 * event.position,
        }))
        return seen(all)
          .filter(({ position }) => position > after)
          .slice(0, limit)
      },
    }
    await appendEach(log, await everyKind())
    const { seal } = await sealable(t, pool, log)
    await seal()
    const verify = () =>
      verifyLog(
        { pool, log, groups: [], logInPostgres: false },
        { runId: newId('vrf'), publicKey: testKey().publicKey, exported: null },
      )
    assert.deepEqual((await verify()).findings.map(findingText), [])
    const first = async (): Promise<string> => {
      const [finding] = (await verify()).findings.filter(({ check }) => check === 'seals')
      return finding ? findingText(finding) : 'nothing'
    }
    seen = (events) => events.with(39, { ...events[39]!, metadata: `${events[39]!.metadata} ` })
    assert.match(await first(), /^seals: event 40 .*: it was changed/)
    seen = (events) => events.toSpliced(39, 1)
    assert.equal(await first(), 'seals: events 40 to 40: it was removed')
    seen = (events) =>
      events.toSpliced(39, 0, { ...events[39]!, id: newEventId(), position: events[39]!.position - 1 })
    assert.match(await first(), /^seals: event 40 .*: it was added/)
    seen = (events) => events.slice(0, 60)
    assert.match(await first(), /the log ends with event 60, but digests of \d+ events are stored/)
  })
})
