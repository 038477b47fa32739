import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordedEvent } from '../../../../../src/kernel/event.ts'
import type { AccountId } from '../../../../../src/kernel/ids.ts'
import { sampleThing, sampleThingTable } from '../../../../../tools/dev/templates/projections/sample-thing.ts'
import { sampleThingStream } from '../../../../../tools/dev/templates/src/kernel/streams.ts'
import { foldInMemory } from '../../../../projections/memory-rows.ts'

const set = (accountId: string, value: string) =>
  ({
    type: 'SampleThingSet',
    stream: sampleThingStream(accountId as AccountId),
    data: { value },
  }) as unknown as RecordedEvent

test('each account has the sample thing that it set last', () => {
  const rows = foldInMemory(sampleThing, [set('acc_1', 'one'), set('acc_2', 'two'), set('acc_1', 'three')])
  assert.deepEqual(rows(sampleThingTable), [
    { accountId: 'acc_1', value: 'three' },
    { accountId: 'acc_2', value: 'two' },
  ])
})
