import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { dataDirectory, surroundings } from '../support/farebox.ts'
import { ownPort } from '../support/own-port.ts'
import { blocksOf, pageOf } from '../support/page-shell.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

test('the separate gateway of the gateway page starts as printed, and ends on SIGTERM', async (t) => {
  const env = await seededDatabase(t, await dataDirectory(t))
  const port = await ownPort()
  const [block = ''] = blocksOf(pageOf('docs/operations/gateway.md'))
  const command = block.replace('bin/run-node ', `exec '${process.execPath}' `)
  const gateway = spawn('bash', ['-euo', 'pipefail', '-c', command], {
    cwd: join(import.meta.dirname, '../..'),
    env: { ...surroundings(), ...env, FAREBOX_GATEWAY_PORT: String(port), FAREBOX_GATEWAY_WORKERS: '1' },
  })
  const ended = once(gateway, 'exit')
  atEnd(t, () => gateway.kill('SIGKILL'))
  let output = ''
  for (const stream of [gateway.stdout, gateway.stderr])
    stream.on('data', (chunk) => {
      output += chunk
    })
  const line = new RegExp(`^Farebox's gateway listens on 0\\.0\\.0\\.0, port ${port}$`, 'm')
  const listens = () => line.test(output)
  await until(() => listens() || gateway.exitCode !== null, { timeoutMs: 60_000, what: 'the gateway' })
  assert.ok(listens(), output)
  gateway.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null], output)
})
