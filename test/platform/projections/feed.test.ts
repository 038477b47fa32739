import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { until } from '../../support/until.ts'
import { decode } from './engine.ts'

const stream = ledgerStream('acc_one' as AccountId)
const inTime = AbortSignal.timeout(60_000)

/** A log of this many events, of type `Odd` and `Even` in turn, and a feed that starts at its end. */
const feedAfter = async (t: TestContext, events: number) => {
  const log = createMemoryLog()
  let count = 0
  const append = async (): Promise<void> => {
    const type = ++count % 2 === 0 ? 'Even' : 'Odd'
    await log.append(stream, count === 1 ? 'noStream' : count - 2, [
      { id: randomUUID(), type, data: '{}', metadata: '{}' },
    ])
  }
  for (let n = 0; n < events; n += 1) await append()
  const feed = createLogFeed({ log, decode, onError: assert.ifError })
  t.after(() => feed.close())
  return { feed, append }
}

const never = 2 ** 31 - 1

test('a reader that is behind does not wait for a batch of events, whatever the batch window', async (t) => {
  const { feed, append } = await feedAfter(t, 5)
  const reader = feed.reader({ batchWindowMs: never })
  t.after(() => reader.close())
  let after = 0
  const readOn = async (limit: number): Promise<number> => {
    await reader.waitForEvent(after, inTime)
    after = (await reader.next(after, limit, inTime)).at(-1)!.position
    return after
  }
  assert.equal(await readOn(2), 2, 'from the log')
  assert.equal(await readOn(2), 4)
  assert.equal(await readOn(2), 5, 'the end: from now on it lets them gather')
  assert.equal(reader.has(5), false)
  for (let n = 0; n < 3; n += 1) await append()
  await feed.next(7, 1, inTime)
  assert.equal(reader.has(5), true)
  const waits = new AbortController()
  const waiting = reader.waitForEvent(5, waits.signal)
  const over = await Promise.race([waiting, sleep(50, 'it waits')])
  assert.equal(over, 'it waits')
  waits.abort(new Error('enough'))
  await assert.rejects(waiting, /^Error: enough$/)
  assert.equal((await reader.nextStored(5, 2, inTime)).length, 2)
  await reader.waitForEvent(7, inTime) // one was left, so it is behind again
})

test('a reader that was never at the end reads at once, and so does one without a batch window', async (t) => {
  const { feed, append } = await feedAfter(t, 1)
  const slow = feed.reader({ batchWindowMs: never })
  const quick = feed.reader()
  t.after(() => slow.close())
  t.after(() => quick.close())
  await slow.waitForEvent(0, inTime)
  await quick.next(0, 10, inTime)
  const waiting = quick.waitForEvent(1, inTime)
  await append()
  await waiting
})

test('a failed subscription is reopened after the last received event, also if all events were dropped from the cache', async (t) => {
  const log = createMemoryLog()
  const opened: number[] = []
  let fail = (): void => undefined
  const failing: EventLog = {
    ...log,
    async *subscribeAll(options) {
      opened.push(options.after)
      const broken = new AbortController()
      fail = () => broken.abort()
      yield* log.subscribeAll({ ...options, signal: AbortSignal.any([options.signal, broken.signal]) })
      if (broken.signal.aborted) throw new Error('the subscription broke')
    },
  }
  const errors: unknown[] = []
  const feed = createLogFeed({ log: failing, decode, onError: (error) => errors.push(error) })
  t.after(() => feed.close())
  const reader = feed.reader()
  const first = reader.waitForEvent(0, inTime)
  await until(() => opened.length === 1)
  const event = () => ({ id: randomUUID(), type: 'Odd', data: '{}', metadata: '{}' })
  await log.append(stream, 'noStream', Array.from({ length: 600 }, event))
  await first
  let after = 0
  while (after < 600) after = (await reader.next(after, 600, inTime)).at(-1)!.position
  const waiting = reader.waitForEvent(600, inTime)
  fail()
  await until(() => opened.length === 2)
  assert.deepEqual(opened, [0, 600])
  assert.equal(errors.length, 1)
  await log.append(stream, 599, [event()])
  await waiting
  assert.equal((await reader.next(600, 10, inTime))[0]?.position, 601)
})
