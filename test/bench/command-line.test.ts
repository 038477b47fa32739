import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const bench = (...args: string[]) =>
  spawnSync(process.execPath, [join(import.meta.dirname, '../../bench/run.ts'), ...args], {
    encoding: 'utf8',
  })

test('the list of benchmarks prints all of them', () => {
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

test('an unknown benchmark is refused before anything is measured', () => {
  const { status, stdout, stderr } = bench('orders', 'apends')
  assert.equal(status, 2)
  assert.equal(stdout, '')
  assert.match(stderr, /no benchmark apends; there are appends, orders, rebuild/)
})
