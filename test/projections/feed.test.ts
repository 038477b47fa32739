import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { createLogFeed } from '../../projections/engine/feed.ts'
import { ledgerStream } from '../../src/eventstore/streams.ts'
import type { AccountId } from '../../src/ids.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { decode } from './engine.ts'

const stream = ledgerStream('acc_one' as AccountId)
const inTime = AbortSignal.timeout(60_000)

/** A feed that starts at the end of a log of so many events, of type `Odd` and `Even` in turn, and its log. */
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

const even = new Set(['Even'])

test('a selection looks at so many events and says when there may be more of them', async (t) => {
  const { feed, append } = await feedAfter(t, 5)
  const look = async (after: number, limit: number) => {
    const { through, events, full } = await feed.nextOfTypes(after, limit, even, inTime)
    return { through, positions: events.map(({ position }) => position), full }
  }
  assert.deepEqual(await look(0, 4), { through: 4, positions: [2, 4], full: true }, 'from the log')
  assert.deepEqual(await look(4, 4), { through: 5, positions: [], full: false }, 'nothing of the type')
  const waiting = look(5, 2)
  await append()
  assert.deepEqual(await waiting, { through: 6, positions: [6], full: false }, 'one that came')
  await append()
  await append()
  await feed.next(7, 1, inTime) // both have arrived
  assert.deepEqual(await look(5, 2), { through: 7, positions: [6], full: true }, 'from memory')
  assert.deepEqual(await look(5, 4), { through: 8, positions: [6, 8], full: false }, 'all that is there')
})
