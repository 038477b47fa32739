import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rules } from '../../../src/audit/invariants/invariants.ts'
import { eventDefinitions } from '../../../src/domain/events.ts'
import type { RecordedEvent } from '../../../src/kernel/event.ts'
import type { ReadModel, Rows } from '../../../src/platform/projections/read-model.ts'
import { createDispatch, kindOfStream } from '../../../src/platform/projections/read-model.ts'

/** Every method fails. */
const untouchable = <Value extends object>(what: string): Value => {
  const touched = (_: unknown, name: string | symbol): never => {
    throw new Error(`${what} was called with ${String(name)}`)
  }
  const throws = () => assert.fail(`${what} was looked at`)
  return new Proxy({}, { get: touched, has: touched, ownKeys: throws }) as Value
}

const eventOf = (type: string, stream: string): RecordedEvent =>
  ({
    id: 'evt_1',
    type,
    stream,
    revision: 0,
    position: 1,
    data: untouchable(`the data of ${type} in ${stream}`),
    metadata: untouchable(`the metadata of ${type} in ${stream}`),
  }) as unknown as RecordedEvent

const types = [...eventDefinitions.map(({ type }) => type), 'SomethingElse']
const streams = [
  ...new Set([...eventDefinitions.map(({ stream }) => kindOfStream(stream)), 'other-']),
  ...rules.flatMap(({ takes }) => [...(takes?.streams ?? [])]),
].map((kind) => (kind.endsWith('-') ? `${kind}acc_1` : kind))

test('an invariant reads neither fields nor rows of an event type that it does not declare', () => {
  const rows = untouchable<Rows>('the rows')
  let left = 0
  for (const rule of rules) {
    const dispatch = createDispatch([rule])
    for (const type of types)
      for (const stream of streams) {
        const event = eventOf(type, stream)
        if (dispatch(event).length > 0) continue
        left += 1
        assert.doesNotThrow(() => {
          assert.deepEqual([...rule.reads(event)], [])
          rule.apply(event, rows)
        }, `${rule.name}: ${type} in ${stream}`)
      }
  }
  assert.ok(left > (rules.length * types.length * streams.length) / 2, `${left} were left out`)
})

test('every event type that the invariants read is declared in the dictionary', () => {
  for (const { name, takes } of rules)
    for (const type of takes?.types ?? []) assert.ok(types.includes(type), `${name} takes ${type}`)
})

test('a dispatch calls the models in their order, whatever was called before', () => {
  const model = (name: string, takes?: ReadModel['takes']) => ({ name, ...(takes && { takes }) })
  const dispatch = createDispatch([
    model('all'),
    model('types', { types: new Set(['A', 'B']) }),
    model('streams', { types: new Set(['B']), streams: new Set(['ledger-', 'seal']) }),
  ])
  const namesFor = (type: string, stream: string) => dispatch(eventOf(type, stream)).map(({ name }) => name)
  for (const _ of [1, 2]) {
    assert.deepEqual(namesFor('A', 'order-1'), ['all', 'types'])
    assert.deepEqual(namesFor('A', 'ledger-acc_1'), ['all', 'types', 'streams'])
    assert.deepEqual(namesFor('C', 'seal'), ['all', 'streams'])
    assert.deepEqual(namesFor('B', 'order-1'), ['all', 'types', 'streams'])
    assert.deepEqual(namesFor('C', 'ledger'), ['all'])
    for (let n = 0; n < 2_100; n += 1) namesFor(`T${n}`, 'order-1')
  }
})
