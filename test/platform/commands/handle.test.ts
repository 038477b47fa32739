import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decided, refused } from '../../../src/kernel/decider.ts'
import { handle, readState } from '../../../src/platform/commands/command.ts'
import { note, noteFold, type Purse, purse, purseFold, runnerOver } from './purse.ts'
import { postgresWorld } from './world.ts'

const command = { name: 'spend', correlationId: 'test', actor: { kind: 'system', name: 'test' } } as const
const mine = { stream: purse('mine'), fold: purseFold }

/** Spends once under an id, never more than there is. */
const decideMove = ({ balance, moves }: Purse, id: string, amount: number) => {
  if (moves.has(id)) return { ...decided(), left: balance }
  if (balance + amount < 0) return refused({ code: 'short', balance } as const)
  return { ...decided({ type: 'Moved', data: { id, amount } } as const), left: balance + amount }
}

test('decided events are appended, and the result has the value of the decision; a repeat changes nothing', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const credit = () => handle(runner, command, mine, (state) => decideMove(state, 'credit', 7))
  const first = await credit()
  assert.ok(first.outcome === 'done')
  assert.deepEqual([first.changed, first.left], [true, 7])
  const last = (await wire.readAll(0, 10)).at(-1)
  assert.equal(first.position, last?.position)
  assert.equal(new Date(first.atMs).toISOString(), JSON.parse(last?.metadata ?? '{}').recordedAt)
  const again = await credit()
  assert.ok(again.outcome === 'done')
  assert.deepEqual([again.changed, again.left, again.position], [false, 7, null])
})

test('a refusal is returned, and nothing is appended', async (t) => {
  const { wire } = await postgresWorld(t)
  const result = await handle(runnerOver(wire), command, mine, (state) => decideMove(state, 'spend', -1))
  assert.deepEqual(result, { outcome: 'refused', refusal: { code: 'short', balance: 0 } })
  assert.deepEqual(wire.sent, [])
})

test('streams that are only read are passed up to date, and not written', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const allowed = { stream: note('allowed'), fold: noteFold }
  const spend = (id: string) =>
    handle(runnerOver(wire), command, { ...mine, others: { allowed } }, (state, { others }) =>
      others.allowed.written ? decideMove(state, id, 1) : refused('not_allowed' as const),
    )
  assert.equal((await spend('early')).outcome, 'refused')
  const written = decided({ type: 'Written', data: {} })
  await handle(runnerOver(elsewhere), command, allowed, () => written)
  assert.equal((await spend('late')).outcome, 'done')
  assert.deepEqual(
    wire.sent.map(({ appends }) => appends.map(({ stream }) => stream)),
    [[mine.stream]],
  )
})

test('only cause, name and account of a cause reach the command', async (t) => {
  const { wire } = await postgresWorld(t)
  const runner = runnerOver(wire)
  const context = { ...command, streams: {}, decide: () => assert.fail('not this one'), causationId: 'x' }
  await handle(runner, context, mine, (state) => decideMove(state, 'credit', 1))
  const last = (await wire.readAll(0, 10)).at(-1)
  assert.equal(JSON.parse(last?.metadata ?? '{}').causationId, null)
})

test('a state contains the latest events of another process', async (t) => {
  const { wire, elsewhere } = await postgresWorld(t)
  const runner = runnerOver(wire)
  assert.equal((await readState(runner, command, mine)).balance, 0)
  await handle(runnerOver(elsewhere), command, mine, (state) => decideMove(state, 'credit', 3))
  assert.equal((await readState(runner, command, mine)).balance, 3)
})
