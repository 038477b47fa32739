import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import type { Finding } from '../../../src/app/doctor/finding.ts'
import { readDataUser } from '../../../src/platform/postgres/data-lock.ts'
import { dataDirectory, startFarebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { startKeeper } from '../../support/s3-stand-in.ts'
import { until } from '../../support/until.ts'

const examine = async (env: NodeJS.ProcessEnv) => {
  const { code, out, err } = await operate(['doctor', '--json'], env)
  const { healthy, findings } = JSON.parse(out) as { healthy: boolean; findings: Finding[] }
  assert.equal(code, healthy ? 0 : 1, err)
  const by = (check: string): Finding => {
    const finding = findings.find((each) => each.check === check)
    assert.ok(finding, `${check} in ${out}`)
    return finding
  }
  for (const { state, todo } of findings) if (state === 'wrong') assert.ok(todo, 'what to do')
  return { healthy, findings, by }
}

test('doctor reports a healthy server, its addresses, and the state of its log', async (t) => {
  const FAREBOX_DATA = await dataDirectory(t)
  const server = await startFarebox(t, { FAREBOX_DATA, FAREBOX_AUDITOR: 'on' })
  const env = { FAREBOX_DATA, PORT: new URL(server.baseUrl).port }
  const first = await until(
    async () => {
      const report = await examine(env)
      return report.by('auditor').state === 'ok' ? report : null
    },
    { what: 'the auditor' },
  )
  assert.ok(first.healthy, JSON.stringify(first.findings))
  assert.equal(first.by('data directory').found, FAREBOX_DATA)
  assert.equal(first.by('server').found, `ready on ${server.baseUrl} (process ${server.pid})`)
  assert.match(first.by('log').found, /^its head is position \d+, of \d{4}-/)
  for (const check of ['read models (hot)', 'read models (books)', 'last seal', 'clock', 'database roles'])
    assert.equal(first.by(check).state, 'ok', check)
  assert.deepEqual(
    [first.by('last verification').state, first.by('last verification').todo],
    ['note', 'run "ledger verify"'],
  )
  assert.match(first.by('seal target').found, /^none is set/)
  const sealFolder = await mkdtemp(join(tmpdir(), 'farebox-doctor-seals-'))
  t.after(() => rm(sealFolder, { recursive: true, force: true }))
  const target = { ...env, FAREBOX_SEAL_TARGET: `file:${sealFolder}` }
  assert.equal((await operate(['ledger', 'seal'], env)).code, 0)
  assert.match(
    (await examine(target)).by('seal target').found,
    /^file:.* is \d+ seals? behind for \d+ second/,
  )
  await rm(sealFolder, { recursive: true })
  assert.equal((await operate(['ledger', 'seals', 'deliver'], target)).code, 1)
  const away = (await examine(target)).by('seal target')
  assert.deepEqual([away.state, /cannot be found \(ENOENT\)$/.test(away.found)], ['wrong', true])
  await mkdir(sealFolder)
  assert.equal((await operate(['ledger', 'seals', 'deliver'], target)).code, 0)
  assert.match((await examine(target)).by('seal target').found, /has every seal$/)
  const keeper = await startKeeper(t, 'token', 'ignored')
  const overwriting = (
    await examine({
      ...env,
      FAREBOX_SEAL_TARGET: keeper.url,
      FAREBOX_SEAL_TARGET_TOKEN: 'token',
      FAREBOX_SEAL_TARGET_PRIVATE: 'on',
    })
  ).by('seal target')
  assert.equal(overwriting.state, 'wrong')
  assert.match(overwriting.found, /overwrites files/)
  assert.equal((await operate(['ledger', 'verify'], env)).code, 0)
  assert.match((await examine(env)).by('last verification').found, /^clean, started at /)

  const { code, out } = await operate(['doctor'], env)
  assert.equal(code, 0)
  assert.match(out, /^ok {5}server {10,}ready on http.+\n(.*\n)*\nnothing is wrong\n$/m)

  const { url } = (await readDataUser(FAREBOX_DATA))!
  const client = new pg.Client({ connectionString: url! })
  await client.connect()
  await client.query(`update work.verifications set outcome = 'differs'`)
  await client.end()
  const differs = await examine(env)
  assert.equal(differs.healthy, false)
  assert.equal(differs.by('last verification').state, 'wrong')
  await server.stop()

  const without = await examine(env)
  assert.deepEqual(
    [without.by('server').state, without.by('server').todo],
    ['note', 'start one with npm start'],
  )
  assert.equal(without.by('log').state, 'ok')

  const path = join(FAREBOX_DATA, 'master.key')
  await rename(path, `${path}.away`)
  const lost = await examine(env)
  assert.deepEqual([lost.healthy, lost.by('data directory').state], [false, 'wrong'])
  assert.match(lost.by('data directory').found, /master\.key is missing/)
  await rename(`${path}.away`, path)
})

test('doctor reports a folder without a Farebox and a port used by another program, and creates nothing', async (t) => {
  const FAREBOX_DATA = await mkdtemp(join(tmpdir(), 'farebox-doctor-'))
  t.after(() => rm(FAREBOX_DATA, { recursive: true }))
  const other = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
  t.after(() => other.close())
  await new Promise((resolve) => other.once('listening', resolve))
  const { healthy, by } = await examine({
    FAREBOX_DATA,
    PORT: String((other.address() as AddressInfo).port),
  })
  assert.equal(healthy, false)
  assert.match(by('data directory').found, /holds no Farebox$/)
  assert.match(by('server').found, /^something answers on .+ does not use the data of this FAREBOX_DATA$/)
  assert.deepEqual(await readdir(FAREBOX_DATA), [])
})

test('doctor reports a database that accepts no connection', async (_t) => {
  const key = Buffer.alloc(32, 7).toString('base64')
  const { by } = await examine({
    DATABASE_URL: 'postgres://u:p@127.0.0.1:1/shop',
    FAREBOX_MASTER_KEY: key,
    FAREBOX_SEAL_KEY: key,
  })
  assert.match(by('database').found, /^the database shop on 127\.0\.0\.1:1 gave no connection within 10 s/)
})
