import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AppendItem } from '../../../src/platform/eventstore/port.ts'
import { createRecentAppends } from '../../../src/platform/eventstore/postgres/revision-cache.ts'

const item = (n: number): AppendItem => ({
  appends: [
    {
      stream: `notice-${n}` as never,
      expected: 'noStream',
      events: [{ id: `${n}`, type: 'Noted', data: '{}', metadata: '{}' }],
    },
  ],
})

test('the events after a position are known as long as they follow without a gap', () => {
  const recent = createRecentAppends()
  recent.recordAppended(5, [item(1), item(2)])
  assert.deepEqual(
    recent.after(5, 10)?.map(({ position }) => position),
    [6, 7],
  )
  assert.equal(recent.after(4, 10), null)
  recent.recordAppended(9, [item(3)])
  assert.equal(recent.after(5, 10), null)
  assert.deepEqual(
    recent.after(9, 10)?.map(({ stream }) => stream),
    ['notice-3'],
  )
})

test('a reader that is woken before the answer of a batch finds its events after the answer', async () => {
  const recent = createRecentAppends()
  const answer = Promise.withResolvers<void>()
  recent.sending(answer.promise.then(() => recent.recordAppended(7, [item(1)])))
  assert.equal(recent.after(7, 10), null)
  const settled = recent.settled(7)
  answer.resolve()
  await settled
  assert.equal(recent.after(7, 10)?.length, 1)
})

test('no reader waits for a batch that cannot follow its position, or for one that hangs', async () => {
  const recent = createRecentAppends()
  recent.recordAppended(0, [item(1), item(2)])
  recent.sending(new Promise(() => undefined))
  let settled = false
  const behind = recent.settled(1).then(() => {
    settled = true
  })
  await Promise.resolve()
  await Promise.resolve()
  assert.equal(settled, true)
  await behind
  await recent.settled(2)
  assert.equal(recent.after(2, 10), null)
})
