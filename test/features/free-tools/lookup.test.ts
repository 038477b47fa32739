import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createIpData } from '../../../src/features/free-list/ip-data.ts'
import { httpClient } from '../../support/http.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { type Recorded, record } from '../free-list/support/recorded.ts'

test('a look-up gives location, network, and whether a proxy answers there', async (t) => {
  const app = await testApp(t)
  const anybody = httpClient(app.baseUrl, app.document)
  const hourAgo = Date.now() - 3_600_000
  // Other tests of the service have other endpoints.
  const recorded: readonly Recorded[] = [
    { ip: '9.9.11.8', port: 3128, exitIp: '9.9.11.1' },
    { ip: '9.9.11.9', port: 80, state: 'not_answering', atMs: hourAgo },
    { ip: '9.9.11.10', port: 80, state: 'never_answered' },
    { ip: '9.9.11.11', port: 80, state: 'not_answering', atMs: hourAgo - 30 * 86_400_000 },
  ]
  const { pool } = app.core
  t.after(() =>
    pool.query('delete from work.free_proxies where ip = any ($1)', [recorded.map(({ ip }) => ip)]),
  )
  await record(pool, recorded)
  const lookUp = async (ip: string) => (await anybody.get(`/api/ip-lookup?ip=${ip}`)).body
  const google = await lookUp('8.8.8.8')
  assert.deepEqual(
    [google.country_code, google.country, google.state, google.city, google.timezone, google.asn],
    ['us', 'United States', 'California', 'Mountain View', 'America/Los_Angeles', 15169],
  )
  assert.match(google.attribution, /DB-IP/)
  const known = async (ip: string) => {
    const { is_proxy, in_live_list } = await lookUp(ip)
    return [is_proxy, in_live_list]
  }
  // The list that another test has read is used for a moment.
  await until(async () => (await lookUp('9.9.11.8')).in_live_list)
  assert.deepEqual(await known('9.9.11.8'), [true, true])
  assert.deepEqual(await known('9.9.11.1'), [true, true], 'where a live one goes out')
  assert.deepEqual(await known('9.9.11.9'), [true, false], 'it answered an hour ago')
  assert.deepEqual(await known('9.9.11.10'), [false, false])
  assert.deepEqual(await known('9.9.11.11'), [false, false], 'it answered a month ago')
})

test('every form of an address is recognized, and private ones have no location', async (t) => {
  const app = await testApp(t)
  const anybody = httpClient(app.baseUrl, app.document)
  const lookUp = async (ip: string) => (await anybody.get(`/api/ip-lookup?ip=${encodeURIComponent(ip)}`)).body
  assert.equal((await lookUp('::ffff:8.8.8.8')).ip, '8.8.8.8')
  assert.equal((await lookUp('2001:4860:4860:0:0:0:0:8888')).ip, '2001:4860:4860::8888')
  assert.equal((await lookUp('2001:4860:4860::8888')).asn, 15169)
  for (const ip of [
    '10.0.0.1',
    '192.168.1.1',
    '127.0.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '::1',
    'fd00::1',
    '::ffff:10.0.0.1',
  ]) {
    const { reserved, country_code, asn } = await lookUp(ip)
    assert.deepEqual([reserved, country_code, asn], [true, null, null], ip)
  }
  const own = await anybody.get('/api/ip-lookup')
  assert.equal(own.body.ip, '127.0.0.1')
  for (const ip of [
    '',
    'localhost',
    '8.8.8',
    '8.8.8.8:80',
    '0x08080808',
    '134744072',
    'fe80::1%eth0',
    '8.8.8.8/32',
    '[::1]',
    '08.8.8.8',
  ]) {
    const { status, body } = await anybody.get(`/api/ip-lookup?ip=${encodeURIComponent(ip)}`)
    assert.deepEqual([status, body.code], [400, 'invalid_ip'], ip)
  }
})

test('without the data packages fields are null, and the response names the missing ones', async () => {
  const data = createIpData({ country: null, city: null, network: null })
  const facts = await data.of('8.8.8.8')
  assert.ok(Object.values(facts).every((value) => value === null))
  assert.equal(await data.announced(15169), null)
  assert.match(data.note ?? '', /dbip-city-mmdb is not installed here: states, cities/)
  assert.match(data.note ?? '', /@ip-location-db\/asn is not installed/)
})
