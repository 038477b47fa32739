import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppendRejected } from '../../../../src/platform/eventstore/errors.ts'
import { type AppendItem, maxAppendBytes, type NewEvent } from '../../../../src/platform/eventstore/port.ts'
import { freshStream, someEvent, someEvents, streamOf, written } from './events.ts'
import type { OpenLog } from './under-test.ts'

const texts: readonly string[] = [
  '{"name":"Ærøskøbing – 東京 – القاهرة – 👩‍👩‍👧‍👦 – \u{1F9FE}"}',
  '{ "b" : 1,   "a":2 , "a": 3 }',
  '{"escaped":"\\u0000 \\ud800 \\/ \\"quoted\\" \\\\ \\n"}',
  '{"number":12345678901234567890.10,"e":1E5}',
  `{"controls":"${String.fromCharCode(...Array.from({ length: 31 }, (_, code) => code + 1))}\u007f\u0085\u2028\u2029\ufeff"}`,
  '{"combining":"e\u0301 is not \u00e9","ligature":"\ufb01"}',
  `{"array literals":"{a,b} NULL \\\\ ' '' $1 %s \t"}`,
  'null',
  '""',
]

/** An append of exactly this many bytes of types, ids, data and metadata. */
const ofBytes = (bytes: number, events: number): NewEvent[] => {
  const made = someEvents(events).map((event) => ({ ...event, data: '""' }))
  const used = made.reduce(
    (sum, event) => sum + Buffer.byteLength(event.id + event.type + event.data + event.metadata),
    0,
  )
  const filler = JSON.stringify('ä'.repeat(Math.floor((bytes - used) / 2)) + 'x'.repeat((bytes - used) % 2))
  return [...made.slice(1), { ...made[0]!, data: filler }]
}

export const limitContract = (openLog: OpenLog): void => {
  test('data and metadata come back as the exact bytes that were written', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    const events = texts.map((text, index) => ({ ...someEvent(text), metadata: texts.at(-index - 1)! }))
    await log.append(stream, 'noStream', events)
    assert.deepEqual((await streamOf(log, stream)).map(written), events)
    const read = (await log.readStreams([{ stream, from: 0 }])).get(stream)!
    assert.deepEqual(read.map(written), events)
    assert.deepEqual(
      (await log.readAll(read[0]!.position - 1, 1_000))
        .filter((event) => event.stream === stream)
        .map(written),
      events,
    )
  })

  for (const count of [1, 3])
    test(`an append of exactly the limit in ${count} events lands, one byte more is refused cleanly`, async (t) => {
      const { log } = await openLog(t)
      const stream = freshStream()
      const full = ofBytes(maxAppendBytes, count)
      await log.append(stream, 'noStream', full)
      assert.deepEqual((await streamOf(log, stream)).map(written), full)
      await assert.rejects(log.append(stream, count - 1, ofBytes(maxAppendBytes + 1, count)), AppendRejected)
      await assert.rejects(log.append(freshStream(), 'noStream', ofBytes(4_000_000, count)), AppendRejected)
      assert.equal((await log.append(stream, count - 1, someEvents(1))).revision, count)
    })

  const refused: readonly { readonly what: string; readonly events: readonly NewEvent[] }[] = [
    { what: 'no events', events: [] },
    { what: 'a NUL in its data', events: [someEvent(), someEvent('{"a":"\u0000"}')] },
    { what: 'a NUL in its type', events: [{ ...someEvent(), type: 'Tri\u0000ed' }] },
    { what: 'a lone surrogate in its data', events: [someEvent('{"a":"\ud83d"}')] },
    {
      what: 'a lone surrogate in its metadata',
      events: [{ ...someEvent(), metadata: '{"a":"\udc00\ud800"}' }],
    },
    { what: 'too many bytes', events: ofBytes(maxAppendBytes + 1, 2) },
  ]
  for (const { what, events } of refused)
    test(`an append with ${what} is refused alone and nothing of it is written`, async (t) => {
      const { log } = await openLog(t)
      const [before, bad, after] = [freshStream(), freshStream(), freshStream()]
      await assert.rejects(log.append(bad, 'noStream', events), AppendRejected)
      const item = (stream: typeof bad, each: readonly NewEvent[]): AppendItem => ({
        appends: [{ stream, expected: 'noStream', events: each }],
      })
      const outcomes = await log.appendAll([
        item(before, someEvents(1)),
        item(bad, events),
        item(after, someEvents(1)),
      ])
      assert.deepEqual(
        outcomes.map((outcome) => outcome.status),
        ['landed', 'rejected', 'landed'],
      )
      assert.equal(await log.lastOf(bad), null)
    })
}
