import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { scratch } from '../features/exports/books.ts'
import { until } from '../support/until.ts'

const bench = (...args: string[]) =>
  spawnSync(process.execPath, [join(import.meta.dirname, '../../bench/run.ts'), ...args], {
    encoding: 'utf8',
  })

test('a reader that closes after the first line gets it, without a stack trace', () => {
  const path = join(import.meta.dirname, '../../bench/run.ts')
  const { stdout, stderr } = spawnSync('sh', ['-c', '"$0" "$1" --help | head -1', process.execPath, path], {
    encoding: 'utf8',
  })
  assert.match(stdout, /^Usage: npm run bench [^\n]*\n$/)
  assert.equal(stderr, '')
})

for (const [what, args, message] of [
  ['a size that is no number', ['orders', '--seconds', 'many'], /'--seconds <n>' argument 'many' is invalid/],
  ['a size of nothing', ['--events', '0'], /'--events <n>' argument '0' is invalid/],
  ['an unknown option', ['--second', '3'], /unknown option '--second'/],
] as const)
  test(`${what} is refused before anything is measured`, () => {
    const { status, stdout, stderr } = bench(...args)
    assert.equal(status, 2)
    assert.equal(stdout, '')
    assert.match(stderr, message)
  })

test('a benchmark that SIGTERM ends leaves no Postgres and no files', async (t) => {
  const directory = await scratch(t)
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../bench/run.ts'), 'lag'], {
    env: { ...process.env, TMPDIR: directory },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  // Its first line is printed when Postgres is up.
  await once(child.stdout, 'data')
  const [own = ''] = await readdir(directory)
  const [pid] = (await readFile(join(directory, own, 'postgres/postgres/postmaster.pid'), 'utf8')).split('\n')
  child.kill('SIGTERM')
  const [code] = await ended
  assert.equal(code, 143)
  const isGone = (): boolean => {
    try {
      return !process.kill(Number(pid), 0)
    } catch {
      return true
    }
  }
  await until(async () => isGone(), { timeoutMs: 10_000, what: 'the end of Postgres' })
  assert.deepEqual(await readdir(directory), [])
})
