import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { dataDirectory, surroundings } from '../support/farebox.ts'
import { seededDatabase } from '../support/seeded.ts'

const repl = join(import.meta.dirname, '../../tools/dev/repl.ts')

test('without data the prompt says what to do, in one line', async (t) => {
  const env = { ...surroundings(), FAREBOX_DATA: await dataDirectory(t) }
  const child = spawn(process.execPath, [repl], { env, stdio: ['ignore', 'inherit', 'pipe'] })
  const [printed, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  assert.equal(code, 2)
  assert.match(printed, /^error: \S+ holds no Farebox\. Set FAREBOX_DATA [^\n]+\n$/)
})

test('every line that the prompt prints at its start runs', async (t) => {
  const env = { ...surroundings(), ...(await seededDatabase(t, await dataDirectory(t))) }
  const run = async (input: string): Promise<string> => {
    const child = spawn(process.execPath, [repl], { env, stdio: ['pipe', 'pipe', 'inherit'] })
    child.stdin.end(input)
    const [printed] = await Promise.all([text(child.stdout), once(child, 'close')])
    return printed
  }
  const lines = (await run('')).split('\n').filter((line) => line.startsWith('  await '))
  assert.equal(lines.length, 3)
  const printed = await run(`${lines.join('\n')}\n`)
  assert.doesNotMatch(printed, /Uncaught/)
  assert.match(printed, /accountId: 'acc_/)
})
