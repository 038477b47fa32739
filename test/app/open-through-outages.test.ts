import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { readConfig } from '../../src/app/config.ts'
import { openThroughOutages } from '../../src/app/open-through-outages.ts'
import { openFarebox, roles } from '../../src/app/start.ts'
import { CommandOverload } from '../../src/platform/commands/command.ts'
import { LogUnavailable } from '../../src/platform/eventstore/errors.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { StartRefused } from '../../src/platform/postgres/errors.ts'
import { DatabaseUnreachable } from '../../src/platform/postgres/wait-for-database.ts'
import { demoEnv } from '../support/demo-env.ts'
import { dataDirectory, startFarebox } from '../support/farebox.ts'
import { testDatabase } from '../support/postgres.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const refusedConnection = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
// Its message contains the words of the driver, as that of a server that accepts connections and closes them does.
const unreachable = new DatabaseUnreachable('no connection (Connection terminated unexpectedly)', {
  cause: refusedConnection,
})
const ended = Object.assign(new Error('terminating connection'), { code: '57P01' })
const fullDisk = Object.assign(new Error('no space left on device'), { code: '53100' })

/** Opens what fails with these errors first, and then opens. */
const openAfter = async (...errors: Error[]) => {
  const lines: string[] = []
  const logger = createLogger('warn', { write: (line) => void lines.push(JSON.parse(line).msg) })
  const starting = new AbortController()
  const open = async (): Promise<string> => {
    const error = errors.shift()
    if (error !== undefined) throw error
    return 'open'
  }
  return { opened: openThroughOutages(open, { logger, starting: starting.signal }), starting, lines }
}

test('a start goes on after outages of a database that it reached, also if connections are refused then', async () => {
  const { opened, lines } = await openAfter(
    ended,
    unreachable,
    new LogUnavailable('the log cannot be read', { cause: ended }),
    new Error('migration 0001 failed', { cause: ended }),
    new CommandOverload('place-order got no answer within 5 s', 1),
  )
  assert.equal(await opened, 'open')
  assert.deepEqual(lines, ['waiting for the database (0 s so far): terminating connection'])
})

for (const error of [
  unreachable,
  new StartRefused('the password is wrong', { cause: ended }),
  new LogUnavailable('the log cannot be read', { cause: new Error('relation "log.events" does not exist') }),
  fullDisk,
])
  test(`a start ends at once with what waiting does not resolve: ${error.message}`, async () => {
    await assert.rejects((await openAfter(error)).opened, error)
  })

test('a start that is stopped while it waits ends with the outage', async () => {
  const { opened, starting } = await openAfter(ended, refusedConnection)
  const rejected = assert.rejects(opened, ended)
  await sleep(10)
  starting.abort()
  await rejected
})

test('a first start waits for a log that takes longer than a request may wait', async (t) => {
  const { url, pool } = await testDatabase(t)
  const client = await pool.connect()
  await client.query('begin; lock table engine.snapshots in access exclusive mode')
  const waits: string[] = []
  const write = (line: string): void => {
    const { msg } = JSON.parse(line)
    if (/^waiting for the event log .*: \S+ got no answer within 5 s/.test(msg)) waits.push(msg)
  }
  const opening = openFarebox({
    config: readConfig({ ...demoEnv(url, await dataDirectory(t)), FAREBOX_DEMO: 'on', PORT: '0' }),
    roles,
    systemClock: Date.now,
    monotonicMs: () => performance.now(),
    logger: createLogger('warn', { write }),
    kill: () => assert.fail(),
  })
  try {
    await Promise.race([opening, until(() => waits.length > 0)])
  } finally {
    // Ends the session, and with it the lock.
    client.release(true)
  }
  const farebox = await opening
  assert.notEqual(farebox.demo, null)
  await farebox.close()
})

test('a first start becomes ready although its embedded Postgres is killed', async (t) => {
  const dataDir = await dataDirectory(t)
  const started = startFarebox(t, { FAREBOX_DATA: dataDir })
  const pidFile = join(dataDir, 'postgres', 'postmaster.pid')
  const pid = await until(async () => {
    const lines = (await readFile(pidFile, 'utf8').catch(() => '')).split('\n')
    return lines[7]?.trim() === 'ready' ? Number(lines[0]) : undefined
  })
  process.kill(pid, 'SIGKILL')
  await started
})

test('a first start becomes ready although all its connections break again and again', async (t) => {
  const { url } = await testDatabase(t)
  const proxy = await tcpProxy(t, url)
  const env = { ...demoEnv(proxy.url, await dataDirectory(t)), FAREBOX_DEMO: 'on', LOG_LEVEL: 'warn' }
  let isReady = false
  const started = startFarebox(t, env).finally(() => {
    isReady = true
  })
  // Ever longer times between the breaks reach each part of a start, and one is long enough for the whole.
  for (let pauseMs = 100; !isReady; pauseMs *= 1.4) {
    await sleep(pauseMs)
    if (!isReady) proxy.cut()
  }
  const { err } = await started
  assert.match(err(), /waiting for the database|Connection terminated/)
})
