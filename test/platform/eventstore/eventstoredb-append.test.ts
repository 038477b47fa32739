import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { WrongExpectedVersionError } from '@eventstore/db-client'
import pLimit from 'p-limit'
import { type AppendDependencies, sendItem } from '../../../src/platform/eventstore/eventstoredb/append.ts'
import type { Append } from '../../../src/platform/eventstore/port.ts'
import { freshStream, someEvents } from './contract/events.ts'

/** A server that answers each append on the test's command. */
const server = (atOnce: number) => {
  const waiting: { readonly stream: string; answer(error?: Error): void }[] = []
  const client = {
    appendToStream: (stream: string) =>
      new Promise((resolve, reject) => {
        waiting.push({
          stream,
          answer: (error) =>
            error
              ? reject(error)
              : resolve({ success: true, nextExpectedRevision: 0n, position: { commit: 1n, prepare: 1n } }),
        })
      }),
  }
  const dependencies = {
    connection: { client, credentials: { username: 'a', password: 'b' } },
    appendTimeoutMs: 60_000,
    readTimeoutMs: 60_000,
    limiter: pLimit(atOnce),
  } as unknown as AppendDependencies
  return { dependencies, waiting }
}

const append = (anyOrder: boolean): Append => ({
  stream: freshStream(),
  expected: 'noStream',
  events: someEvents(1),
  ...(anyOrder && { anyOrder }),
})

test('appends that may land in any order are sent at once, up to the limit; the next one waits for all', async () => {
  const { dependencies, waiting } = server(3)
  const claims = Array.from({ length: 5 }, () => append(true))
  const sending = sendItem(dependencies, { appends: [...claims, append(false), append(true)] })
  const batches: number[] = []
  while (batches.reduce((sum, size) => sum + size, 0) < 7) {
    await turn()
    const batch = waiting.splice(0)
    batches.push(batch.length)
    for (const { answer } of batch) answer()
  }
  assert.deepEqual(
    batches.filter((size) => size > 0),
    [3, 2, 1, 1],
  )
  const outcome = await sending
  assert.equal(outcome.status, 'landed')
  assert.equal(outcome.status === 'landed' && outcome.appended.length, 7)
})

test('if one of them fails, the item ends with what landed before it', async () => {
  const { dependencies, waiting } = server(8)
  const claims = Array.from({ length: 4 }, () => append(true))
  const sending = sendItem(dependencies, { appends: [...claims, append(false)] })
  await turn()
  const taken = claims[2]!.stream
  for (const { stream, answer } of waiting.splice(0))
    answer(
      stream === taken
        ? new WrongExpectedVersionError(
            undefined as never,
            {
              streamName: taken,
              current: 0n,
              expected: 'no_stream',
            } as never,
          )
        : undefined,
    )
  const outcome = await sending
  assert.equal(outcome.status, 'conflict')
  assert.ok(outcome.status === 'conflict')
  assert.deepEqual([outcome.stream, outcome.landed.length], [taken, 2])
  assert.equal(waiting.length, 0)
})
