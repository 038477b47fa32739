import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamName } from '../../../../src/kernel/streams.ts'
import type { AppendItem, Expected, NewEvent } from '../../../../src/platform/eventstore/port.ts'
import fc, { runs } from '../../../support/fast-check.ts'
import { allAfter, freshStream, only, someEvent, streamOf, written } from './events.ts'
import type { OpenLog } from './under-test.ts'

/** One step: an append to one of four streams, at an expectation that is off by so much, or a landed one sent again. */
type Step =
  | {
      readonly kind: 'item'
      readonly stream: number
      readonly off: number
      readonly texts: string[]
    }
  | { readonly kind: 'resend'; readonly which: number }

const steps = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant('item' as const),
      stream: fc.nat({ max: 3 }),
      off: fc.constantFrom(0, 0, 0, 0, -1, 1, 5),
      texts: fc.array(
        fc.json().map((text) => text.replaceAll('\u0000', '')),
        { minLength: 1, maxLength: 4 },
      ),
    }),
    fc.record({ kind: fc.constant('resend' as const), which: fc.nat() }),
  ),
  { maxLength: 25 },
)

const expectation = (length: number, off: number): Expected => {
  const revision = length - 1 + off
  return revision < 0 ? 'noStream' : revision
}

/**
 * The invariant: a log is a list of events a stream. An item lands exactly when its expectation names the end of the list;
 * one that landed before gives its first outcome again and changes nothing; all else conflicts with the actual end.
 */
export const modelContract = (openLog: OpenLog): void => {
  test('any sequence of appends, wrong expectations and resends behaves as a list of events a stream', async (t) => {
    const { log, reopen } = await openLog(t)
    const logs = [log, await reopen()]
    const check = async (sequence: readonly Step[]): Promise<void> => {
      const start = await log.head()
      const streams = Array.from({ length: 4 }, freshStream)
      const model = new Map<StreamName, NewEvent[]>(streams.map((stream) => [stream, []]))
      const landed: { readonly item: AppendItem; readonly outcome: unknown }[] = []
      for (const [index, step] of sequence.entries()) {
        const each = logs[index % 2]!
        if (step.kind === 'resend') {
          const former = landed[step.which % Math.max(1, landed.length)]
          if (former === undefined) continue
          assert.deepEqual((await each.appendAll([former.item]))[0], former.outcome)
          continue
        }
        const stream = streams[step.stream]!
        const list = model.get(stream)!
        const expected = expectation(list.length, step.off)
        const events = step.texts.map((text) => someEvent(text))
        const item = { appends: [{ stream, expected, events }] }
        const [outcome] = await each.appendAll([item])
        const actual = expectation(list.length, 0)
        if (expected === actual) {
          assert.equal(outcome!.status, 'landed')
          list.push(...events)
          landed.push({ item, outcome })
        } else assert.deepEqual(outcome, { status: 'conflict', stream, actual, landed: [] })
      }
      for (const [stream, list] of model) {
        assert.deepEqual((await streamOf(log, stream)).map(written), list)
        assert.equal((await log.lastOf(stream))?.revision ?? -1, list.length - 1)
      }
      const inOrder = landed.flatMap(({ item }) => item.appends.flatMap((append) => append.events))
      assert.deepEqual(only(await allAfter(log, start), streams).map(written), inOrder)
    }
    await fc.assert(fc.asyncProperty(steps, check), { numRuns: runs(40) })
  })
}
