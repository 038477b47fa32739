import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { expectedFrom } from '../../../src/platform/eventstore/append-guards.ts'
import type { EventLog, Expected } from '../../../src/platform/eventstore/port.ts'
import { createStreamRevisionCache } from '../../../src/platform/eventstore/postgres/revision-cache.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { testDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { allAfter, freshStream, someEvents, streamOf } from './contract/events.ts'
import { openLog } from './open-postgres.ts'
import { setBack } from './set-back.ts'

/** Appends at an expectation; returns the revision at the end of the stream, or the one of the conflict. */
const tryAppend = async (log: EventLog, stream: StreamName, after: number, count: number) => {
  const append = { stream, expected: expectedFrom(after), events: someEvents(count) }
  const [outcome] = await log.appendAll([{ appends: [append] }])
  if (outcome!.status === 'landed') return { landed: outcome!.appended[0]!.revision }
  assert.equal(outcome!.status, 'conflict', JSON.stringify(outcome))
  return { conflict: outcome!.status === 'conflict' ? outcome!.actual : null }
}

test('an append lands at the end of its stream or returns the revision there, whichever of two processes appended last', async (t) => {
  const { url } = await testDatabase(t)
  const logs = [await openLog(url), await openLog(url)]
  for (const log of logs) t.after(() => log.close())
  const step = fc.record({
    process: fc.nat({ max: 1 }),
    stream: fc.nat({ max: 1 }),
    /** How far the expectation is from the truth: most are right, some behind or ahead. */
    off: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: -2, max: 2 })),
    count: fc.integer({ min: 1, max: 3 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      const streams = [freshStream(), freshStream()]
      const ends = [-1, -1]
      for (const { process, stream, off, count } of steps) {
        const end = ends[stream]!
        const expected = Math.max(end + off, -1)
        const answer = await tryAppend(logs[process]!, streams[stream]!, expected, count)
        if (expected === end) ends[stream] = end + count
        assert.deepEqual(answer, expected === end ? { landed: end + count } : { conflict: expectedFrom(end) })
      }
      for (const [index, stream] of streams.entries()) {
        const revisions = (await streamOf(logs[0]!, stream)).map(({ revision }) => revision)
        assert.deepEqual(
          revisions,
          Array.from({ length: ends[index]! + 1 }, (_, n) => n),
        )
      }
    }),
    { numRuns: runs(40) },
  )
  const positions = (await allAfter(logs[0]!, 0)).map(({ position }) => position)
  assert.deepEqual(
    positions,
    positions.map((_, n) => n + 1),
  )
})

test('a log that was set back under a process accepts nothing more from it, and reports it once', async (t) => {
  const { url, pool } = await testDatabase(t)
  const reported: Error[] = []
  const log = await openLog(url, { onSetBack: (error) => reported.push(error) })
  t.after(() => log.close())
  const stream = freshStream()
  for (const after of [-1, 0, 1])
    assert.deepEqual(await tryAppend(log, stream, after, 1), { landed: after + 1 })
  await setBack(pool, 2)
  const append = async (to: StreamName, expected: Expected) =>
    (await log.appendAll([{ appends: [{ stream: to, expected, events: someEvents(1) }] }]))[0]!
  await until(async () => {
    await append(stream, 2)
    return reported.length > 0
  })
  for (const outcome of [await append(stream, 1), await append(freshStream(), 'noStream')])
    assert.deepEqual(outcome, { status: 'unavailable', cause: reported[0], landed: [] })
  assert.equal(reported.length, 1)
  assert.equal(await log.head(), 2)
})

test('the revision after an own append is known until another process appends to the stream', () => {
  const tails = createStreamRevisionCache()
  const stream = freshStream()
  const other = freshStream()
  const items = (after: number, ...streams: StreamName[]) =>
    streams.map((each) => ({
      appends: [{ stream: each, expected: expectedFrom(after), events: someEvents(2) }],
    }))
  tails.recordAppended(items(-1, stream))
  assert.equal(tails.hasRevision(stream, 1), false, 'its first events are not remembered')
  tails.recordAppended(items(1, stream, other))
  assert.deepEqual(
    [1, 3, 4].map((revision) => tails.hasRevision(stream, revision)),
    [true, true, false],
  )
  tails.contested(stream)
  assert.equal(tails.hasRevision(stream, 1), false)
  tails.recordAppended(items(5, stream, other))
  assert.equal(tails.hasRevision(stream, 7), false, 'others append to it')
  assert.equal(tails.hasRevision(other, 7), true)
})
