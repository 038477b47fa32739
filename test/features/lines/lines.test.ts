import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseUsername } from '../../../src/domain/exits/line.ts'
import { createLineSets } from '../../../src/features/lines/line-sets.ts'
import { networkOf } from '../../../src/features/lines/whitelist.ts'
import { createIsAllowed } from '../../../src/features/lines/whitelist-commitments.ts'
import { createWhitelistLookup } from '../../../src/gateway/authenticate/whitelist-lookup.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import type { Called, HttpClient } from '../../support/http.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const buy = async (client: HttpClient, product: string, key: string, headers = {}): Promise<PlanId> => {
  const placed = await client.post(
    '/api/v1/orders',
    { product_id: product, quantity: 1 },
    { headers: { 'Idempotency-Key': key, ...headers } },
  )
  assert.equal(placed.status, 201, placed.text)
  return placed.body.planId
}

test('lines of plans', async (t) => {
  const { core, baseUrl, buyer, reseller, demo } = await testApp(t, {
    own: true,
    settings: { FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'off' },
  })
  const { pool, clock } = core
  const premium = await buy(buyer, 'residential-premium', 'lines-premium')
  const basic = await buy(buyer, 'residential-basic', 'lines-basic')
  const foreign = await buy(reseller, 'residential-premium', 'lines-foreign')
  const generate = (json: unknown, plan: string = premium, headers = {}): Promise<Called> =>
    buyer.post(`/api/v1/plans/${plan}/generate`, json, { headers })
  const plan = async () => (await buyer.get(`/api/v1/plans/${premium}`)).body
  await until(async () => (await buyer.get('/api/v1/geo/countries')).body.total === 13, { what: 'the exits' })

  await t.test('encode their location in their usernames, and differ in their sessions', async () => {
    const { connection } = await plan()
    const answer = await generate({ count: 3, stickyMinutes: 30, country: 'USA', city: 'los_angeles' })
    assert.equal(answer.status, 200, answer.text)
    assert.deepEqual(
      { ...answer.body, lines: answer.body.lines.length },
      {
        planId: premium,
        count: 3,
        protocol: 'http',
        format: 'host:port:user:pass',
        stickyMinutes: 30,
        lineSet: null,
        lines: 3,
      },
    )
    const sessions = answer.body.lines.map((line: string) => {
      const [host, port, username = '', password] = line.split(':')
      assert.deepEqual(
        [host, port, password],
        [connection.host, String(connection.ports.http), connection.password],
      )
      const parsed = parseUsername(username)
      assert.ok(parsed.ok)
      const { base, targeting, session } = parsed.line
      assert.equal(base, connection.username)
      assert.deepEqual([targeting.country, targeting.city], ['us', 'los_angeles'])
      assert.equal(session?.lifetimeMinutes, 30)
      return session?.id
    })
    assert.equal(new Set(sessions).size, 3)
    const rotating = await generate({})
    assert.deepEqual(rotating.body.lines, [
      `${connection.host}:${connection.ports.http}:${connection.username}:${connection.password}`,
    ])
    assert.equal((await generate({ stickyMinutes: 1_440 })).body.stickyMinutes, 1_440)
  })

  await t.test('are returned in every format, and as text', async () => {
    const { host, ports, username, password } = (await plan()).connection
    const at = `${host}:${ports.http}`
    const line = async (json: object) => (await generate({ country: 'de', ...json })).body.lines[0]
    const user = `${username}-country-de`
    assert.equal(await line({ format: 'user:pass@host:port' }), `${user}:${password}@${at}`)
    assert.equal(await line({ format: 'user:pass:host:port' }), `${user}:${password}:${at}`)
    assert.equal(await line({ format: 'url' }), `http://${user}:${password}@${at}`)
    assert.equal(await line({ format: 'url', protocol: 'socks5' }), `socks5h://${user}:${password}@${at}`)
    for (const protocol of ['socks5', undefined])
      assert.equal(await line({ format: 'url-socks5', protocol }), `socks5://${user}:${password}@${at}`)
    assert.match(
      (await generate({ format: 'url-socks5', protocol: 'http' })).body.error,
      /^format url-socks5 is for lines of SOCKS5/,
    )
    assert.equal(await line({ format: 'host:port' }), at)
    assert.equal(
      await line({ format: 'custom', template: '{PROTOCOL} {USER}|{PASS}|{HOST}|{PORT}' }),
      `http ${user}|${password}|${host}|${ports.http}`,
    )
    const json = await line({ format: 'json', stickyMinutes: 5, protocol: 'https' })
    assert.match(json.username, /^[a-z0-9]+-country-de-session-[a-z0-9]{8}-lifetime-5$/)
    assert.deepEqual([json.host, json.port, json.protocol, json.expiresAt], [host, ports.http, 'https', null])
    const text = await generate({ count: 3 }, premium, { Accept: 'text/plain' })
    assert.match(text.headers.get('content-type') ?? '', /^text\/plain/)
    assert.equal(text.text.split('\n').length, 3)
    const udp = await generate({ country: 'jp', udp: true })
    assert.deepEqual([udp.body.protocol, udp.body.lines[0].includes('-udp-on')], ['socks5', true])
  })

  await t.test('are generated by 5,000 in little time', async () => {
    const startMs = performance.now()
    const { body } = await generate({ count: 5_000, country: 'us', stickyMinutes: 10 })
    t.diagnostic(`5,000 lines over HTTP in ${Math.round(performance.now() - startMs)} ms, parsing included`)
    assert.equal(new Set(body.lines).size, 5_000)
  })

  await t.test(
    'refer to a stored set if their targeting is too long, the same one for the same targeting',
    async () => {
      const excludeCities = Array.from({ length: 20 }, (_, n) => `a_city_with_a_long_name_${n}`)
      const long = { country: 'us', excludeCities, excludeAsn: [1, 2, 3], strict: false }
      const nameOf = async (json: object) =>
        (await generate({ format: 'json', ...json })).body.lines[0].username
      const username = await nameOf(long)
      assert.match(username, /^[a-z0-9]{14}-set-[a-z0-9]{8}$/)
      assert.equal(await nameOf(long), username)
      assert.notEqual(await nameOf({ ...long, strict: true }), username)
      assert.ok((await nameOf({ ...long, stickyMinutes: 1_440 })).length <= 200)
      const sets = createLineSets({ pool })
      const set = username.split('-').at(-1) ?? ''
      for (let n = 0; n < 2; n += 1) {
        const targeting = await sets.targetingOf(premium, set)
        assert.deepEqual(targeting?.not.cities, excludeCities)
        assert.deepEqual(
          [targeting?.country, targeting?.strict, targeting?.not.asns],
          ['us', false, [1, 2, 3]],
        )
      }
      assert.equal(await sets.targetingOf(basic, set), null, 'a set is of its plan')
      assert.match(await nameOf({ country: 'us', excludeCities: ['dallas'] }), /-not\.city-dallas$/)
    },
  )

  await t.test('have a set of their own by its name, also with a short targeting', async () => {
    const named = async (set: string, json: object = { country: 'de' }) => {
      const answer = await generate({ count: 2, stickyMinutes: 10, format: 'json', set, ...json })
      assert.equal(answer.status, 200, answer.text)
      const { lineSet, lines } = answer.body
      for (const { username } of lines) {
        const parsed = parseUsername(username)
        assert.ok(parsed.ok && parsed.line.set === lineSet, username)
      }
      return lineSet as string
    }
    const sales = await named('Sales_team-1')
    assert.equal(await named('Sales_team-1'), sales)
    const others = [
      await named('support'),
      await named('Sales_team-1', { country: 'us' }),
      await named('any', {}),
    ]
    assert.equal(new Set([sales, ...others]).size, 4)
    const sets = createLineSets({ pool })
    assert.equal((await sets.targetingOf(premium, sales))?.country, 'de')
    assert.equal((await sets.targetingOf(premium, others[2]!))?.country, null)
    for (const set of ['', 'x'.repeat(41), 'two words', 'ü']) {
      const refused = await generate({ set })
      assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_body'], set)
      assert.match(refused.body.error, /set must be 1 to 40 letters, digits, - and _/)
    }
  })

  for (const [what, json, code] of [
    ['no number', { count: '2' }, 'invalid_count'],
    ['half a line', { count: 1.5 }, 'invalid_count'],
    ['no line', { count: 0 }, 'invalid_count'],
    ['too many lines', { count: 5_001 }, 'invalid_count'],
    ['minutes below zero', { stickyMinutes: -1 }, 'invalid_sticky'],
    ['more minutes than a session lasts', { stickyMinutes: 1_441 }, 'invalid_sticky'],
    ['half a minute', { stickyMinutes: 0.5 }, 'invalid_sticky'],
    ['minutes as text', { stickyMinutes: '10' }, 'invalid_sticky'],
    ['a country that is none', { country: 'zz' }, 'invalid_targeting'],
    ['a country as a number', { country: 1 }, 'invalid_targeting'],
    ['a country without exits', { country: 'ng' }, 'invalid_targeting'],
    ['a state and a city', { country: 'us', state: 'texas', city: 'dallas' }, 'invalid_targeting'],
    ['a state without a country', { state: 'texas' }, 'invalid_targeting'],
    ['a city without a country', { city: 'dallas' }, 'invalid_targeting'],
    ['an ISP without a country', { isp: 'verizon' }, 'invalid_targeting'],
    ['a misspelt city', { country: 'us', city: 'dalas', strict: false }, 'invalid_targeting'],
    ['a city of another country', { country: 'de', city: 'dallas' }, 'invalid_targeting'],
    ['an empty state', { country: 'us', state: '' }, 'invalid_targeting'],
    ['what no exit has', { country: 'us', asn: 3320 }, 'invalid_targeting'],
    ['a network as text', { asn: 'AS7922' }, 'invalid_asn'],
    ['network 0', { asn: 0 }, 'invalid_asn'],
    ['a network above 32 bits', { asn: 4_294_967_296 }, 'invalid_asn'],
    ['an unknown system', { os: 'linux' }, 'invalid_os'],
    ['strict as text', { strict: 'off' }, 'invalid_strict'],
    ['udp as a number', { udp: 1 }, 'invalid_udp'],
    ['udp over HTTP', { country: 'us', udp: true, protocol: 'http' }, 'invalid_udp'],
    ['21 excluded networks', { excludeAsn: Array.from({ length: 21 }, (_, n) => n + 1) }, 'invalid_exclude'],
    ['an excluded network as text', { excludeAsn: ['1'] }, 'invalid_exclude'],
    ['an excluded country that is none', { excludeCountries: ['zz'] }, 'invalid_exclude'],
    ['an excluded country that is wanted', { country: 'us', excludeCountries: ['USA'] }, 'invalid_exclude'],
    ['no list of states', { excludeStates: 'texas' }, 'invalid_exclude'],
    ['an excluded city without letters', { excludeCities: ['…'] }, 'invalid_exclude'],
    ['an unknown protocol', { protocol: 'ftp' }, 'invalid_body'],
    ['an unknown format', { format: 'csv' }, 'invalid_body'],
    ['a format without its template', { format: 'custom' }, 'invalid_body'],
    ['a template without its format', { template: '{HOST}' }, 'invalid_body'],
    ['a template with other braces', { format: 'custom', template: '{HOSTS}' }, 'invalid_body'],
    ['a template of two lines', { format: 'custom', template: '{HOST}\n' }, 'invalid_body'],
    ['a template that is too long', { format: 'custom', template: 'x'.repeat(513) }, 'invalid_body'],
    ['an unknown field', { zip: '75201' }, 'unknown_field'],
  ] as const)
    await t.test(`are refused because of ${what}`, async () => {
      const refused = await generate(json)
      assert.deepEqual([refused.status, refused.body.code], [400, code], refused.text)
      assert.ok(refused.body.error.length > 15, refused.body.error)
    })

  await t.test('accept the targeting of their product, and at most its number of items', async () => {
    const refused = await generate({ country: 'us', os: 'mac' }, basic)
    assert.equal(refused.body.code, 'invalid_targeting')
    assert.match(refused.body.error, /country, city/)
    assert.equal(
      (await generate({ country: 'us', strict: true, udp: false, excludeAsn: [] }, basic)).status,
      200,
    )
    assert.match((await generate({ count: 1_001 }, basic)).body.error, /1000/)
    assert.equal((await generate({}, foreign)).body.code, 'not_found')
    assert.equal((await generate({}, 'pln_none')).body.code, 'not_found')
  })

  await t.test("use exits of their product's family", async () => {
    const mobile = await buy(buyer, 'mobile-gateway', 'lines-mobile')
    const onPhone = { country: 'us', os: 'ios' }
    assert.equal((await generate(onPhone, mobile)).status, 200)
    assert.equal((await generate(onPhone)).body.code, 'invalid_targeting')
    assert.equal((await generate({ ...onPhone, strict: false })).status, 200)
  })

  await t.test(
    'have another password after a rotation, and the old one works two minutes longer',
    async () => {
      const before = (await plan()).connection
      const rotated = await buyer.post(`/api/v1/plans/${premium}/rotate-password`, {})
      assert.equal(rotated.status, 200, rotated.text)
      const { connection, previousValidUntil } = rotated.body
      assert.equal(connection.username, before.username)
      assert.notEqual(connection.password, before.password)
      assert.ok(Math.abs(Date.parse(previousValidUntil) - clock() - 120_000) < 30_000)
      assert.deepEqual((await plan()).connection, connection)
      const { rows } = await pool.query<{ generation: number; rotated: boolean }>(
        'select generation, rotated_at is not null as rotated from read.plans where plan_id = $1::text',
        [premium],
      )
      assert.deepEqual(rows, [{ generation: 1, rotated: true }])
      assert.equal((await buyer.post(`/api/v1/plans/${foreign}/rotate-password`, {})).status, 404)
    },
  )

  await t.test('have sessions that can be released, of their own plan only', async () => {
    const insert = `insert into work.sticky_sessions (session_key, holder, session_id, exit_key, round, started_at, expires_at)
       values ($1::text, $2::text, $3::text, 'x us', 0, now(), now() + interval '1 hour')`
    for (const [key, holder, id] of [
      ['k1', premium, 'a'],
      ['k2', premium, 'b'],
      ['k3', premium, 'c'],
      ['k4', foreign, 'a'],
    ])
      await pool.query(insert, [key, holder, id])
    const release = (json: unknown) => buyer.post(`/api/v1/plans/${premium}/sessions/release`, json)
    assert.deepEqual((await release({ sessions: ['a', 'nothing'] })).body, { planId: premium, released: 1 })
    assert.equal((await release({})).body.released, 2)
    assert.equal((await release({})).body.released, 0)
    const { rows } = await pool.query('select from work.sticky_sessions where expires_at > now()')
    assert.equal(rows.length, 1)
    for (const wrong of [{ sessions: [] }, { sessions: ['a.b'] }, { sessions: 'a' }, { ids: ['a'] }])
      assert.equal((await release(wrong)).status, 400, JSON.stringify(wrong))
    assert.equal((await buyer.post(`/api/v1/plans/${foreign}/sessions/release`, {})).status, 404)
  })

  await t.test('need no credentials from addresses of the whitelist', async () => {
    const path = `/api/v1/plans/${premium}/whitelist`
    const add = (json: unknown, at = path) => buyer.post(at, json)
    const added = await add({
      entries: [{ cidr: '203.0.114.7', label: 'office' }, { cidr: '203.0.115.0/24' }],
    })
    assert.equal(added.status, 201, added.text)
    const listed = await buyer.get(path)
    assert.equal(listed.body.total, 2)
    assert.deepEqual(
      new Set(listed.body.whitelist.map(({ cidr }: { cidr: string }) => cidr)),
      new Set(['203.0.114.7/32', '203.0.115.0/24']),
    )
    const again = await add({ entries: [{ cidr: '203.0.114.7/32', label: 'home' }] })
    assert.equal(again.body.whitelist[0].label, 'home')
    assert.equal((await buyer.get(path)).body.total, 2)

    const other = `/api/v1/plans/${basic}/whitelist`
    const taken = await add({ entries: [{ cidr: '203.0.114.7' }, { cidr: '203.0.116.1' }] }, other)
    assert.deepEqual([taken.status, taken.body.code, taken.body.movable], [409, 'address_taken', true])
    assert.equal((await buyer.get(other)).body.total, 0, 'all or none')
    const theirs = await reseller.post(`/api/v1/plans/${foreign}/whitelist`, {
      entries: [{ cidr: '203.0.114.7' }],
      move: true,
    })
    assert.deepEqual([theirs.status, theirs.body.movable], [409, false])
    assert.equal((await add({ entries: [{ cidr: '203.0.114.7' }], move: true }, other)).status, 201)
    assert.equal((await buyer.get(path)).body.total, 1)

    const lookupDependencies = {
      pool,
      isAllowed: createIsAllowed(core.log),
      clock,
      monotonicMs: () => performance.now(),
      logger: core.logger,
      onError: (error: unknown) => assert.fail(String(error)),
    }
    const lookup = createWhitelistLookup(lookupDependencies)
    assert.partialDeepStrictEqual(await lookup.find('203.0.114.7'), { planId: basic, targeting: null })
    assert.equal((await lookup.find('203.0.115.99'))?.planId, premium)
    assert.equal(await lookup.find('203.0.117.1'), null)
    assert.equal(await lookup.find('no address'), null)
    await until(async () => (await buyer.get(other)).body.whitelist[0].lastUsedAt !== null, {
      what: 'the use',
    })
    assert.equal((await add({ entries: [{ cidr: '203.0.115.9' }] }, other)).status, 201)
    const fresh = createWhitelistLookup(lookupDependencies)
    assert.equal((await fresh.find('203.0.115.9'))?.planId, basic, 'the narrowest network')

    for (const cidr of [
      '',
      'x',
      '10.0.0.1',
      '203.0.114.0/23',
      '203.0.115.7/24',
      '1.2.3.4/33',
      '2001:db8::/32',
      'fe80::1%1',
      '1.2.3',
    ])
      assert.equal((await add({ entries: [{ cidr }] })).body.code, 'invalid_ip', cidr)
    assert.equal(networkOf('2a00:1450:4001:800::/64', false), '2a00:1450:4001:800::/64')
    const many = (n: number) =>
      Array.from({ length: 10 }, (_, at) => ({ cidr: `198.51.${101 + n}.${at + 1}` }))
    assert.equal((await add({ entries: [...many(0), { cidr: '8.8.8.8' }] })).body.code, 'invalid_body')
    const public1 = (n: number) => Array.from({ length: 10 }, (_, at) => ({ cidr: `9.9.${n}.${at + 1}` }))
    for (let n = 0; n < 14; n += 1) assert.equal((await add({ entries: public1(n) })).status, 201)
    const full = await add({ entries: public1(14) })
    assert.deepEqual([full.status, full.body.code], [409, 'whitelist_limit_reached'])

    const [{ id }] = (await buyer.get(other)).body.whitelist
    assert.equal((await buyer.call('DELETE', `${path}/${id}`)).status, 404, 'of another plan')
    assert.equal((await buyer.call('DELETE', `${other}/${id}`)).status, 204)
    assert.equal((await buyer.call('DELETE', `${other}/${id}`)).status, 404)
    assert.equal((await buyer.get(`/api/v1/plans/${foreign}/whitelist`)).status, 404)
  })

  await t.test('exit where the location lists say', async () => {
    const geo = async (rest: string) => (await buyer.get(`/api/v1/geo/${rest}`)).body
    const { countries } = await geo('countries')
    assert.deepEqual(countries[0].name, 'Australia')
    assert.deepEqual(
      countries.find(({ alpha2 }: { alpha2: string }) => alpha2 === 'us'),
      { alpha2: 'us', alpha3: 'USA', name: 'United States', states: 3, cities: 3, asns: 5 },
    )
    assert.deepEqual((await geo('countries?q=united&limit=1')).total, 2)
    assert.deepEqual((await geo('states?country=US')).states[0], { code: 'california', name: 'California' })
    assert.deepEqual((await geo('cities?country=br&q=NITEROI')).cities, [
      { code: 'niteroi', name: 'Niterói', state: 'rio_de_janeiro' },
    ])
    assert.equal((await geo('cities?country=us&state=texas')).total, 1)
    assert.deepEqual((await geo('isps?country=deu')).isps[0], {
      code: 'deutsche_telekom',
      name: 'Deutsche Telekom',
      asns: [3320],
    })
    assert.deepEqual((await geo('asns?country=de&limit=1&offset=1')).asns, [
      { asn: 3320, name: 'Deutsche Telekom' },
    ])
    assert.equal((await geo('countries?family=mobile')).total, 13)
    assert.equal((await geo('states?country=ng')).total, 0)
    for (const [rest, code] of [
      ['states', 'invalid_targeting'],
      ['cities?country=zz', 'invalid_targeting'],
      ['isps?country=us&limit=0', 'invalid_limit'],
      ['asns?country=us&offset=x', 'invalid_offset'],
      ['countries?family=tor', 'invalid_parameter'],
    ])
      assert.equal((await geo(rest ?? '')).code, code, rest)
    const first = await buyer.get('/api/v1/geo/cities?country=jp')
    const etag = first.headers.get('etag') ?? ''
    const second = await buyer.get('/api/v1/geo/cities?country=jp', { headers: { 'If-None-Match': etag } })
    assert.equal(second.status, 304)

    // Its last exits are removed, as the gateway's probes would do.
    const die = (alive: boolean) =>
      pool.query(
        `insert into work.exit_health (exit_id, alive) select 'sandbox-jp-' || n, $1::boolean from generate_series(1, 5) n
         on conflict (exit_id) do update set alive = excluded.alive, changed_at = clock_timestamp()`,
        [alive],
      )
    await die(false)
    await until(async () => (await geo('countries')).total === 12, {
      timeoutMs: 10_000,
      what: 'a shorter list',
    })
    assert.equal((await geo('cities?country=jp')).total, 0)
    assert.equal((await generate({ country: 'jp' })).body.code, 'invalid_targeting')
    await die(true)
    await until(async () => (await geo('countries')).total === 13, { what: 'its return' })
    assert.equal((await fetch(`${baseUrl}/api/v1/geo/countries`)).status, 401)
    assert.ok(demo.sandbox)
  })
})
