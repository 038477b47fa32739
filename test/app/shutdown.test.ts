import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { dataDirectory, startFarebox, stopAtStart } from '../support/farebox.ts'
import { machineMs } from '../support/machine-time.ts'
import { ownPort } from '../support/own-port.ts'
import { seededDatabase } from '../support/seeded.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { usedDirectory } from '../support/used-folder.ts'

const timeoutMs = 3_000
const settings = { FAREBOX_SHUTDOWN_TIMEOUT_MS: String(timeoutMs) }

/** Additional time of a shutdown: the process must be scheduled, and close its files. */
const slackMs = 2_000

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('SIGTERM ends a server and its gateway within the configured time, even if Postgres stopped answering', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const env = await seededDatabase(t, '/nowhere')
  const proxy = await tcpProxy(t, env.DATABASE_URL!)
  const server = await startFarebox(t, {
    ...env,
    ...settings,
    DATABASE_URL: proxy.url,
    LOG_LEVEL: 'info',
    FAREBOX_GATEWAY_WORKERS: '1',
    FAREBOX_GATEWAY_PORT: String(await ownPort()),
  })
  const worker = Number(/"pid":(\d+),"msg":"a gateway worker is ready"/.exec(server.err())?.[1])
  assert.ok(isRunning(worker))
  proxy.hang()
  const request = fetch(`${server.baseUrl}/api/v1/products`, { headers: { 'x-api-key': 'unknown' } }).catch(
    () => null,
  )
  const startedMs = machineMs()
  const { code } = await server.stop()
  assert.ok(machineMs() - startedMs < timeoutMs + slackMs, `${machineMs() - startedMs} ms`)
  assert.equal(code, 1)
  await request
  await until(() => !isRunning(worker), { what: 'the end of the gateway' })
})

test('SIGTERM during a start breaks it off, and leaves no process', async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const { code, err } = await stopAtStart(
    t,
    {
      FAREBOX_DATA,
      LOG_LEVEL: 'info',
      FAREBOX_GATEWAY_WORKERS: '1',
      FAREBOX_GATEWAY_PORT: String(await ownPort()),
    },
    /"migrated the database"/,
  )
  assert.equal(code, 0, err)
  assert.doesNotMatch(err, /does not start|took too long/)
  assert.ok(!existsSync(join(FAREBOX_DATA, 'demo.json')), 'the start went on')
  assert.ok(!existsSync(join(FAREBOX_DATA, 'postgres/postmaster.pid')), 'Postgres runs')
})

test('after SIGTERM /readyz answers 503, and connections are accepted until the delay is over', {
  skip: skipWithoutPostgresLog,
}, async (t) => {
  const env = await seededDatabase(t, '/nowhere')
  const gateway = await ownPort()
  const server = await startFarebox(t, {
    ...env,
    FAREBOX_SHUTDOWN_DELAY_MS: '8000',
    FAREBOX_GATEWAY_WORKERS: '1',
    FAREBOX_GATEWAY_PORT: String(gateway),
  })
  const status = async (path: string) =>
    (await fetch(`${server.baseUrl}${path}`, { headers: { connection: 'close' } })).status
  assert.equal(await status('/readyz'), 200)
  const startedMs = performance.now()
  const ended = server.stop()
  await until(async () => (await status('/readyz')) === 503, { what: 'readiness 503' })
  assert.equal(await status('/healthz'), 200)
  const client = connect(gateway, '127.0.0.1')
  await once(client, 'connect')
  client.destroy()
  assert.equal((await ended).code, 0)
  assert.ok(performance.now() - startedMs >= 8_000)
})

test('SIGTERM ends a server within the configured time, even if its embedded Postgres is stopped', async (t) => {
  const dataDir = await usedDirectory(t)
  const server = await startFarebox(t, { FAREBOX_DATA: dataDir, ...settings })
  const [pid] = (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n').map(Number)
  // Every process of it: the session of each connection is one.
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').map(Number)
  const all = [pid!, ...children]
  const send = (signal: NodeJS.Signals): void => {
    for (const each of all) if (isRunning(each)) process.kill(each, signal)
  }
  atEnd(t, () => send('SIGCONT'))
  send('SIGSTOP')
  const startedMs = machineMs()
  await server.stop()
  assert.ok(machineMs() - startedMs < timeoutMs + slackMs, `${machineMs() - startedMs} ms`)
  send('SIGCONT')
  await until(() => !isRunning(pid!), { what: 'the end of Postgres' })
})
