import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createStockLogins, placeOfEndpoint } from '../../../src/features/stock/stock-logins.ts'
import { deriveKey, masterKey } from '../../../src/platform/vault/keys.ts'
import { createVault, SealBroken } from '../../../src/platform/vault/seal.ts'
import { testDatabase } from '../../support/postgres.ts'

const login = { username: 'farebox', password: 'secret' }

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
