import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { AppendItem } from '../../../src/platform/eventstore/port.ts'
import { testDatabase } from '../../support/postgres.ts'
import { Crash, prefixLog, type Stop, stopAtAppend } from '../../support/prefix-log.ts'
import { freshStream, someEvents, streamOf } from './contract/events.ts'
import { runLogContract } from './contract.ts'
import { openLog, postgresUnderTest } from './open-postgres.ts'

runLogContract(
  'prefixes over postgres',
  postgresUnderTest((log) => prefixLog(log)),
  { gapless: true, atomicItems: false },
)

const world = async (t: TestContext) => {
  const { url } = await testDatabase(t)
  const inner = await openLog(url)
  t.after(() => inner.close())
  const appends = Array.from({ length: 4 }, () => ({
    stream: freshStream(),
    expected: 'noStream' as const,
    events: someEvents(2),
  }))
  const item: AppendItem = { appends }
  const standing = async (): Promise<number> => {
    const streams = await Promise.all(appends.map(({ stream }) => streamOf(inner, stream)))
    const first = streams.findIndex((events) => events.length === 0)
    const prefix = first === -1 ? streams.length : first
    for (const [index, events] of streams.entries()) assert.equal(events.length, index < prefix ? 2 : 0)
    return prefix
  }
  return { inner, item, standing }
}

const stops: readonly { readonly stop: Stop; readonly written: number }[] = [
  { stop: { kind: 'unavailable' }, written: 0 },
  { stop: { kind: 'unknown', written: false }, written: 0 },
  { stop: { kind: 'unknown', written: true }, written: 1 },
  { stop: { kind: 'crash', written: false }, written: 0 },
  { stop: { kind: 'crash', written: true }, written: 1 },
]
for (const { stop, written } of stops)
  test(`a stop (${JSON.stringify(stop)}) leaves each prefix of an item, and the item sent again completes it`, async (t) => {
    for (let at = 0; at < 4; at++) {
      const { inner, item, standing } = await world(t)
      const log = prefixLog(inner, stopAtAppend(at, stop))
      if (stop.kind === 'crash') await assert.rejects(log.appendAll([item]), Crash)
      else {
        const [outcome] = await log.appendAll([item])
        assert.equal(outcome!.status, stop.kind)
        assert.equal((outcome as { landed: readonly unknown[] }).landed.length, at)
      }
      assert.equal(await standing(), at + written)
      for (const each of [log, inner]) {
        const [again] = await each.appendAll([item])
        assert.equal(again!.status, 'landed')
      }
      assert.equal(await standing(), 4)
    }
  })

test('another writer between two appends of an item leaves the prefix before it as a conflict', async (t) => {
  const { inner, item } = await world(t)
  const log = prefixLog(inner, async ({ index, append }) => {
    if (index === 2) await inner.append(append.stream, 'noStream', someEvents(1))
    return null
  })
  const [outcome] = await log.appendAll([item])
  const [first, second, third, fourth] = item.appends.map(({ stream }) => stream)
  assert.deepEqual(outcome, {
    status: 'conflict',
    stream: third,
    actual: 0,
    landed: [await inner.lastOf(first!), await inner.lastOf(second!)],
  })
  assert.equal(await inner.lastOf(fourth!), null)
})
