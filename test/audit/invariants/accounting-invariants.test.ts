import assert from 'node:assert/strict'
import { test } from 'node:test'
import { periodRules } from '../../../src/audit/invariants/accounting-invariants.ts'
import { violationsTable } from '../../../src/audit/invariants/invariant.ts'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { foldInMemory } from '../../projections/memory-rows.ts'

const cutOff = (endedAt: string, recordedAt: string): RecordedEvent => ({
  type: 'PeriodCutOff',
  data: { period: '2026-10', endedAt },
  id: 'event-1',
  stream: 'period-2026-10' as StreamName,
  revision: 0,
  position: 1,
  metadata: {
    correlationId: 'test',
    causationId: null,
    actor: { kind: 'system', name: 'test' },
    recordedAt,
  },
})

test('a month ends at midnight of a time zone, before it is cut off', () => {
  const violations = (endedAt: string, recordedAt = '2026-12-01T00:00:00.000Z') =>
    foldInMemory(
      periodRules,
      [cutOff(endedAt, recordedAt)],
      [violationsTable],
    )(violationsTable).map(({ rule }) => rule)
  assert.deepEqual(violations('2026-11-01T00:00:00.000Z'), [])
  assert.deepEqual(violations('2026-10-31T10:00:00.000Z'), [])
  assert.deepEqual(violations('2026-10-31T09:59:59.999Z'), ['period-end'])
  assert.deepEqual(violations('2026-11-15T00:00:00.000Z'), ['period-end'])
  assert.deepEqual(violations('2026-11-01T00:00:00.000Z', '2026-10-31T23:59:59.999Z'), ['period-early'])
})
