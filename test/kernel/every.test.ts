import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { withTimeout } from '../../src/kernel/every.ts'
import { stopRunning } from '../support/stop-running.ts'

const tooLate = () => new Error('too late')

test('an answer that arrives while this process cannot run is in time', async () => {
  const answer = withTimeout(readFile(import.meta.filename, 'utf8'), 200, tooLate)
  stopRunning(400)
  assert.match(await answer, /withTimeout/)
})

test('without an answer the time limit is over after the time in which the process ran', async () => {
  const startedMs = performance.now()
  await assert.rejects(withTimeout(sleep(60_000, null, { ref: false }), 200, tooLate), /too late/)
  assert.ok(performance.now() - startedMs >= 190)
})
