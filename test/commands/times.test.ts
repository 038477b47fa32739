import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isoTime } from '../../src/clock.ts'
import type { Command } from '../../src/eventstore/commands/command.ts'
import type { DomainEvent } from '../../src/eventstore/event.ts'
import { move, note, noteFold, purse, runnerOver } from './purse.ts'
import { postgresWorld } from './world.ts'

const startOf = (year: string): number => Date.parse(`${year}-01-01T00:00:00.000Z`)

const noted = (name: string, atMs: number): Command<Record<string, never>, void> => ({
  name: 'note-time',
  correlationId: 'test',
  actor: { kind: 'system', name: 'test' },
  streams: { note: { stream: note(name), fold: noteFold } } as never,
  decide: () => {
    const event: DomainEvent = { type: 'Noted', data: { at: isoTime(atMs) } }
    return { appends: [{ stream: note(name), events: [event] }], answer: undefined }
  },
})

test('no event holds a time that Postgres cannot read: what decides one fails alone', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const asked = [
    runner.run(noted('first', startOf('0001'))),
    runner.run(noted('last', startOf('+010000') - 1)),
    runner.run(move(purse('a'), 'credit', 5)),
    runner.run(noted('after', startOf('+010000'))),
    runner.run(noted('before', startOf('0001') - 1)),
    runner.run(noted('never', Number.NaN)),
  ]
  const outcomes = (await Promise.allSettled(asked)).map(({ status }) => status)
  assert.deepEqual(outcomes, ['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected'])
  const stored = await wire.readAll(0, 10)
  assert.deepEqual(stored.map(({ stream }) => stream).sort(), ['ledger-a', 'order-first', 'order-last'])
})
