import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { demoKeys } from '../support/demo-env.ts'
import { dataDirectory, startFarebox, surroundings } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { testDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dirname, '../..')

/** The terminal output of a server, from its start to Ctrl-C. */
const onTerminal = async (t: TestContext, env: NodeJS.ProcessEnv): Promise<string> => {
  const child = spawn('script', ['-qfec', `exec '${process.execPath}' src/main.ts`, '/dev/null'], {
    cwd: root,
    env: {
      ...surroundings(),
      PORT: '0',
      FAREBOX_AUDITOR: 'off',
      FAREBOX_FREELIST_CHECKER: 'off',
      FAREBOX_GATEWAY_WORKERS: '0',
      ...env,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  atEnd(t, () => child.kill('SIGKILL'))
  let shown = ''
  child.stdout.on('data', (chunk) => {
    shown += chunk
  })
  const ended = once(child, 'close')
  await until(() => /^Farebox listens on \S+\r$/m.test(shown), { timeoutMs: 120_000, what: 'the start' })
  child.stdin.write('\x03')
  await ended
  return shown.replaceAll('\r', '')
}

const isJson = (line: string): boolean => line.startsWith('{')

test('a terminal shows the essential lines, and JSON only on request', {
  skip: spawnSync('script', ['--version']).status !== 0 && 'there is no script(1) of util-linux',
}, async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const first = await onTerminal(t, { FAREBOX_DATA })
  assert.deepEqual(first.split('\n').filter(isJson), [])
  assert.ok(first.includes(`Farebox starts on the data in ${FAREBOX_DATA}. Ctrl-C stops it.\n`), first)
  assert.match(first, /^\d\d:\d\d:\d\d warn {2}payments go to the sandbox/m)
  assert.equal(first.match(/fbx_\w{40}/g)?.length, 6, 'four keys, and two in the lines to copy')
  assert.match(first, /^Farebox listens on .+\n(.*\n)*.*Farebox stops\.\n$/m)

  const second = await onTerminal(t, { FAREBOX_DATA, FAREBOX_LOG_FORMAT: 'json', LOG_LEVEL: 'info' })
  assert.doesNotMatch(second, /fbx_/)
  const lines = second.split('\n').filter(isJson)
  assert.ok(lines.length > 2, second)
  for (const line of lines) assert.ok(JSON.parse(line).msg)
})

test('without a terminal the log is JSON, or lines for people on request; only an empty log has next steps', async (t) => {
  const { url } = await testDatabase(t)
  const settings = { DATABASE_URL: url, FAREBOX_DEMO: 'off', LOG_LEVEL: 'info', ...demoKeys() }
  const env = { FAREBOX_DATA: await dataDirectory(t), ...settings }
  const server = await startFarebox(t, { ...env, FAREBOX_DEMOS: 'on' })
  assert.match(server.out(), /There are no products and no accounts yet/)
  await server.stop()
  for (const line of server.err().trim().split('\n')) assert.ok(JSON.parse(line).msg)
  assert.match(server.err(), /FAREBOX_DEMOS is not a setting and has no effect; did you mean FAREBOX_DEMO\?/)
  assert.equal((await operate(['accounts', 'create', '--email', 'ann@example.com'], env)).code, 0)
  const pretty = await startFarebox(t, { ...env, FAREBOX_LOG_FORMAT: 'pretty' })
  assert.doesNotMatch(pretty.out(), /There are no products and no accounts yet/)
  await pretty.stop()
  assert.match(pretty.err(), /^\d\d:\d\d:\d\d info {2}stopping {2}why=SIGTERM$/m)
})
