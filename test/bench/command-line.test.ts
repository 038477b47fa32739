import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const bench = (...args: string[]) =>
  spawnSync(process.execPath, [join(import.meta.dirname, '../../bench/run.ts'), ...args], {
    encoding: 'utf8',
  })

test('the benchmarks say what there is', () => {
  const { status, stdout } = bench('--help')
  assert.equal(status, 0)
  for (const name of [
    'appends',
    'orders',
    'rebuild',
    'exports',
    'finance',
    'verify',
    'webhooks',
    'callbacks',
    'margins',
  ])
    assert.match(stdout, new RegExp(`^  ${name} +\\S`, 'm'))
})

test('who reads only the first line gets it, and no trace of the rest', () => {
  const path = join(import.meta.dirname, '../../bench/run.ts')
  const { stdout, stderr } = spawnSync('sh', ['-c', '"$0" "$1" --help | head -1', process.execPath, path], {
    encoding: 'utf8',
  })
  assert.match(stdout, /^Usage: npm run bench [^\n]*\n$/)
  assert.equal(stderr, '')
})

for (const [what, args, message] of [
  ['an unknown benchmark', ['orders', 'apends'], /no benchmark apends; there are appends, orders, rebuild/],
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
