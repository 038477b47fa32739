import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createExitService } from '../../../src/features/exits/exit-service.ts'
import { parseExits } from '../../../src/features/exits/import-exits.ts'
import { createExitLogins } from '../../../src/features/exits/live-exits.ts'
import { createStockLogins, placeOfEndpoint } from '../../../src/features/stock/stock-logins.ts'
import { openExits } from '../../../src/gateway/exits/open-exits.ts'
import { deriveKey, masterKey } from '../../../src/platform/vault/keys.ts'
import { createVault, SealBroken } from '../../../src/platform/vault/seal.ts'
import { atEnd } from '../../support/cleanup.ts'
import { operator } from '../../support/operator.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testApp } from '../../support/test-app.ts'

const login = { username: 'farebox', password: 'secret' }

test('the login of an exit is sent to its own host only, whatever the read table contains', async (t) => {
  const { farebox } = await testApp(t, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })
  const { pool, runner, keys, clock, logger } = farebox.core
  const vault = createVault(keys.master)
  const logins = createExitLogins({ pool, vault })
  const parsed = parseExits(
    ['one', 'two', 'old']
      .map((id) =>
        JSON.stringify({ id, kind: 'http', host: `${id}.example`, port: 8080, country: 'us', ...login }),
      )
      .join('\n'),
  )
  assert.ok(parsed.ok)
  const exits = createExitService({ runner, logins })
  await exits.import(parsed.exits, operator)
  const { rows } = await pool.query<{ id: string }>(
    `select credential_id as id from vault.exit_credentials where exit_id = 'old'`,
  )
  // As a release before 0.2.0 sealed it: it does not say where it signs in.
  await pool.query('update vault.exit_credentials set sealed = $2 where credential_id = $1', [
    rows[0]!.id,
    vault.seal(Buffer.from(JSON.stringify(login)), `exit login ${rows[0]!.id}`),
  ])
  assert.ok(await farebox.projecting.caughtUp(30_000))
  await pool.query(
    `update read.exits set terms = jsonb_set(terms, '{via,host}', '"thief.example"') where exit_id = 'one'`,
  )
  const opened = await openExits({
    scheduler: testScheduler({ pool }),
    pool,
    vault,
    sandbox: false,
    allowLoopback: false,
    workers: 1,
    clock,
    random: Math.random,
    logger,
    probe: async () => ({ ok: true, latencyMs: 1, problem: null }),
  })
  atEnd(t, opened.stop)
  const serving = opened.live.index().serving
  assert.deepEqual(serving.map(({ exitId, login: found }) => [exitId, found]).toSorted(), [
    ['old', login],
    ['two', login],
  ])
  // The same file again changes nothing, and another host gets its own login.
  const same = await exits.import(parsed.exits, operator)
  assert.deepEqual([same.added, same.changed], [[], []])
  const moved = parseExits(
    JSON.stringify({ id: 'two', kind: 'http', host: 'new.example', port: 8080, country: 'us', ...login }),
  )
  assert.ok(moved.ok)
  assert.deepEqual((await exits.import(moved.exits, operator)).changed, ['two'])
  assert.ok(await farebox.projecting.caughtUp(30_000))
  await opened.live.refresh()
  const two = opened.live.index().serving.find(({ exitId }) => exitId === 'two')
  assert.deepEqual([two?.terms.via.kind === 'http' && two.terms.via.host, two?.login], ['new.example', login])
})

test('the login of an address is sent to its own host only, and one of an older release keeps its id', async (t) => {
  const { pool } = await testDatabase(t)
  const master = masterKey(randomBytes(32))
  const logins = createStockLogins({ pool, master })
  const stockAt = (host: string) => ({
    productId: 'isp-static',
    country: 'USA',
    addresses: [
      {
        ip: '203.0.113.7',
        carrierId: null,
        service: null,
        city: null,
        asn: null,
        asnOrg: null,
        endpoint: { protocol: 'http', host, port: 8080, udp: false, login } as const,
      },
    ],
  })
  const idAt = async (host: string): Promise<string> =>
    (await logins.store(stockAt(host))).addresses[0]!.endpoint!.credentialId!
  const id = await idAt('one.example')
  assert.equal(await idAt('one.example'), id)
  assert.notEqual(await idAt('two.example'), id)
  const { rows } = await pool.query<{ sealed: Buffer }>(
    'select sealed from vault.stock_credentials where credential_id = $1',
    [id],
  )
  const placeOf = (host: string) => placeOfEndpoint({ protocol: 'http', host, port: 8080, udp: false })
  const open = (host: string) => logins.open({ credentialId: id, place: placeOf(host) }, rows[0]!.sealed)
  assert.deepEqual(open('one.example'), login)
  assert.throws(() => open('thief.example'), SealBroken)

  // As a release before 0.2.0 named and sealed it.
  const former = `stl_${createHmac('sha256', deriveKey(master, 'stock logins v1'))
    .update(JSON.stringify(['203.0.113.7', login.username, login.password]))
    .digest('hex')
    .slice(0, 32)}`
  const sealed = createVault(master).seal(Buffer.from(JSON.stringify(login)), `stock login ${former}`)
  await pool.query('insert into vault.stock_credentials (credential_id, ip, sealed) values ($1, $2, $3)', [
    former,
    '203.0.113.7',
    sealed,
  ])
  assert.equal(await idAt('one.example'), former)
  assert.deepEqual(logins.open({ credentialId: former, place: placeOf('one.example') }, sealed), login)
})
