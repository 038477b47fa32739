import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import type { AppendItem } from '../../../../src/platform/eventstore/port.ts'
import { freshStream, someEvents } from './events.ts'
import type { LogTraits, OpenLog } from './under-test.ts'

const total = process.env.FAREBOX_SOAK === '1' ? 1_000_000 : 100_000
const perAppend = 25
const appendsPerStream = 40
const streamsAtOnce = 16

export const volumeContract = (openLog: OpenLog, traits: LogTraits): void => {
  test(`${total.toLocaleString('en')} events are written, read in order and subscribed to`, async (t) => {
    const { log } = await openLog(t)
    const startedMs = performance.now()
    const start = await log.head()
    const revisions = new Map<StreamName, number>()
    const writeStream = async (): Promise<void> => {
      const stream = freshStream()
      revisions.set(stream, -1)
      for (let n = 0; n < appendsPerStream; n++) {
        const expected = n === 0 ? 'noStream' : n * perAppend - 1
        const item: AppendItem = { appends: [{ stream, expected, events: someEvents(perAppend) }] }
        const [outcome] = await log.appendAll([item])
        assert.equal(outcome!.status, 'landed')
      }
    }
    let left = total / (perAppend * appendsPerStream)
    const writer = async (): Promise<void> => {
      while (left-- > 0) await writeStream()
    }
    await Promise.all(Array.from({ length: streamsAtOnce }, writer))

    const writtenMs = performance.now() - startedMs
    let position = start
    let count = 0
    const abort = new AbortController()
    for await (const batch of log.subscribeAll({ after: start, maxBatch: 2_000, signal: abort.signal })) {
      for (const event of batch) {
        assert(event.position > position)
        if (traits.gapless) assert.equal(event.position, position + 1)
        position = event.position
        const former = revisions.get(event.stream)
        if (former === undefined) continue
        assert.equal(event.revision, former + 1)
        revisions.set(event.stream, event.revision)
        count++
      }
      if (count >= total) abort.abort()
    }
    assert.equal(count, total)
    const readMs = performance.now() - startedMs - writtenMs
    const figures = { events: total, writtenMs: Math.round(writtenMs), readMs: Math.round(readMs) }
    process.stdout.write(`# volume of the log: ${JSON.stringify(figures)}\n`)
    for (const revision of revisions.values()) assert.equal(revision, perAppend * appendsPerStream - 1)
    const page = await log.readAll(position - 1, 10)
    assert.equal(page[0]!.position, position)
  })
}
