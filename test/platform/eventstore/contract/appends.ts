import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import { WrongExpectedRevision } from '../../../../src/platform/eventstore/errors.ts'
import type { Appended, EventLog, Expected, NewEvent } from '../../../../src/platform/eventstore/port.ts'
import { allAfter, freshStream, only, someEvent, someEvents, streamOf, written } from './events.ts'
import type { LogTraits, OpenLog } from './under-test.ts'

type Try = {
  readonly events: NewEvent[]
  readonly appended: Appended | null
  readonly actual: Expected | null
}

/** Appends and distinguishes a conflict from success; anything else is thrown. */
const attempt = async (
  log: EventLog,
  stream: StreamName,
  expected: Expected,
  events: NewEvent[],
): Promise<Try> => {
  try {
    return { events, appended: await log.append(stream, expected, events), actual: null }
  } catch (error) {
    assert(error instanceof WrongExpectedRevision, String(error))
    assert.equal(error.stream, stream)
    assert.equal(error.expected, expected)
    return { events, appended: null, actual: error.actual }
  }
}

export const appendContract = (openLog: OpenLog, traits: LogTraits): void => {
  test('an append to a new stream starts at revision 0 and goes on from there', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    const [first, second, third] = someEvents(3) as [NewEvent, NewEvent, NewEvent]
    const created = await log.append(stream, 'noStream', [first])
    assert.equal(created.revision, 0)
    const continued = await log.append(stream, 0, [second, third])
    assert.equal(continued.revision, 2)
    assert(continued.position > created.position)
    const stored = await streamOf(log, stream)
    assert.deepEqual(stored.map(written), [first, second, third])
    assert.deepEqual(
      stored.map((event) => [event.stream, event.revision]),
      [0, 1, 2].map((revision) => [stream, revision]),
    )
    assert.equal(stored[0]!.position, created.position)
    assert.equal(stored[2]!.position, continued.position)
    assert.equal((await log.lastOf(stream))!.position, continued.position)
  })

  test('an expectation that does not hold is refused with the actual revision, and nothing is written', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    const missing = await attempt(log, stream, 4, [someEvent()])
    assert.equal(missing.actual, 'noStream')
    await log.append(stream, 'noStream', someEvents(3))
    for (const expected of ['noStream', 0, 1, 3, 17] as const) {
      const refused = await attempt(log, stream, expected, [someEvent()])
      assert.equal(refused.actual, 2, `expected ${expected}`)
    }
    assert.equal((await streamOf(log, stream)).length, 3)
  })

  for (const expectation of ['noStream', 'a revision'] as const)
    test(`of two connections that race with ${expectation} one wins and the other learns where the stream is`, async (t) => {
      const { log, reopen } = await openLog(t)
      const other = await reopen()
      for (let round = 0; round < 40; round++) {
        const stream = freshStream()
        let expected: Expected = 'noStream'
        if (expectation !== 'noStream')
          expected = (await log.append(stream, 'noStream', someEvents(2))).revision
        const size = 1 + (round % 3)
        const tries = await Promise.all(
          [log, other, log, other].map((each) => attempt(each, stream, expected, someEvents(size))),
        )
        const winners = tries.filter((each) => each.appended !== null)
        assert.equal(winners.length, 1)
        const last = (expected === 'noStream' ? -1 : expected) + size
        for (const loser of tries) if (loser.appended === null) assert.equal(loser.actual, last)
        const stored = await streamOf(other, stream, last - size + 1)
        assert.deepEqual(stored.map(written), winners[0]!.events)
      }
    })

  test('several events of one append land together: no reader ever sees a part of them', async (t) => {
    const { log, reopen } = await openLog(t)
    const other = await reopen()
    const stream = freshStream()
    const size = 50
    const rounds = 20
    let writing = true
    const reader = (async () => {
      let looks = 0
      while (writing || looks === 0) {
        assert.equal((await streamOf(other, stream)).length % size, 0)
        looks++
      }
      return looks
    })()
    const writers = (async () => {
      for (let round = 0; round < rounds; round++) {
        const expected = round === 0 ? 'noStream' : round * size - 1
        await Promise.all([log, other].map((each) => attempt(each, stream, expected, someEvents(size))))
      }
    })().finally(() => {
      writing = false
    })
    const [looks] = await Promise.all([reader, writers])
    assert(looks > 0)
    assert.equal((await streamOf(log, stream)).length, rounds * size)
  })

  test('an append that is sent again gives its first result and writes nothing, also when the stream went on', async (t) => {
    const { log, reopen } = await openLog(t)
    const other = await reopen()
    const stream = freshStream()
    const opening = someEvents(2)
    const next = someEvents(3)
    const opened = await log.append(stream, 'noStream', opening)
    assert.deepEqual(await log.append(stream, 'noStream', opening), opened)
    const continued = await log.append(stream, 1, next)
    await log.append(stream, 4, [someEvent()])
    for (const each of [log, other, await reopen()]) {
      assert.deepEqual(await each.append(stream, 'noStream', opening), opened)
      assert.deepEqual(await each.append(stream, 1, next), continued)
    }
    assert.equal((await streamOf(log, stream)).length, 6)
  })

  test('an append that is sent twice at once lands once', async (t) => {
    const { log, reopen } = await openLog(t)
    const other = await reopen()
    for (let round = 0; round < 20; round++) {
      const stream = freshStream()
      const events = someEvents(2)
      const results = await Promise.all(
        [log, other, log].map((each) => each.append(stream, 'noStream', events)),
      )
      for (const result of results) assert.deepEqual(result, results[0])
      assert.equal((await streamOf(log, stream)).length, 2)
    }
  })

  test('an append that is sent again with one more event, or at another revision, conflicts', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    const events = someEvents(2)
    await log.append(stream, 'noStream', events)
    assert.equal((await attempt(log, stream, 'noStream', [...events, someEvent()])).actual, 1)
    assert.equal((await attempt(log, stream, 5, events)).actual, 1)
    assert.equal((await streamOf(log, stream)).length, 2)
  })

  test('positions strictly increase over all streams and connections', async (t) => {
    const { log, reopen } = await openLog(t)
    const logs = [log, await reopen(), await reopen()]
    const before = await log.head()
    const streams: StreamName[] = []
    for (let round = 0; round < 20; round++)
      await Promise.all(
        logs.map(async (each) => {
          const stream = freshStream()
          streams.push(stream)
          await each.append(stream, 'noStream', someEvents(1 + (round % 4)))
        }),
      )
    const events = await allAfter(log, before, 7)
    for (const [index, event] of events.entries())
      assert(event.position > (events[index - 1]?.position ?? before), `at ${index}`)
    const ours = only(events, streams)
    assert.equal(ours.length, 3 * 50)
    if (traits.gapless)
      assert.deepEqual(
        ours.map((event) => event.position),
        ours.map((_, index) => before + 1 + index),
      )
  })
}
