import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EventMetadata } from '../../../src/kernel/event.ts'
import { newEventId } from '../../../src/kernel/ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { guardAppends, latestDecision } from '../../../src/platform/eventstore/append-guards.ts'
import { decode, encode, timesAfter } from '../../../src/platform/eventstore/codec.ts'
import { LogUnavailable } from '../../../src/platform/eventstore/errors.ts'
import { testDatabase } from '../../support/postgres.ts'
import { allAfter, freshStream, someEvent } from './contract/events.ts'
import { openLog } from './open-postgres.ts'

const iso = (ms: number): string => new Date(ms).toISOString()
const dayMs = 86_400_000

const metadataOf = (times: Pick<EventMetadata, 'recordedAt' | 'continuesAt'>): EventMetadata => ({
  correlationId: 'run_1',
  causationId: null,
  actor: { kind: 'system', name: '"recordedAt":"2099-01-01T00:00:00.000Z"' },
  ...times,
})
const eventOf = (times: Pick<EventMetadata, 'recordedAt' | 'continuesAt'>) =>
  encode({ type: 'Tried', data: {} }, metadataOf(times), newEventId())
const itemAt = (ms: number, stream: StreamName = freshStream()) => ({
  appends: [{ stream, expected: 'noStream' as const, events: [eventOf({ recordedAt: iso(ms) })] }],
})

test('an event after one of the future is stored at its time, and read with the time of its decision', () => {
  const times = timesAfter(dayMs, 1_000)
  assert.deepEqual(times, { recordedAt: iso(1_000), continuesAt: iso(dayMs) })
  const stored = { ...eventOf(times), stream: freshStream(), revision: 1, position: 1 }
  const { recordedAt, decidedAt } = JSON.parse(stored.metadata)
  assert.deepEqual([recordedAt, decidedAt], [iso(dayMs), iso(1_000)])
  assert.deepEqual(decode(stored).metadata, metadataOf(times))
  assert.deepEqual(timesAfter(6_000, 1_000), { recordedAt: iso(6_000) }, 'within the bound of clocks')
  assert.deepEqual(timesAfter(500, 1_000), { recordedAt: iso(1_000) })
})

test('the decision time of an event is read from its own fields only', () => {
  const item = { appends: [{ stream: freshStream(), expected: 'noStream' as const, events: [someEvent()] }] }
  assert.equal(latestDecision([item]), Number.NEGATIVE_INFINITY)
  assert.equal(latestDecision([itemAt(1_000), itemAt(3_000), itemAt(2_000)]), 3_000)
})

test('a log refuses events of the future from every caller, and accepts the others of the same call', async (t) => {
  const { url } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  let problem: string | null = null
  const guarded = guardAppends(log, { clock: () => 100_000, problem: () => problem })
  const outcomes = await guarded.appendAll([itemAt(105_001), itemAt(105_000), itemAt(1_000)])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['unavailable', 'landed', 'landed'],
  )
  await assert.rejects(
    guarded.append(freshStream(), 'noStream', [eventOf({ recordedAt: iso(105_001) })]),
    LogUnavailable,
  )
  problem = 'the clock is wrong'
  const refused = await guarded.appendAll([itemAt(1_000)])
  assert.ok(refused[0]?.status === 'unavailable' && /the clock is wrong/.test(refused[0].cause.message))
  assert.equal((await allAfter(log, 0)).length, 2)
})

test("Postgres refuses times later than its own clock plus the service's offset, on each way into the log", async (t) => {
  const { url } = await testDatabase(t)
  let clockOffsetMs = 0
  const log = await openLog(url, { clockOffsetMs: () => clockOffsetMs })
  t.after(() => log.close())
  const stream = freshStream()
  const later = () => itemAt(Date.now() + dayMs)
  const refused = async (item: ReturnType<typeof itemAt>) => {
    const [outcome] = await log.appendAll([item])
    assert.equal(outcome?.status, 'unavailable')
    assert.match(outcome.cause.message, /is of the future/)
  }
  await refused(later())
  assert.equal((await log.appendAll([itemAt(1_000, stream)]))[0]?.status, 'landed', 'as of an import')
  await refused({ appends: [...itemAt(2_000, stream).appends, ...later().appends] })
  for (const _ of ['one', 'and again'])
    assert.equal((await log.appendAll([itemAt(2_000, stream)]))[0]?.status, 'conflict')
  clockOffsetMs = dayMs
  assert.equal((await log.appendAll([later()]))[0]?.status, 'landed')
  assert.equal((await allAfter(log, 0)).length, 2)
})
