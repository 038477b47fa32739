import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../../src/kernel/streams.ts'
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

  test('the tails of many streams are cut at the requested number of events of each', async (t) => {
    const { log } = await openLog(t)
    const [long, short] = [freshStream(), freshStream()]
    await log.append(long, 'noStream', someEvents(7))
    await log.append(short, 'noStream', someEvents(2))
    const tails = await log.readStreams(
      [
        { stream: long, from: 2 },
        { stream: short, from: 0 },
      ],
      3,
    )
    const revisions = (stream: StreamName) => tails.get(stream)?.map(({ revision }) => revision)
    assert.deepEqual(
      [revisions(long), revisions(short)],
      [
        [2, 3, 4],
        [0, 1],
      ],
    )
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

  test('an event is found by its exact position, and nothing between, before or after events', async (t) => {
    const { log } = await openLog(t)
    const before = await log.head()
    const stream = freshStream()
    for (const expected of ['noStream', 0, 1] as const) await log.append(stream, expected, someEvents(1))
    const written = await allAfter(log, before)
    for (const event of written) assert.deepEqual(await log.eventAt(event.position), event)
    const positions = new Set(written.map(({ position }) => position))
    const [first, last] = [written[0]!.position, written.at(-1)!.position]
    for (const position of [first + 1, last - 1, last + 1, last + 1_000_000])
      if (!positions.has(position)) assert.equal((await log.eventAt(position))?.position, undefined)
    assert.equal(await log.eventAt(0), null)
  })

  test('the events before an event are read backwards, nearest first, up to the limit', async (t) => {
    const { log } = await openLog(t)
    const before = await log.head()
    const streams = Array.from({ length: 4 }, freshStream)
    for (const stream of streams) await log.append(stream, 'noStream', someEvents(300))
    const written = await allAfter(log, before)
    const backwards = written.slice(0, -1).reverse()
    const { position } = written.at(-1)!
    for (const limit of [1, 499, 500, 501, backwards.length])
      assert.deepEqual(await log.readBefore(position, limit), backwards.slice(0, limit))
    const first = (await log.readAll(0, 1))[0]!
    assert.deepEqual(await log.readBefore(first.position, 10), [])
    assert.deepEqual(
      await log.readBefore(written[0]!.position, 1),
      before === 0 ? [] : [await log.eventAt(before)],
    )
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
