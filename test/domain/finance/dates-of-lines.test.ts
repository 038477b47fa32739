import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createEntryStream } from '../../../src/domain/finance/entries.ts'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'

const event = (stream: string, type: string, recordedAt: string, data: object): RecordedEvent => ({
  id: 'event',
  type,
  data,
  stream: stream as StreamName,
  revision: 0,
  position: 1,
  metadata: { correlationId: 'c', causationId: null, actor: { kind: 'system', name: 'test' }, recordedAt },
})
const first = event('account-acc_1', 'AccountCreated', '2026-10-05T00:00:00.000Z', { reseller: false })
const cutOff = (period: string, endedAt: string, recordedAt: string) =>
  event(`period-${period}`, 'PeriodCutOff', recordedAt, { period, endedAt })
const line = (happenedAt: string, type = 'StatementLineBooked') =>
  event('statement-stl_1', type, '2026-12-10T00:00:00.000Z', {
    gateway: 'stripe',
    reference: 'po_1',
    category: 'payout',
    feeMicros: 1,
    payoutMicros: 2,
    happenedAt,
    reason: 'wrong',
    file: null,
    proposalId: null,
  })

/** The time of the last event's entry, after the others. */
const dateAfter = (...events: readonly RecordedEvent[]) => {
  const entries = createEntryStream()
  return events.map((each) => entries.next(each)).at(-1)?.at
}

test('a line of a statement and its correction are dated by the statement while its month is not cut off', () => {
  for (const type of ['StatementLineBooked', 'StatementLineCorrected'])
    assert.equal(dateAfter(first, line('2026-11-03T10:00:00Z', type)), '2026-11-03T10:00:00.000Z')
  const october = cutOff('2026-10', '2026-11-01T00:00:00.000Z', '2026-12-01T00:00:00.000Z')
  assert.equal(dateAfter(first, october, line('2026-11-01T00:00:00.000Z')), '2026-11-01T00:00:00.000Z')
})

test('a line of a month that was cut off is dated at its posting, also of an earlier month', () => {
  const november = cutOff('2026-11', '2026-12-01T00:00:00.000Z', '2026-12-01T00:05:00.000Z')
  for (const happenedAt of ['2026-11-30T23:59:59.999Z', '2026-10-31T00:00:00.000Z'])
    assert.equal(dateAfter(first, november, line(happenedAt)), '2026-12-10T00:00:00.000Z')
  // The cut-off of an earlier month does not open it again.
  const october = cutOff('2026-10', '2026-11-01T00:00:00.000Z', '2026-12-01T00:05:00.000Z')
  assert.equal(
    dateAfter(first, november, october, line('2026-11-30T00:00:00.000Z')),
    '2026-12-10T00:00:00.000Z',
  )
})

test('a line of the future, or from before the first event of the log, is dated at its posting', () => {
  for (const happenedAt of ['2026-12-10T00:00:00.001Z', '2026-10-04T23:59:59.999Z'])
    assert.equal(dateAfter(first, line(happenedAt)), '2026-12-10T00:00:00.000Z')
  assert.equal(dateAfter(first, line('2026-10-05T00:00:00.000Z')), '2026-10-05T00:00:00.000Z')
})
