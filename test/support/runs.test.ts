import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import pg from 'pg'
import { serverUrl } from './postgres.ts'
import { seededTemplateOf, startRun } from './postgres-server.ts'

test('a run drops its own template, and those of ended runs without connections', async (t) => {
  const url = await serverUrl()
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  t.after(() => admin.end())
  const [active = '', ended = '', inUse = '', own = ''] = Array.from({ length: 4 }, () =>
    randomBytes(6).toString('hex'),
  )
  const names = [active, ended, inUse, own].map(seededTemplateOf)
  const found = async (): Promise<readonly string[]> => {
    const { rows } = await admin.query('select datname from pg_database where datname = any($1)', [names])
    return names.filter((name) => rows.some(({ datname }) => datname === name))
  }
  const endActive = await startRun(url, active)
  for (const run of [active, ended, inUse]) await admin.query(`create database ${seededTemplateOf(run)}`)
  const path = new URL(url)
  path.pathname = seededTemplateOf(inUse)
  const user = new pg.Client({ connectionString: path.toString() })
  await user.connect()

  const endOwn = await startRun(url, own)
  assert.deepEqual(await found(), [seededTemplateOf(active), seededTemplateOf(inUse)])
  await user.end()
  await admin.query(`create database ${seededTemplateOf(own)}`)
  await endOwn()
  await endActive()
  assert.deepEqual(await found(), [seededTemplateOf(inUse)])
  await (await startRun(url, own))()
  assert.deepEqual(await found(), [])
})
