import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { readDataUser } from '../../src/platform/postgres/data-lock.ts'
import { postmasterPid } from '../../src/platform/postgres/postmaster.ts'
import { atEnd } from '../support/cleanup.ts'
import { surroundings } from '../support/farebox.ts'
import { until } from '../support/until.ts'
import { usedDirectory } from '../support/used-folder.ts'

const root = join(import.meta.dirname, '../..')

/** A zombie has ended; its parent has not read its exit code yet. */
const isRunning = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

const start = (t: TestContext, command: string, args: readonly string[], env: NodeJS.ProcessEnv) => {
  const child: ChildProcess = spawn(command, args, {
    cwd: root,
    // A busy machine needs longer than the usual time of a shutdown, after which the exit code is 1.
    env: {
      ...surroundings(),
      PORT: '0',
      FAREBOX_GATEWAY_PORT: '0',
      FAREBOX_DEMO: 'off',
      FAREBOX_SHUTDOWN_TIMEOUT_MS: '120000',
      ...env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  atEnd(t, () => child.kill('SIGKILL'))
  return { child, ended: once(child, 'close') }
}

/** The process that uses the data, and its Postgres, once that answers. */
const users = async (dataDir: string): Promise<readonly number[]> => {
  const user = await until(async () => {
    const found = await readDataUser(dataDir)
    return found?.url ? found : null
  })
  const postmaster = await postmasterPid(join(dataDir, 'postgres'))
  assert.ok(postmaster)
  return [user.pid, postmaster]
}

const allEnd = (pids: readonly number[]): Promise<unknown> =>
  until(() => pids.every((pid) => !isRunning(pid)), { timeoutMs: 30_000, what: `the end of ${pids}` })

/** A Farebox without requests. */
const made = async (t: TestContext): Promise<{ readonly FAREBOX_DATA: string }> => ({
  FAREBOX_DATA: await usedDirectory(t),
})

/** A command that waits for its input, with everything open. */
const waiting = 'reseller gateway --account acc_1 --rail card --provider stripe --credentials -'.split(' ')

test('SIGHUP stops a server as SIGTERM does', async (t) => {
  const { FAREBOX_DATA } = await made(t)
  const { child, ended } = start(t, process.execPath, ['src/main.ts'], { FAREBOX_DATA })
  const pids = await users(FAREBOX_DATA)
  child.kill('SIGHUP')
  assert.deepEqual(await ended, [0, null])
  await allEnd(pids)
  assert.equal(await readDataUser(FAREBOX_DATA), null)
})

for (const [signal, code] of [
  ['SIGHUP', 129],
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  test(`${signal} ends a command and the Postgres that it started`, async (t) => {
    const env = await made(t)
    const { child, ended } = start(t, process.execPath, ['src/cli.ts', ...waiting], env)
    const pids = await users(env.FAREBOX_DATA)
    child.kill(signal)
    assert.deepEqual(await ended, [code, null])
    await allEnd(pids)
  })

test('a command that is stopped while its Postgres starts leaves no Postgres running', async (t) => {
  const env = await made(t)
  const { child, ended } = start(t, process.execPath, ['src/cli.ts', ...waiting], env)
  const cluster = join(env.FAREBOX_DATA, 'postgres')
  const postmaster = await until(() => postmasterPid(cluster), { everyMs: 1 })
  assert.ok(postmaster)
  child.kill('SIGHUP')
  assert.equal((await ended)[0], 129)
  await allEnd([postmaster])
})

test('SIGHUP to npm ends the server and the command that npm started', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const env = await made(t)
  for (const args of [['start'], ['run', '-s', 'farebox', '--', ...waiting]]) {
    const { child, ended } = start(t, 'npm', args, env)
    const pids = await users(env.FAREBOX_DATA)
    child.kill('SIGHUP')
    await allEnd(pids)
    await ended
  }
})

test('closing a terminal ends the server and the command in it, even while they write to it', {
  skip: spawnSync('script', ['--version']).status !== 0 && 'there is no script(1) of util-linux',
}, async (t) => {
  const env = await made(t)
  for (const line of ['npm start', `npm run -s farebox -- ${waiting.join(' ')}`]) {
    const { child } = start(t, 'script', ['-qfec', line, '/dev/null'], { ...env, LOG_LEVEL: 'trace' })
    const pids = await users(env.FAREBOX_DATA)
    child.kill('SIGKILL')
    await allEnd(pids)
    // A server that stops, as it does at SIGTERM, takes its name away; one that crashes does not.
    if (line === 'npm start') assert.equal(await readDataUser(env.FAREBOX_DATA), null)
  }
})

test('a command ends silently when the reader of its output closes the pipe', async (t) => {
  const { child, ended } = start(t, process.execPath, ['src/cli.ts', '--help'], {})
  child.stdout?.destroy()
  let err = ''
  child.stderr?.on('data', (chunk) => {
    err += chunk
  })
  const [code] = await ended
  assert.deepEqual([code, err], [141, ''])
})
