import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
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
  assert.deepEqual(Object.keys(services).sort(), ['app', 'eventstore', 'freelist', 'gateway', 'postgres'])
  assert.match(services.postgres.image, /^postgres:18\.\d+$/)
  assert.match(services.eventstore.image, /:24\.10\.\d+$/)
})

test('docker-compose.yml needs no setting to be read', { skip }, () => {
  const { status, stderr } = compose(['config', '--quiet'])
  assert.equal(status, 0, stderr)
})

test('the image holds every file and every package that the program imports', () => {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, from = '']) =>
    from.split(' '),
  )
  for (const path of copied) assert.ok(existsSync(join(root, path)), path)
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const ignored = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n')
  assert.deepEqual(
    copied.filter((path) => ignored.includes(path)),
    [],
  )
  for (const file of globSync('{src,projections}/**/*.ts', { cwd: root })) {
    const text = readFileSync(join(root, file), 'utf8')
    for (const [, type, name = ''] of text.matchAll(/^import (type )?[^']*'([^']+)'/gm)) {
      const where = `${file} imports ${name}`
      if (name.startsWith('.')) {
        const [folder = ''] = relative(root, join(root, dirname(file), name)).split('/')
        assert.ok(copied.includes(folder), where)
      } else if (type === undefined && !name.startsWith('node:')) {
        const pack = name.startsWith('@') ? name.split('/', 2).join('/') : name.split('/', 1)[0]!
        assert.ok(pack in dependencies, where)
      }
    }
  }
})

test('the image starts the program just as npm start does', () => {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const command: string[] = JSON.parse(/^CMD (.+)$/m.exec(dockerfile)?.[1] ?? '[]')
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  assert.equal(command.join(' '), scripts.start)
})
