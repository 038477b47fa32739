import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allAfter, freshStream, only, someEvents, streamOf } from './events.ts'
import type { OpenLog } from './under-test.ts'

export const readContract = (openLog: OpenLog): void => {
  test('an absent stream has no events, no last one and no tail', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    assert.deepEqual(await streamOf(log, stream), [])
    assert.equal(await log.lastOf(stream), null)
    assert.equal((await log.readStreams([{ stream, from: 0 }])).size, 0)
    assert.equal((await log.readStreams([])).size, 0)
  })

  test('a stream is read from a revision on, also over many pages', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    const size = 500
    for (let round = 0; round < 5; round++)
      await log.append(stream, round === 0 ? 'noStream' : round * size - 1, someEvents(size))
    for (const from of [0, 1, 999, 1_000, 1_001, 2_499, 2_500, 9_999]) {
      const revisions = (await streamOf(log, stream, from)).map((event) => event.revision)
      assert.deepEqual(
        revisions,
        Array.from({ length: Math.max(0, 2_500 - from) }, (_, index) => from + index),
      )
    }
  })

  test('the tails of many streams are read at once, each from its own revision', async (t) => {
    const { log } = await openLog(t)
    const streams = Array.from({ length: 30 }, freshStream)
    await log.appendAll(
      streams.map((stream, index) => ({
        appends: [{ stream, expected: 'noStream' as const, events: someEvents(1 + (index % 7)) }],
      })),
    )
    const tails = await log.readStreams([
      ...streams.map((stream, index) => ({ stream, from: index % 5 })),
      { stream: freshStream(), from: 0 },
    ])
    for (const [index, stream] of streams.entries()) {
      const expected = await streamOf(log, stream, index % 5)
      assert.deepEqual(tails.get(stream) ?? [], expected)
      assert.equal(tails.has(stream), expected.length > 0)
    }
    assert.equal(tails.size, streams.filter((_, index) => index % 7 >= index % 5).length)
  })

  test('the whole log is read strictly by position, in pages of any size', async (t) => {
    const { log, reopen } = await openLog(t)
    const before = await log.head()
    const streams = Array.from({ length: 20 }, freshStream)
    for (const stream of streams) await log.append(stream, 'noStream', someEvents(3))
    const whole = await allAfter(await reopen(), before)
    assert.deepEqual(
      only(whole, streams).map((event) => [event.stream, event.revision]),
      streams.flatMap((stream) => [0, 1, 2].map((revision) => [stream, revision])),
    )
    for (const page of [1, 2, 3, 59, 60, 61]) assert.deepEqual(await allAfter(log, before, page), whole)
    assert.equal((await log.readAll(before, 5)).length, 5)
    const last = whole.at(-1)!.position
    assert((await log.head()) >= last)
    assert.deepEqual(only(await log.readAll(last, 10), streams), [])
    assert.deepEqual(await log.readAll(last - 1, 1), [whole.at(-1)])
  })

  test('the head is at least the last append, as every connection sees it', async (t) => {
    const { log, reopen } = await openLog(t)
    const other = await reopen()
    const before = await log.head()
    const { position } = await log.append(freshStream(), 'noStream', someEvents(2))
    assert(position > before)
    assert((await log.head()) >= position)
    assert((await other.head()) >= position)
  })

  test('the log keeps the id that was made with it', async (t) => {
    const { log, reopen } = await openLog(t)
    const id = await log.logId()
    assert.match(id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    assert.equal(await (await reopen()).logId(), id)
    await log.append(freshStream(), 'noStream', someEvents(1))
    assert.equal(await log.logId(), id)
    const raced = await Promise.all([reopen(), reopen()])
    for (const each of raced) assert.equal(await each.logId(), id)
  })
}
