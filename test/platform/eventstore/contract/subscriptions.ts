import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import type { EventLog, StoredEvent } from '../../../../src/platform/eventstore/port.ts'
import { until } from '../../../support/until.ts'
import { allAfter, freshStream, only, someEvents } from './events.ts'
import type { OpenLog } from './under-test.ts'
import { startWriter } from './writer.ts'

type Follower = {
  readonly events: StoredEvent[]
  readonly largestBatch: () => number
  /** Ends the subscription and waits for its end. */
  stop(): Promise<void>
}

/** Subscribes and collects; the order, the batches and the end are asserted on the way. */
const follow = (t: TestContext, log: EventLog, after: number, maxBatch?: number): Follower => {
  const events: StoredEvent[] = []
  const abort = new AbortController()
  let largest = 0
  let ended = false
  const done = (async () => {
    const options = { after, signal: abort.signal, ...(maxBatch === undefined ? {} : { maxBatch }) }
    let position = after
    for await (const batch of log.subscribeAll(options)) {
      assert(batch.length > 0)
      largest = Math.max(largest, batch.length)
      for (const event of batch) {
        assert(event.position > position, `${event.position} after ${position}`)
        position = event.position
      }
      events.push(...batch)
    }
    ended = true
  })()
  // Before stop() is awaited a failure would be unhandled.
  done.catch(() => undefined)
  const stop = async () => {
    assert(!ended, 'a subscription ended by itself')
    abort.abort()
    await done
  }
  t.after(() => abort.abort())
  return { events, largestBatch: () => largest, stop }
}

const seen = (follower: Follower, streams: readonly StreamName[], count: number) =>
  until(() => only(follower.events, streams).length >= count, { timeoutMs: 60_000 })

export const subscriptionContract = (openLog: OpenLog): void => {
  test('a subscription delivers what stands after its position, then what lands, and ends by its signal', async (t) => {
    const { log, reopen } = await openLog(t)
    const other = await reopen()
    const stream = freshStream()
    const skipped = await log.append(stream, 'noStream', someEvents(2))
    await log.append(stream, 1, someEvents(5))
    const follower = follow(t, log, skipped.position, 2)
    await seen(follower, [stream], 5)
    for (let revision = 6; revision < 26; revision++)
      await (revision % 2 === 0 ? log : other).append(stream, revision, someEvents(1))
    await seen(follower, [stream], 25)
    await follower.stop()
    assert.deepEqual(only(follower.events, [stream]), only(await allAfter(log, skipped.position), [stream]))
    assert(follower.largestBatch() <= 2)
  })

  test('a subscription whose signal was aborted before it started gives nothing', async (t) => {
    const { log } = await openLog(t)
    await log.append(freshStream(), 'noStream', someEvents(1))
    for await (const batch of log.subscribeAll({ after: 0, signal: AbortSignal.abort() }))
      assert.fail(`${batch.length}`)
  })

  test('several subscriptions of one log are independent of each other', async (t) => {
    const { log } = await openLog(t)
    const start = await log.head()
    const streams = [freshStream(), freshStream()]
    const followers = [follow(t, log, start), follow(t, log, start, 1), follow(t, log, start, 10)]
    await log.append(streams[0]!, 'noStream', someEvents(40))
    await Promise.all(followers.map((each) => seen(each, streams, 40)))
    await followers[0]!.stop()
    await log.append(streams[1]!, 'noStream', someEvents(2))
    await Promise.all(followers.slice(1).map((each) => seen(each, streams, 42)))
    assert.equal(only(followers[0]!.events, streams).length, 40)
  })

  test('a slow subscriber is not hurried and misses nothing', async (t) => {
    const { log } = await openLog(t)
    const start = await log.head()
    const stream = freshStream()
    const abort = new AbortController()
    const received: StoredEvent[] = []
    let landed = await log.append(stream, 'noStream', someEvents(1))
    for await (const batch of log.subscribeAll({ after: start, maxBatch: 3, signal: abort.signal })) {
      received.push(...only(batch, [stream]))
      if (landed.revision < 30) landed = await log.append(stream, landed.revision, someEvents(2))
      if (received.length === landed.revision + 1) abort.abort()
    }
    assert.deepEqual(
      received.map((event) => event.revision),
      Array.from({ length: 31 }, (_, index) => index),
    )
  })

  test('a subscription resumed from its last position after a restart loses and repeats nothing', async (t) => {
    const { log, reopen } = await openLog(t)
    const start = await log.head()
    const stream = freshStream()
    await log.append(stream, 'noStream', someEvents(10))
    const resumed: StoredEvent[] = []
    let position = start
    for (let restart = 0; restart < 5; restart++) {
      const restarted = await reopen()
      const follower = follow(t, restarted, position, 4)
      const wanted = 10 * (restart + 1) - 3
      await until(() => only([...resumed, ...follower.events], [stream]).length >= wanted, {
        timeoutMs: 60_000,
      })
      await follower.stop()
      await restarted.close()
      resumed.push(...follower.events)
      position = resumed.at(-1)!.position
      await log.append(stream, 10 * (restart + 1) - 1, someEvents(10))
    }
    const last = follow(t, log, position)
    await until(() => only([...resumed, ...last.events], [stream]).length === 60, { timeoutMs: 60_000 })
    assert.deepEqual(
      only([...resumed, ...last.events], [stream]).map((event) => event.revision),
      Array.from({ length: 60 }, (_, index) => index),
    )
  })

  test('subscriptions see every event of concurrent writers in several processes, once and in one order', async (t) => {
    const { log, reopen, elsewhere } = await openLog(t)
    const start = await log.head()
    const followers = [follow(t, log, start), follow(t, await reopen(), start, 7)]
    const streams = Array.from({ length: 3 }, () => Array.from({ length: 8 }, freshStream))
    const perStream = 60
    await Promise.all(streams.map((each) => startWriter(t, elsewhere, { streams: each, perStream })))
    const flat = streams.flat()
    const total = flat.length * perStream
    await Promise.all(followers.map((each) => seen(each, flat, total)))
    const stored = only(await allAfter(log, start), flat)
    assert.equal(stored.length, total)
    for (const follower of followers) assert.deepEqual(only(follower.events, flat), stored)
    for (const stream of flat)
      assert.deepEqual(
        only(stored, [stream]).map((event) => event.revision),
        Array.from({ length: perStream }, (_, index) => index),
      )
  })

  test('a subscription survives broken connections while another process writes, and loses and repeats nothing', async (t) => {
    const { log, interrupt, elsewhere } = await openLog(t)
    if (interrupt === null) return t.skip('this store cannot be interrupted from here')
    const start = await log.head()
    const follower = follow(t, log, start, 50)
    const streams = Array.from({ length: 8 }, freshStream)
    const perStream = 150
    const writer = startWriter(t, elsewhere, { streams, perStream })
    for (const share of [0.1, 0.4, 0.7]) {
      await seen(follower, streams, share * streams.length * perStream)
      await interrupt()
    }
    await writer
    await seen(follower, streams, streams.length * perStream)
    // A read may meet a connection that was just broken.
    const stored = only(await until(() => allAfter(log, start)), streams)
    assert.equal(stored.length, streams.length * perStream)
    assert.deepEqual(only(follower.events, streams), stored)
  })
}
