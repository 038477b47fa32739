import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommandOverload } from '../../src/platform/eventstore/commands/command.ts'
import { inTurns, workOnEach } from '../../src/platform/work/poller.ts'

/** Works on 1, 2, 3, 4, of which some fail; what had its turn, and what was thrown in the end. */
const workOn = async (failing: Readonly<Record<number, Error>>) => {
  const tried: number[] = []
  const thrown: unknown = await workOnEach([1, 2, 3, 4], async (item) => {
    tried.push(item)
    if (failing[item]) throw failing[item]
  }).then(
    () => null,
    (error: unknown) => error,
  )
  return { tried, thrown }
}

test('what fails in a round of a reactor is told once all others had their turn', async () => {
  assert.deepEqual(await workOn({}), { tried: [1, 2, 3, 4], thrown: null })
  const [one, two] = [new Error('one'), new Error('two')]
  assert.deepEqual(await workOn({ 2: one }), { tried: [1, 2, 3, 4], thrown: one })
  const { tried, thrown } = await workOn({ 1: one, 4: two })
  assert.deepEqual(tried, [1, 2, 3, 4])
  assert.ok(thrown instanceof AggregateError)
  assert.deepEqual(thrown.errors, [one, two])
})

test('a log that is away ends the round: each of the others would only wait for it', async () => {
  const overload = new CommandOverload('the log cannot be reached', 1)
  assert.deepEqual(await workOn({ 2: overload }), { tried: [1, 2], thrown: overload })
})

test('everything of a list has its turn, however much before it stays', async () => {
  const list = [1, 2, 3, 4, 5]
  const next = inTurns<number>(2, async (after) => list.filter((item) => item > (after ?? 0)).slice(0, 2))
  const rounds = [await next(), await next(), await next(), await next()]
  assert.deepEqual(rounds, [[1, 2], [3, 4], [5], [1, 2]])
})

test('a list that has become shorter is begun anew', async () => {
  let list = [1, 2, 3, 4]
  const next = inTurns<number>(2, async (after) => list.filter((item) => item > (after ?? 0)).slice(0, 2))
  await next()
  list = [1]
  assert.deepEqual([await next(), await next()], [[], [1]])
})
