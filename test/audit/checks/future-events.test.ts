import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { laterThan } from '../../../src/audit/checks/event-reader.ts'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { newEventId } from '../../../src/kernel/ids.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { allEvents, auditWorld, sealedHistory, startMs, tamper, testKey } from '../world.ts'

const day = 86_400_000
const iso = (ms: number): string => new Date(ms).toISOString()

const openWorld = async (t: TestContext) => {
  const { pool, ...world } = await auditWorld(t)
  await sealedHistory({ ...world })
  await pool.query('create table public.saved as select * from log.events')
  const events = await allEvents(world.log)
  const verified = async (nowMs: number) => {
    const { findings } = await verifyLog(
      { pool, log: world.log, groups: [], logInPostgres: true },
      { runId: newEventId(), publicKey: testKey().publicKey, exported: null, clock: () => nowMs },
    )
    return findings.filter(({ check }) => check === 'times' || check === 'content').map(findingText)
  }
  const change = (column: 'data' | 'metadata', { position }: StoredEvent, patch: object) =>
    tamper(
      pool,
      ['delete from log.events'],
      ['insert into log.events select * from public.saved'],
      [
        `update log.events set ${column} = (${column}::jsonb || $2::jsonb)::text where position = $1`,
        [position, JSON.stringify(patch)],
      ],
    )
  const dataOf = (event: StoredEvent) => JSON.parse(event.data)
  const recordedAt = (event: StoredEvent): number => Date.parse(JSON.parse(event.metadata).recordedAt)
  const first = (type: string) => events.find((event) => event.type === type)!
  /** An event that ends its stream, so that no other time rule applies to it. */
  const lastOf = (stream: string) => events.findLast((event) => event.stream.startsWith(stream))!
  return { verified, change, dataOf, recordedAt, first, lastOf }
}

describe('events of the future', () => {
  test('are found by the clock, by the seal over them, and by the times in their fields', async (t) => {
    const { verified, change, dataOf, recordedAt, first, lastOf } = await openWorld(t)
    assert.deepEqual(await verified(startMs), [])

    const last = lastOf('ledger-')
    // Ahead of the clock of the verification, as a service would be that has no seal yet.
    await change('metadata', last, { recordedAt: iso(startMs + 5_001) })
    assert.deepEqual(
      (await verified(startMs)).map((text) => /recorded at (\S+), and it is (\S+) now;/.exec(text)?.slice(1)),
      [[iso(startMs + 5_001), iso(startMs)]],
    )
    // Years later no clock finds it, but the seal does.
    const problems = await verified(startMs + 10 * day)
    assert.equal(problems.length, 1)
    assert.match(
      problems[0]!,
      /recorded at 2026-10-27T00:00:05.001Z, and the seal of the events up to \d+ was made at 2026-10-27T00:00:00/,
    )
    assert.match(problems[0]!, new RegExp(last.stream))
    await change('metadata', last, { recordedAt: iso(startMs + 4_999) })
    assert.deepEqual(await verified(startMs), [], 'within the bound of clocks')

    for (const [type, field, patch] of [
      ['DepositOpened', 'openedAt', (at: string) => ({ openedAt: at })],
      [
        'OrderCompleted',
        'order.createdAt',
        (at: string, data: { order: object }) => ({ order: { ...data.order, createdAt: at } }),
      ],
      ['PlanActivated', 'startedAt', (at: string) => ({ startedAt: at })],
    ] as const) {
      const event = first(type)
      const at = iso(recordedAt(event) + 5_001)
      await change('data', event, patch(at, dataOf(event)))
      const [found, ...more] = await verified(startMs)
      assert.match(found ?? 'nothing was found', new RegExp(`${field} is ${at}, and it was recorded at`))
      assert.deepEqual(more, [])
    }
  })

  test('do not include times that lie ahead by design', () => {
    const latest = iso(startMs)
    const later = iso(startMs + 1)
    const plan = { startedAt: latest, expiresAt: later }
    assert.equal(laterThan({ type: 'PlanActivated', data: plan }, latest), null)
    assert.deepEqual(laterThan({ type: 'PlanActivated', data: { ...plan, startedAt: later } }, latest), {
      field: 'startedAt',
      at: later,
    })
    assert.equal(laterThan({ type: 'Unknown', data: { startedAt: later } }, latest), null)
    const imported = { importedAt: latest, products: [] }
    assert.equal(laterThan({ type: 'CatalogImported', data: imported }, latest), null)
  })
})
