import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent, EventMetadata } from '../../../src/kernel/event.ts'
import { newEventId } from '../../../src/kernel/ids.ts'
import { createCodec, decode, encode, type Upcasters } from '../../../src/platform/eventstore/codec.ts'
import fc from '../../support/fast-check.ts'
import { freshStream } from './contract/events.ts'

const metadata = (correlationId: string): EventMetadata => ({
  correlationId,
  causationId: null,
  actor: { kind: 'system', name: 'test' },
  recordedAt: '2026-11-21T02:30:00.000Z',
})

const place = { stream: freshStream(), revision: 3, position: 17 }

/** JSON has one zero: -0 comes back as 0, which no money of ours is. */
const jsonValue = fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value)))

test('every JSON value is restored unchanged, alone and through a codec that caches the last metadata', () => {
  const codec = createCodec()
  const check = (type: string, data: unknown, correlation: string): void => {
    const meta = metadata(correlation)
    const id = newEventId()
    const stored = { ...encode({ type, data }, meta, id), ...place }
    const expected = { type, data, id, metadata: meta, ...place }
    assert.deepEqual(decode(stored), expected)
    assert.deepEqual(codec.decode(stored), expected)
    assert.deepEqual({ ...codec.encode({ type, data }, meta), id }, encode({ type, data }, meta, id))
  }
  const correlations = fc.constantFrom('one', 'two')
  fc.assert(fc.property(fc.string(), jsonValue, correlations, check))
})

test('encoded data contains neither NUL nor lone surrogates, so every log accepts it', () => {
  const { data } = encode({ type: 'Tried', data: { text: 'a\u0000b\ud800c' } }, metadata('m'), newEventId())
  assert(data.isWellFormed() && !data.includes('\u0000'))
  assert.deepEqual(JSON.parse(data), { text: 'a\u0000b\ud800c' })
})

test('an old event is read in its new form, others are unchanged', () => {
  const upcasters: Upcasters = {
    WalletToppedUp: ({ data }) => ({
      type: 'WalletCredited',
      data: { amountMicros: (data as { amountCents: number }).amountCents * 10_000 },
    }),
  }
  const codec = createCodec(upcasters)
  const read = (event: DomainEvent) => {
    const stored = { ...encode(event, metadata('m'), newEventId()), ...place }
    assert.deepEqual(codec.decode(stored), decode(stored, upcasters))
    const { type, data } = codec.decode(stored)
    return { type, data }
  }
  assert.deepEqual(read({ type: 'WalletToppedUp', data: { amountCents: 7 } }), {
    type: 'WalletCredited',
    data: { amountMicros: 70_000 },
  })
  const current = { type: 'WalletCredited', data: { amountMicros: 1 } }
  assert.deepEqual(read(current), current)
  assert.deepEqual(read({ type: 'toString', data: null }), { type: 'toString', data: null })
})

test('data that is not JSON is an error', () => {
  const stored = { ...encode({ type: 'T', data: 1 }, metadata('m'), newEventId()), ...place, data: '{' }
  assert.throws(() => decode(stored), SyntaxError)
})
