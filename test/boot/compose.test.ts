import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')
const key = Buffer.alloc(32, 1).toString('base64')
const compose = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  spawnSync('docker', ['compose', ...args], {
    cwd: root,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  })

const skip = compose(['version']).status === 0 ? false : 'the docker client here has no compose'

test('docker-compose.yml is valid and names the app, Postgres and EventStoreDB', { skip }, () => {
  const { status, stdout, stderr } = compose(['--profile', 'eventstore', 'config', '--format', 'json'], {
    FAREBOX_MASTER_KEY: key,
    FAREBOX_SEAL_KEY: key,
  })
  assert.equal(status, 0, stderr)
  const { services } = JSON.parse(stdout)
  assert.deepEqual(Object.keys(services).sort(), ['app', 'eventstore', 'postgres'])
  assert.match(services.postgres.image, /^postgres:18\.\d+$/)
  assert.match(services.eventstore.image, /:24\.10\.\d+$/)
})

test('docker-compose.yml needs no setting to be read', { skip }, () => {
  const { status, stderr } = compose(['config', '--quiet'])
  assert.equal(status, 0, stderr)
})
