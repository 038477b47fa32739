import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { prettyLine } from '../../src/platform/http/logging.ts'
import { atEnd } from '../support/cleanup.ts'
import { dataDirectory, startFarebox, surroundings } from '../support/farebox.ts'
import { until } from '../support/until.ts'
import { usedDirectory } from '../support/used-folder.ts'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** The terminal output of a server, from its start to Ctrl-C. */
const onTerminal = async (t: TestContext, env: NodeJS.ProcessEnv): Promise<string> => {
  const child = spawn('script', ['-qfec', `exec '${process.execPath}' src/main.ts`, '/dev/null'], {
    cwd: root,
    env: { ...surroundings(), PORT: '0', ...env },
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
  assert.equal(first.match(/fbx_\w{40}/g)?.length, 7, 'four keys, and three in the lines to copy')
  assert.match(first, /^Farebox listens on .+\n(.*\n)*.*Farebox stops\.\n$/m)

  const second = await onTerminal(t, { FAREBOX_DATA, FAREBOX_LOG_FORMAT: 'json', LOG_LEVEL: 'info' })
  assert.doesNotMatch(second, /fbx_/)
  const lines = second.split('\n').filter(isJson)
  assert.ok(lines.length > 2, second)
  for (const line of lines) assert.ok(JSON.parse(line).msg)
})

test('without a terminal the log is JSON, or lines for people on request', async (t) => {
  const env = { FAREBOX_DATA: await usedDirectory(t), LOG_LEVEL: 'info' }
  const server = await startFarebox(t, env)
  await server.stop()
  for (const line of server.err().trim().split('\n')) assert.ok(JSON.parse(line).msg)
  const pretty = await startFarebox(t, { ...env, FAREBOX_LOG_FORMAT: 'pretty' })
  await pretty.stop()
  assert.match(pretty.err(), /^\d\d:\d\d:\d\d info {2}stopping {2}why=SIGTERM$/m)
})

test('a start without a demo on an empty log prints the next steps, and each of them works as printed', async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const env = { FAREBOX_DATA, FAREBOX_DEMO: 'off' }
  const server = await startFarebox(t, env)
  const steps = server
    .out()
    .split('\n')
    .filter((line) => line.includes('npx farebox') && !line.startsWith(' '))
  assert.equal(steps.length, 4)
  await copyFile(join(root, 'src/app/demo/catalog.json'), join(FAREBOX_DATA, 'catalog.json'))
  const script = steps.join('\n').replaceAll('npx farebox', `'${join(root, 'bin/farebox')}'`)
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: FAREBOX_DATA,
    env: { ...surroundings(), ...env },
  })
  const [key] = /fbx_\w{40}/.exec(stdout) ?? []
  const wallet = await fetch(`${server.baseUrl}/api/v1/wallet`, { headers: { 'X-API-Key': key ?? '' } })
  assert.match(await wallet.text(), /"balanceCents":10000/)
  await server.stop()
  const again = await startFarebox(t, env)
  assert.doesNotMatch(again.out(), /There are no products and no accounts yet/)
})

test('a log line for people has the time, the level, the text and the values; an error has its stack', () => {
  const line = (fields: object): string =>
    prettyLine(JSON.stringify({ level: 40, time: '2026-11-24T12:03:04.567Z', ...fields, msg: 'it waits' }))
  assert.equal(
    line({ group: 'hot', reason: 'not yet', models: ['a'] }),
    '12:03:04 warn  it waits  group=hot  reason="not yet"  models=["a"]\n',
  )
  const err = { type: 'Error', message: 'it broke', stack: 'Error: it broke\n    at here' }
  assert.equal(line({ err }), '12:03:04 warn  it waits  err="it broke"\n')
  assert.equal(
    line({ level: 50, err }),
    '12:03:04 error it waits  err="it broke"\nError: it broke\n    at here\n',
  )
})
