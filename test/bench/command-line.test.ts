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
