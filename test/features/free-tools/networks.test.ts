import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { socketAddressText } from '../../../src/domain/free-list/endpoint.ts'
import { readEndpoints, readLiveMarks } from '../../../src/features/free-list/endpoint-reads.ts'
import { addCandidates } from '../../../src/features/free-list/endpoint-store.ts'
import { createIpData } from '../../../src/features/free-list/ip-data.ts'
import { createLiveList } from '../../../src/features/free-list/live-list.ts'
import { createCensusReader } from '../../../src/features/free-tools/census.ts'
import { readPage, readRanges } from '../../../src/features/free-tools/network-reads.ts'
import { createNetworks } from '../../../src/features/free-tools/rank-networks.ts'
import { sandboxLocationOf, withSandboxLocations } from '../../../src/sandbox/exit-locations.ts'
import { planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { httpClient } from '../../support/http.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testApp } from '../../support/test-app.ts'
import { type Recorded, record } from '../free-list/support/recorded.ts'
import { startChecker, startProber, startWorld } from '../free-list/world.ts'

const dayMs = 86_400_000

test('a network shows its live, former and never live endpoints', async (t) => {
  // It counts all endpoints of the service.
  const app = await testApp(t, { own: 'file' })
  const { pool } = app.core
  const anybody = httpClient(app.baseUrl, app.document)
  const nowMs = Date.now()
  const yearAgoMs = nowMs - 365 * dayMs
  const quiet: readonly Recorded[] = Array.from({ length: 230 }, (_, n) => ({
    ip: `8.8.8.${n + 10}`,
    port: 8080,
    state: 'not_answering',
    answered: [true, true, false],
    atMs: yearAgoMs + n * 60_000,
  }))
  const never: readonly Recorded[] = Array.from({ length: 240 }, (_, n) => ({
    ip: `8.8.4.${n + 10}`,
    port: 3128,
    state: 'never_answered',
    answered: [false, false, false, false],
    atMs: yearAgoMs + n * 60_000,
  }))
  await record(pool, [
    { ip: '8.8.8.8', port: 3128 },
    { ip: '2001:4860:4860::8888', port: 3128 },
    ...quiet,
    ...never,
    { ip: '1.1.1.1', port: 80, state: 'not_answering' },
  ])

  const { body: google } = await anybody.get('/api/networks/15169')
  assert.equal(google.name, 'Google LLC')
  assert.deepEqual(google.counts, { live: 2, not_answering: 230, retesting: 230, never_answered: 240 })
  assert.deepEqual(
    [google.live.length, google.not_answering.length, google.never_answered.length],
    [2, 200, 200],
  )
  assert.deepEqual(google.not_answering[0], {
    endpoint: '8.8.8.239:8080',
    location: google.not_answering[0].location,
    last_answered: new Date(yearAgoMs + 229 * 60_000 - 3_600_000).toISOString().slice(0, 10),
    answered: '2 / 3',
    successes: 2,
    checks: 3,
  })
  assert.match(google.not_answering[0].location, /US$/)
  assert.deepEqual(google.never_answered[0], {
    address: '8.8.4.249:3128',
    tests: 4,
    last_tested: new Date(yearAgoMs + 239 * 60_000).toISOString().slice(0, 10),
  })
  assert.equal(google.note, null)
  assert.deepEqual((await anybody.get('/api/networks/AS15169')).body, google)
  assert.deepEqual((await anybody.get('/api/networks/as15169')).body, google)

  const { body: cloudflare } = await anybody.get('/api/networks/AS13335')
  assert.deepEqual(cloudflare.live, [])
  assert.equal(
    cloudflare.note,
    'AS13335 has no live proxy now; 1 endpoint that answered before is checked again and again, and listed as soon as it answers',
  )
  const { body: comcast } = await anybody.get('/api/networks/7922')
  assert.equal(comcast.note, 'AS7922 has no live proxy now')

  const { body: all } = await anybody.get('/api/networks')
  assert.deepEqual(
    all.networks.map(({ asn, live, not_answering, never_answered }: Record<string, number>) => [
      asn,
      live,
      not_answering,
      never_answered,
    ]),
    [
      [15169, 2, 230, 240],
      [13335, 0, 1, 0],
    ],
  )
  assert.deepEqual((await anybody.get('/api/networks?limit=1&offset=1')).body.networks[0].asn, 13335)
  assert.equal((await anybody.get('/api/networks?country=us')).body.networks[0].country_code, 'us')
  assert.equal((await anybody.get('/api/networks?country=fr')).body.total, 0)
  for (const asn of ['0', 'AS', 'ASx', '4294967296', '-1', '1e3', '4294967295', '64500'])
    assert.deepEqual((await anybody.get(`/api/networks/${asn}`)).body.code, 'not_found', asn)
  assert.equal((await anybody.get('/api/networks?limit=0')).body.code, 'invalid_limit')
})

test('after a year without an answer no endpoint has left the record, and one that answers again becomes live', async (t) => {
  const { pool } = await testDatabase(t)
  const flapping = planProxies(154).filter(({ fault }) => fault === 'flapping')
  const [one] = flapping
  assert.ok(one && flapping.length > 1)
  const { periodMs } = one
  // The beginning of a period in which it is there.
  const clock = { nowMs: 2 * periodMs * Math.floor(1.7e12 / (2 * periodMs)) }
  const now = () => clock.nowMs
  const running = await startWorld(t, [one], now)
  const { prober, place } = await startProber(t, now)
  const checker = startChecker(t, { pool, prober, place, clock: now })
  const endpoint = { ip: one.ip, port: running[0]!.port }
  const asn = sandboxLocationOf(one.ip)!.asn
  const logger = pino({ level: 'silent' })
  const data = withSandboxLocations(createIpData({ country: null, city: null, network: null }))
  // Nothing is cached between two reads.
  let looks = 0
  const monotonicMs = () => (looks += 1e6)
  const census = createCensusReader({
    readPage: (after, rows) => readPage(pool, after, rows),
    data,
    clock: now,
    monotonicMs,
    logger,
  })
  t.after(census.stop)
  const list = createLiveList({
    reader: {
      versions: () => readLiveMarks(pool),
      endpoints: (places, nowMs) => readEndpoints(pool, places, nowMs),
    },
    data,
    clock: now,
    monotonicMs,
    logger,
  })
  const networks = createNetworks({
    list,
    census,
    data,
    readRanges: (ranges, most) => readRanges(pool, ranges, most),
    monotonicMs,
  })
  const look = async () => {
    await checker.settle()
    const found = await networks.one(asn)
    assert.ok(found)
    return found
  }

  await addCandidates(pool, [endpoint], now())
  assert.deepEqual((await look()).live.map(socketAddressText), [socketAddressText(endpoint)])
  clock.nowMs += periodMs
  await pool.query('update work.free_proxies set next_due = $1', [new Date(now()).toISOString()])
  const away = await look()
  assert.deepEqual([away.counts.live, away.counts.not_answering], [0, 1])

  // A year in which every check fails: only in the record, because the clock skips the checks between.
  clock.nowMs += 2 * periodMs * Math.ceil((365 * dayMs) / (2 * periodMs))
  const aged = await look()
  assert.deepEqual([aged.counts.live, aged.counts.not_answering, aged.counts.retesting], [0, 1, 1])
  assert.equal(aged.not_answering[0]?.endpoint, socketAddressText(endpoint))
  assert.equal(aged.not_answering[0]?.checks, 3)
  assert.match(aged.note ?? '', /no live proxy now; 1 endpoint/)

  clock.nowMs += periodMs + 2 * periodMs * Math.ceil(dayMs / (2 * periodMs))
  const back = await look()
  assert.deepEqual([back.counts.live, back.counts.not_answering, back.note], [1, 0, null])
  assert.equal(back.live[0]?.uptime_24h, 100)
})
