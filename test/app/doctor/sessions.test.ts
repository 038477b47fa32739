import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../../../src/app/config.ts'
import { checkRoles } from '../../../src/app/doctor/checks.ts'
import type { Finding } from '../../../src/app/doctor/finding.ts'
import { checkSessions } from '../../../src/app/doctor/outside-checks.ts'
import { openDatabase } from '../../../src/app/open-database.ts'
import { openWorkerDatabase } from '../../../src/app/open-pool.ts'
import { type CloseStack, closeOnFailure } from '../../../src/kernel/resource-scope.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { operate } from '../../support/operator.ts'
import { testDatabase } from '../../support/postgres.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { startTransactionPooler } from '../../support/transaction-pooler.ts'

test('doctor reports a connection pooler in transaction mode and what to do about it', async (t) => {
  const { url } = await testDatabase(t)
  for (const next of ['the last', 'another'] as const) {
    const [finding] = await checkSessions(await startTransactionPooler(t, url, next))
    assert.equal(finding?.state, 'wrong', next)
    assert.match(finding.found, /a connection pooler in transaction mode/)
    assert.match(finding.todo ?? '', /pool_mode = session/)
  }
  const key = Buffer.alloc(32, 7).toString('base64')
  const { code, out } = await operate(['doctor', '--json'], {
    DATABASE_URL: await startTransactionPooler(t, url, 'the last'),
    FAREBOX_MASTER_KEY: key,
    FAREBOX_SEAL_KEY: key,
  })
  assert.equal(code, 1)
  const { findings } = JSON.parse(out) as { findings: readonly Finding[] }
  assert.equal(findings.find(({ check }) => check === 'sessions')?.state, 'wrong')
  assert.equal(
    findings.some(({ check }) => check === 'database'),
    false,
    'what a pooler breaks is not checked',
  )
})

test('doctor reports a service whose role is a superuser', async (t) => {
  const { pool } = await testDatabase(t)
  const { state, found } = await checkRoles({ pool })
  assert.deepEqual([state, /is a superuser/.test(found)], ['note', true])
})

test('a start and a worker elsewhere refuse a connection pooler in transaction mode', async (t) => {
  const { url } = await testDatabase(t)
  const key = Buffer.alloc(32, 7).toString('base64')
  const config = readConfig({
    DATABASE_URL: await startTransactionPooler(t, url, 'the last'),
    FAREBOX_MASTER_KEY: key,
    FAREBOX_SEAL_KEY: key,
  })
  const logger = createLogger('silent')
  const worker = { config, applicationName: 'worker', poolSize: 2, needed: [], logger, starting: undefined }
  for (const open of [
    (closing: CloseStack) => openDatabase(closing, { config, role: 'server', logger }),
    (closing: CloseStack) => openDatabase(closing, { config, role: 'auditor', logger }),
    (closing: CloseStack) => openWorkerDatabase(closing, worker),
  ])
    await assert.rejects(closeOnFailure<unknown>(open), {
      name: 'StartRefused',
      message: /pooler in transaction mode.*pool_mode = session/,
    })
})

test('doctor reports no problem with plain Postgres or with a pooler in session mode', async (t) => {
  const { url } = await testDatabase(t)
  for (const address of [url, (await tcpProxy(t, url)).url])
    assert.deepEqual(
      (await checkSessions(address)).map(({ state }) => state),
      ['ok'],
    )
  assert.deepEqual(await checkSessions('postgres://u:p@127.0.0.1:1/shop'), [])
})
