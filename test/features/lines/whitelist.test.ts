import assert from 'node:assert/strict'
import { test } from 'node:test'
import { basic, socksTo, talkTo } from '../../gateway/support/clients.ts'
import { startRealWorker, whoami } from '../../gateway/support/real-worker.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('a whitelisted address connects without credentials and exits where its entry says', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { buyer } = app
  const { port } = await startRealWorker(t, app)
  const bought = async (productId: string) => {
    const { status, text, body } = await buyer.post('/api/v1/orders', { product_id: productId, quantity: 1 })
    assert.equal(status, 201, text)
    return body.planId as string
  }
  const plan = await bought('residential-premium')
  const planOf = async (id: string) => (await buyer.get(`/api/v1/plans/${id}`)).body
  const list = async (targeting: object | undefined, id = plan, more: object = {}) =>
    buyer.post(`/api/v1/plans/${id}/whitelist`, {
      entries: [{ cidr: '127.0.0.1', label: 'this machine', ...(targeting && { targeting }) }],
      ...more,
    })

  /** The answer to a plain request that sends no credentials. */
  const ask = async (more = ''): Promise<string> => {
    const talk = await talkTo(port)
    talk.write(
      `GET http://whoami.sandbox/ HTTP/1.1\r\nHost: whoami.sandbox\r\nConnection: close\r\n${more}\r\n`,
    )
    return (await talk.rest()).toString()
  }
  const placeOf = (answer: string) =>
    JSON.parse(answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1))
  const goesOutOf = (country: string, os?: string) => async () => {
    const answer = await ask()
    if (!answer.startsWith('HTTP/1.1 200 ')) return false
    const place = placeOf(answer)
    return place.country === country && (os === undefined || place.os === os)
  }

  await t.test('before it is listed it needs credentials', async () => {
    assert.match(await ask(), /^HTTP\/1\.1 407 [\s\S]*X-Proxy-Error: credentials_required/)
    assert.equal((await planOf(plan)).whitelistCount, 0)
  })

  await t.test('with a targeting, over HTTP and SOCKS5; its use is shown', async () => {
    const added = await list({ country: 'DEU', os: 'mac' })
    assert.equal(added.status, 201, added.text)
    assert.deepEqual(added.body.whitelist[0].targeting, { country: 'de', os: 'mac' })
    await until(goesOutOf('de', 'mac'), { what: 'the entry' })
    const { talk, reply } = await socksTo(port, 'whoami.sandbox', 80, { user: null })
    assert.equal(reply, 0)
    talk.write('GET / HTTP/1.1\r\nHost: whoami.sandbox\r\nConnection: close\r\n\r\n')
    const place = placeOf((await talk.rest()).toString())
    assert.deepEqual([place.country, place.os], ['de', 'mac'])
    const { body } = await buyer.get(`/api/v1/plans/${plan}/whitelist`)
    assert.deepEqual(body.whitelist[0].targeting, { country: 'de', os: 'mac' })
    const shown = async () =>
      (await buyer.get(`/api/v1/plans/${plan}/whitelist`)).body.whitelist[0].lastUsedAt
    assert.ok(Date.now() - Date.parse(await until(shown, { what: 'its use' })) < 60_000)
    const { whitelistCount, generate, bytesUsed } = await planOf(plan)
    assert.deepEqual([whitelistCount, generate.stickyMaxMinutes], [1, 1_440])
    assert.ok(bytesUsed >= 0)
  })

  await t.test('sent again, an entry has the new targeting, or none', async () => {
    await list({ country: 'fr' })
    await until(goesOutOf('fr'), { what: 'France' })
    const { body } = await list(undefined)
    assert.equal(body.whitelist[0].targeting, null)
    await until(async () => !(await goesOutOf('fr')()), { what: 'anywhere' })
  })

  await t.test('credentials take precedence', async () => {
    const { username, password } = (await planOf(plan)).connection
    await list({ country: 'fr' })
    const place = await whoami(`http://${username}-country-jp:${password}@127.0.0.1:${port}`)
    assert.equal(place.country, 'jp')
    const wrong = await ask(`Proxy-Authorization: ${basic(username, 'wrong')}\r\n`)
    assert.match(wrong, /^HTTP\/1\.1 407 [\s\S]*X-Proxy-Error: wrong_credentials/)
  })

  await t.test('another plan takes the entry only with move, and with its own abilities', async () => {
    const basicPlan = await bought('residential-basic')
    const taken = await list({ country: 'us' }, basicPlan)
    assert.deepEqual([taken.status, taken.body.code, taken.body.movable], [409, 'address_taken', true])
    const beyond = await list({ country: 'us', os: 'mac' }, basicPlan, { move: true })
    assert.deepEqual([beyond.status, beyond.body.code], [400, 'invalid_targeting'])
    assert.equal((await list({ country: 'us' }, basicPlan, { move: true })).status, 201)
    await until(goesOutOf('us'), { what: 'the other plan' })
    assert.deepEqual([(await planOf(plan)).whitelistCount, (await planOf(basicPlan)).whitelistCount], [0, 1])
  })

  for (const [what, targeting, code] of [
    ['a misspelt city', { country: 'us', city: 'dalas' }, 'invalid_targeting'],
    ['a city without a country', { city: 'dallas' }, 'invalid_targeting'],
    ['a country as a number', { country: 1 }, 'invalid_targeting'],
    ['network 0', { asn: 0 }, 'invalid_asn'],
    ['an unknown system', { os: 'linux' }, 'invalid_os'],
    ['strict as text', { strict: 'off' }, 'invalid_strict'],
    ['udp as text', { udp: 'on' }, 'invalid_udp'],
    ['an excluded country that is wanted', { country: 'us', excludeCountries: ['us'] }, 'invalid_exclude'],
    ['an unknown field', { contry: 'us' }, 'unknown_field'],
    ['a text', 'country-us', 'invalid_body'],
  ] as const)
    await t.test(`${what} is refused, and nothing is stored`, async () => {
      const before = (await buyer.get(`/api/v1/plans/${plan}/whitelist`)).body
      const entries = [{ cidr: '9.9.9.1' }, { cidr: '9.9.9.2', targeting }]
      const refused = await buyer.post(`/api/v1/plans/${plan}/whitelist`, { entries })
      assert.deepEqual([refused.status, refused.body.code], [400, code], refused.text)
      assert.deepEqual((await buyer.get(`/api/v1/plans/${plan}/whitelist`)).body, before)
    })
})
