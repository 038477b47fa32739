import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isoTime } from '../../../src/kernel/clock.ts'
import type { DomainEvent } from '../../../src/kernel/event.ts'
import type { Command } from '../../../src/platform/commands/command.ts'
import { move, note, noteFold, purse, runnerOver } from './purse.ts'
import { postgresWorld } from './world.ts'

const startOf = (year: string): number => Date.parse(`${year}-01-01T00:00:00.000Z`)

const noted = (name: string, data: () => object): Command<Record<string, never>, void> => ({
  name: 'note-time',
  correlationId: 'test',
  actor: { kind: 'system', name: 'test' },
  streams: { note: { stream: note(name), fold: noteFold } } as never,
  decide: () => {
    const event: DomainEvent = { type: 'Noted', data: data() }
    return { appends: [{ stream: note(name), events: [event] }], answer: undefined }
  },
})

const at = (ms: number) => () => ({ at: isoTime(ms) })
const text = (text: string) => () => ({ nested: [{ text }] })

test('no event has a time that Postgres cannot read: the command fails alone', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const running = [
    runner.run(noted('first', at(startOf('0001')))),
    runner.run(noted('last', at(startOf('+010000') - 1))),
    runner.run(move(purse('a'), 'credit', 5)),
    runner.run(noted('after', at(startOf('+010000')))),
    runner.run(noted('before', at(startOf('0001') - 1))),
    runner.run(noted('never', at(Number.NaN))),
  ]
  const outcomes = (await Promise.allSettled(running)).map(({ status }) => status)
  assert.deepEqual(outcomes, ['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected'])
  const stored = await wire.readAll(0, 10)
  assert.deepEqual(stored.map(({ stream }) => stream).sort(), ['ledger-a', 'order-first', 'order-last'])
})

test('no event has a text that no read table accepts: the command fails alone', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const taken = ['plain', '\\u0000', '\\\\ud800', 'a pair \u{1f600}', 'a control \u0001']
  const refused = ['a NUL\u0000', '\\\u0000', 'half \ud83d', '\udc00 the other half', '\ude00\ud83d']
  const running = [...taken, ...refused].map((each, n) => runner.run(noted(`${n}`, text(each))))
  const outcomes = await Promise.allSettled(running)
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    [...taken.map(() => 'fulfilled'), ...refused.map(() => 'rejected')],
  )
  const stored = await wire.readAll(0, 20)
  assert.deepEqual(
    stored.map(({ data }) => JSON.parse(data).nested[0].text),
    taken,
  )
})
