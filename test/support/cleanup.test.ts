import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { atEnd } from './cleanup.ts'
import { surroundings } from './farebox.ts'
import { until } from './until.ts'

/** A file of hanging tests, in a separate process, as the runner starts it. */
const hangingFile = `
  import { test } from 'node:test'
  import { atEnd } from ${JSON.stringify(new URL('./cleanup.ts', import.meta.url).href)}
  await test('is over', (t) => atEnd(t, () => console.log('step: end of the first')))
  test('hangs', async (t) => {
    atEnd(t, () => console.log('step: directory'))
    atEnd(t, async () => console.log('step: server'))
    console.log('step: hangs')
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  })`

test('an interrupted test file cleans up after its running tests, last first', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', hangingFile], {
    env: surroundings(),
  })
  atEnd(t, () => child.kill('SIGKILL'))
  let out = ''
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  const ended = once(child, 'close')
  await until(() => out.includes('step: hangs'))
  child.kill('SIGTERM')
  assert.equal((await ended)[0], 143)
  assert.deepEqual(out.match(/^step: .+$/gm), [
    'step: end of the first',
    'step: hangs',
    'step: server',
    'step: directory',
  ])
})
