import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { readConfig } from '../../src/app/config.ts'

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
  const { status, stdout, stderr } = compose(
    ['--profile', 'eventstore', '--profile', 'freelist', 'config', '--format', 'json'],
    {
      FAREBOX_MASTER_KEY: key,
      FAREBOX_SEAL_KEY: key,
      POSTGRES_PASSWORD: 'a',
    },
  )
  assert.equal(status, 0, stderr)
  const { services } = JSON.parse(stdout)
  assert.deepEqual(Object.keys(services).sort(), ['app', 'eventstore', 'freelist', 'gateway', 'postgres'])
  assert.match(services.postgres.image, /^postgres:18\.\d+$/)
  assert.match(services.eventstore.image, /:24\.10\.\d+$/)
})

test('docker-compose.yml has no default password', { skip }, () => {
  const { status, stderr } = compose(['config', '--quiet'])
  assert.notEqual(status, 0)
  assert.match(stderr, /POSTGRES_PASSWORD.*set it in \.env/)
})

/** What compose puts in the place of `${NAME:-default}`; the keys are those of a `.env`. */
const interpolated = (text: string, env: Readonly<Record<string, string>>): string =>
  text.replaceAll(
    /\$\{(\w+)(?::[-?]([^}]*))?\}/g,
    (_, name: string, otherwise = '') => env[name] ?? otherwise,
  )

type ServiceFile = {
  readonly command?: readonly string[]
  readonly profiles?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly network_mode?: string
  readonly ports?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly stop_grace_period?: string
}

const keys = {
  FAREBOX_MASTER_KEY: key,
  FAREBOX_SEAL_KEY: Buffer.alloc(32, 2).toString('base64'),
  POSTGRES_PASSWORD: 'a',
}

/** The services as compose reads them. */
const servicesOf = (env: Readonly<Record<string, string>>): Readonly<Record<string, ServiceFile>> => {
  const file = parse(readFileSync(join(root, 'docker-compose.yml'), 'utf8'), { merge: true, strict: true })
  return JSON.parse(interpolated(JSON.stringify(file), env)).services
}

const configOf = ({ environment = {} }: ServiceFile) => readConfig(environment)

test('in docker-compose.yml the app runs no gateway; the gateway service uses the same database and keys', () => {
  const { app, gateway, postgres } = servicesOf({
    ...keys,
    FAREBOX_GATEWAY_WORKERS: '3',
    FAREBOX_GATEWAY_PORT: '9100',
  })
  assert.ok(app && gateway && postgres)
  const [ofApp, ofGateway] = [configOf(app), configOf(gateway)]
  assert.equal(ofApp.demo, false)
  assert.equal(ofApp.payments.sandbox, null)
  assert.equal(ofApp.gateway.workers, 0)
  assert.equal(ofGateway.gateway.workers, 3)
  assert.deepEqual(ofGateway.gateway.listen, ['0.0.0.0'])
  assert.equal(ofGateway.gateway.port, 9_000)
  for (const name of ['DATABASE_URL', 'FAREBOX_MASTER_KEY', 'FAREBOX_SEAL_KEY', 'FAREBOX_DEMO'])
    assert.equal(gateway.environment?.[name], app.environment?.[name], name)
  assert.match(app.environment?.DATABASE_URL ?? '', /@postgres:5432\//)

  const [program, file, command] = gateway.command ?? []
  assert.deepEqual([program, command], ['node', 'gateway'])
  assert.ok(existsSync(join(root, file ?? '')))
  // It has the network of the app, so the app has its port, and outlives no app that is not there.
  assert.equal(gateway.network_mode, 'service:app')
  assert.equal(gateway.ports, undefined)
  assert.deepEqual(app.ports, ['127.0.0.1:3000:3000', '127.0.0.1:9100:9000'])
  assert.equal(gateway.depends_on?.app?.condition, 'service_healthy')
  assert.equal(app.depends_on?.postgres?.condition, 'service_healthy')
  const graceMs = Number.parseInt(gateway.stop_grace_period ?? '', 10) * 1_000
  assert.ok(graceMs > ofGateway.shutdownTimeoutMs, 'killed before its connections have had their time')
})

test('docker-compose.yml creates the three roles of the documentation, none of them a superuser', () => {
  const { app } = servicesOf(keys)
  const { configs } = parse(interpolated(readFileSync(join(root, 'docker-compose.yml'), 'utf8'), keys), {
    merge: true,
  })
  const [, documented = ''] =
    /```sql\n(create role farebox_service [^`]+)```/.exec(
      readFileSync(join(root, 'docs/operations/security.md'), 'utf8'),
    ) ?? []
  assert.equal(configs.roles.content, documented.replaceAll('…', keys.POSTGRES_PASSWORD))
  assert.doesNotMatch(configs.roles.content, /superuser/i)
  const roles = ['DATABASE_URL', 'DATABASE_AUDITOR_URL', 'DATABASE_OWNER_URL'].map((name) => {
    const { username, password, pathname } = new URL(app?.environment?.[name] ?? '')
    return [username, password, pathname]
  })
  assert.deepEqual(
    roles,
    ['service', 'auditor', 'owner'].map((part) => [`farebox_${part}`, keys.POSTGRES_PASSWORD, '/farebox']),
  )
})

test('in docker-compose.yml the checker of free proxies starts only on request, because it ends without a judge', () => {
  const { freelist } = servicesOf(keys)
  assert.deepEqual(freelist?.profiles, ['freelist'])
})

test('the image contains every file and every package that the program imports', () => {
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
  for (const file of globSync('{src,projections,tools}/**/*.ts', { cwd: root })) {
    const text = readFileSync(join(root, file), 'utf8')
    for (const [, type, name = ''] of text.matchAll(
      /(?:^import (type )?[^']*|\bawait import\()'([^']+)'/gm,
    )) {
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

test('the image starts the program as npm start does', () => {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const command: string[] = JSON.parse(/^CMD (.+)$/m.exec(dockerfile)?.[1] ?? '[]')
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  // The image has no other Node, so it needs no `bin/run-node`.
  assert.equal(command.join(' '), scripts.start.replace('bin/run-node', 'node'))
})
