import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readDataUser } from '../../src/platform/postgres/data-lock.ts'
import { startEmbeddedPostgres } from '../../src/platform/postgres/embedded.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { demoKeys } from '../support/demo-env.ts'
import { dataDirectory, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { allRefused, allRefusedBesideAuditor, refusals, refusalsBesideAuditor } from './serving-role.ts'

test('the data folder of a version with one role works with three, without any setting', async (t) => {
  const env = { FAREBOX_DATA: await dataDirectory(t), FAREBOX_DEMO: 'off', ...demoKeys() }
  const before = await startEmbeddedPostgres({ dataDir: env.FAREBOX_DATA })
  const made = await startFarebox(t, { ...env, DATABASE_URL: before.ownerUrl })
  await made.stop()
  const old = createPool({ url: before.ownerUrl, applicationName: 'farebox-test' })
  await old.query('create schema verify_left; create table verify_left.rows as select 1 as n')
  await old.end()
  await before.stop()

  await startFarebox(t, { ...env, FAREBOX_AUDITOR: 'on' })
  const verified = await operate(['ledger', 'verify'], env)
  assert.equal(verified.code, 0, verified.err)
  const { url } = (await readDataUser(env.FAREBOX_DATA))!
  const pool = createPool({ url: url!, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  assert.deepEqual(await refusals(pool), allRefused)
  assert.deepEqual(await refusalsBesideAuditor(pool), allRefusedBesideAuditor)
})
