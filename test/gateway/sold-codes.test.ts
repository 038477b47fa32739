import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { remedyOf } from '../../src/domain/exits/connection-failures.ts'
import { buyPlan, gb, meter } from '../features/webhooks/causes.ts'
import { type Customer, done } from '../support/app-actions.ts'
import { type TestApp, testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { basic, sendRaw, socksTo, type Talk, talkTo } from './support/clients.ts'
import { startRealWorker, whoami } from './support/real-worker.ts'
import { closedPort, tcpTarget } from './support/targets.ts'

/** Tunnels that one plan may have open. */
const maxTunnels = 6

/** Each code by its real cause: a plan that was bought, a worker as it runs, exits of the sandbox. */
describe('a bought line answers', () => {
  const ends: (() => unknown)[] = []
  let t: TestContext
  let app: TestApp
  let customer: Customer
  let port: number
  let planId: string
  let login: { readonly username: string; readonly password: string }
  /** Sends the requested number of bytes, such as `1000\n`. */
  let target: number
  const caused = new Map<string, number>()

  const loginOf = async (plan: string, key: string) =>
    (await done(app.client.get(`/api/v1/plans/${plan}`, { key }))).body.connection as typeof login

  before(async () => {
    t = { name: 'codes', after: (end: () => unknown) => void ends.unshift(end) } as unknown as TestContext
    app = await testApp(t, {
      own: true,
      settings: { FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on', FAREBOX_GATEWAY_CONNECTIONS: String(maxTunnels) },
    })
    ;({ port } = await startRealWorker(t, app))
    customer = await app.customer({ cents: 100_000 })
    const { body } = await done(
      app.client.post(
        '/api/v1/orders',
        { product_id: 'residential-premium', quantity: 1 },
        { key: customer.key },
      ),
    )
    ;({ planId } = body)
    login = await loginOf(planId, customer.key)
    target = await tcpTarget(t, (socket) =>
      socket
        .on('data', (wanted) => socket.write(Buffer.alloc(Number(wanted.toString()), 'x')))
        .on('end', () => socket.end()),
    )
    await until(() => whoami(`http://${login.username}:${login.password}@127.0.0.1:${port}`), {
      what: 'exits',
    })
  })
  after(async () => {
    for (const end of ends) await end()
  })

  type Expected = {
    readonly status: number
    readonly reason: string
    readonly error: string
    readonly socks: number
  }
  type Attempt = { readonly user?: string | null; readonly word?: string; readonly to?: string }

  /** Sends CONNECT, a plain request and SOCKS5, and checks every part of the answers. */
  const refused = async (
    { user = login.username, word = login.password, to = `127.0.0.1:${target}` }: Attempt,
    { status, reason, error, socks }: Expected,
  ): Promise<string> => {
    const sent = user === null ? '' : `Proxy-Authorization: ${basic(user, word)}\r\n`
    let last = ''
    for (const request of [
      `CONNECT ${to} HTTP/1.1\r\n${sent}\r\n`,
      `GET http://${to}/ HTTP/1.1\r\nHost: ${to}\r\n${sent}\r\n`,
    ]) {
      last = await sendRaw(port, request)
      const [head = '', body = ''] = last.split('\r\n\r\n')
      assert.equal(head.split('\r\n')[0], `HTTP/1.1 ${status} ${reason}`, last)
      assert.match(head, new RegExp(`\r\nX-Proxy-Error: ${error}(\r\n|$)`))
      const [, detail = ''] = /\r\nX-Proxy-Detail: ([^\r]+)/.exec(head) ?? []
      const answer = JSON.parse(body) as { error: string; requestId: string }
      assert.ok(detail.length > 20)
      assert.equal(answer.error, detail)
      assert.match(answer.requestId, /^req_[0-9a-f]{32}$/)
    }
    const [host = '', toPort = ''] = to.split(':')
    const { reply, talk } = await socksTo(port, host, Number(toPort), { user, word })
    assert.equal(reply, socks)
    talk.socket.destroy()
    if (user !== null && word === login.password) caused.set(error, (caused.get(error) ?? 0) + 3)
    return last
  }
  const open = async (user = login.username): Promise<Talk> => {
    const talk = await talkTo(port)
    talk.write(
      `CONNECT 127.0.0.1:${target} HTTP/1.1\r\nProxy-Authorization: ${basic(user, login.password)}\r\n\r\n`,
    )
    const head = await talk.until('\r\n\r\n')
    assert.match(head, /^HTTP\/1\.1 200 /)
    return talk
  }

  const authentication = { status: 407, reason: 'Proxy Authentication Required' } as const
  test("407 for a wrong password, and for a line of another plan with this one's password", async () => {
    const expected = { ...authentication, error: 'wrong_credentials', socks: -1 }
    assert.match(await refused({ word: 'wrong' }, expected), /\r\nProxy-Authenticate: Basic realm="/)
    const other = await app.customer({ cents: 10_000 })
    const foreign = await loginOf((await buyPlan(app, other)).planId, other.key)
    await refused({ user: foreign.username, word: `${login.password}` }, expected)
    caused.delete('wrong_credentials')
  })
  test('407 without credentials', async () => {
    await refused({ user: null }, { ...authentication, error: 'credentials_required', socks: -2 })
  })

  const unaccepted = { status: 403, reason: 'Targeting Not Accepted', socks: 2 } as const
  test('403 for an unknown token, with its name', async () => {
    const answer = await refused(
      { user: `${login.username}-planet-mars` },
      { ...unaccepted, error: 'targeting_refused' },
    )
    assert.match(answer, /X-Proxy-Detail: planet/)
  })
  test('403 for a state together with a city, an ISP without a country, and a repeated key', async () => {
    for (const tokens of ['country-us-state-texas-city-dallas', 'isp-verizon', 'country-us-country-us'])
      await refused({ user: `${login.username}-${tokens}` }, { ...unaccepted, error: 'targeting_refused' })
  })
  test('403 for a misspelt location', async () => {
    const answer = await refused(
      { user: `${login.username}-country-us-city-dalas` },
      { ...unaccepted, error: 'bad_targeting' },
    )
    assert.match(answer, /X-Proxy-Detail: city-dalas/)
  })

  test('464 for a private address and for a mail port', async () => {
    const blocked = { status: 464, reason: 'Target Blocked', error: 'target_blocked', socks: 2 }
    await refused({ to: '10.0.0.1:80' }, blocked)
    await refused({ to: `127.0.0.1:25` }, blocked)
  })

  test('465 where no live exit matches; with strict off any exit of the country is used, and the answer says so', async () => {
    const nowhere = `${login.username}-country-us-city-los_angeles-os-mac`
    await refused({ user: nowhere }, { status: 465, reason: 'No Exit Matches', error: 'no_exit', socks: 3 })
    const sent = `Proxy-Authorization: ${basic(`${nowhere}-strict-off`, login.password)}\r\n`
    const answer = await sendRaw(
      port,
      `GET http://whoami.sandbox/ HTTP/1.1\r\nHost: whoami.sandbox\r\nConnection: close\r\n${sent}\r\n`,
    )
    assert.match(answer, /^HTTP\/1\.1 200 [\s\S]*\r\nX-Proxy-Fallback: country\r\n[\s\S]*"country":"us"/)
  })

  test('466 once the traffic is used up', async () => {
    const other = await app.customer({ cents: 10_000 })
    const plan = (await buyPlan(app, other)).planId
    await meter(app, plan, gb)
    const { username: user, password: word } = await loginOf(plan, other.key)
    await refused(
      { user, word },
      { status: 466, reason: 'Traffic Used Up', error: 'traffic_exhausted', socks: 2 },
    )
  })

  test('467 once the cap of the session is used up: running tunnels are cut at that byte, and another id passes', async () => {
    const user = `${login.username}-session-capped-limit-1`
    const talk = await open(user)
    talk.write('1500000')
    const passed = (await talk.rest()).length
    assert.equal(passed, 1_000_000 - '1500000'.length)
    talk.socket.destroy()
    await refused(
      { user },
      { status: 467, reason: 'Session Limit Used Up', error: 'session_limit_reached', socks: 2 },
    )
    ;(await open(`${login.username}-session-other-limit-1`)).socket.destroy()
  })

  test('568 when the exit of a session fails, until the session is released; another id works at once', async () => {
    const user = `${login.username}-country-fr-session-pinned`
    const line = (name: string) => `http://${name}:${login.password}@127.0.0.1:${port}`
    const { exit } = await whoami(line(user))
    const control = (alive: boolean) =>
      fetch(`${app.demo.sandbox}/_sandbox/exits/${exit}`, {
        method: 'PUT',
        body: JSON.stringify({ alive }),
        headers: { 'content-type': 'application/json' },
      })
    await control(false)
    await refused({ user }, { status: 568, reason: 'Session Exit Failed', error: 'session_failed', socks: 1 })
    const other = await whoami(line(`${login.username}-country-fr-session-second`))
    assert.notEqual(other.exit, exit)
    await done(
      app.client.post(
        `/api/v1/plans/${planId}/sessions/release`,
        { sessions: ['pinned'] },
        { key: customer.key },
      ),
    )
    const moved = await until(() => whoami(line(user)), { what: 'the released session' })
    assert.notEqual(moved.exit, exit)
    await control(true)
  })

  test('502 when the target refuses, as reported by a SOCKS5 exit', async () => {
    await refused(
      {
        user: `${login.username}-country-us-city-los_angeles-os-windows`,
        to: `127.0.0.1:${await closedPort()}`,
      },
      { status: 502, reason: 'Bad Gateway', error: 'target_refused', socks: 5 },
    )
  })

  test('503 with Retry-After for one connection more than a plan allows', async () => {
    const tunnels = await Promise.all(Array.from({ length: maxTunnels }, () => open()))
    const answer = await refused(
      {},
      { status: 503, reason: 'Service Unavailable', error: 'too_many_connections', socks: 1 },
    )
    assert.match(answer, /\r\nRetry-After: 1\r\n/)
    for (const { socket } of tunnels) socket.destroy()
    await until(() =>
      open()
        .then(({ socket }) => socket.destroy())
        .then(() => true),
    )
  })

  type Usage = {
    readonly buckets: readonly { bytesUp: number; bytesDown: number; failures: number; connections: number }[]
    readonly failures: readonly { reason: string; count: number; howToFix: string }[]
    readonly hosts: readonly { host: string; bytes: number; connections: number }[]
    readonly countsHosts: boolean
  }
  const usage = async (query = ''): Promise<Usage> =>
    (await done(app.client.get(`/api/v1/plans/${planId}/usage${query}`, { key: customer.key }))).body
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

  test('and its usage counts each failure by its reason, with a remedy', async () => {
    assert.ok(caused.size >= 8, [...caused.keys()].join())
    const failuresByReason = async () => new Map((await usage()).failures.map((one) => [one.reason, one]))
    await until(
      async () => {
        const found = await failuresByReason()
        return [...caused].every(([reason, count]) => (found.get(reason)?.count ?? 0) >= count)
      },
      { what: 'the failures' },
    )
    // Some occur more often: the tunnel that was cut, and attempts until it worked again.
    const retried = new Set(['session_failed', 'session_limit_reached', 'too_many_connections'])
    const found = await failuresByReason()
    for (const [reason, count] of caused) {
      const one = found.get(reason)
      if (!retried.has(reason)) assert.equal(one?.count, count, reason)
      assert.equal(one?.howToFix, remedyOf(reason))
    }
    const byDay = await usage('?bucket=day')
    assert.equal(
      sum(byDay.buckets.map(({ failures }) => failures)),
      sum(byDay.failures.map(({ count }) => count)),
    )
  })

  test('its hosts are totals of the day, unless its owner disabled them', async () => {
    const talk = await open()
    talk.write('5000')
    await talk.exactly(5_000)
    talk.socket.destroy()
    const hostOf = async () => (await usage()).hosts.find(({ host }) => host === '127.0.0.1')
    const { bytes } = await until(hostOf, { what: 'the host' })
    assert.ok(bytes >= 1_000_000)
    const { hosts } = await usage()
    assert.deepEqual(
      hosts.map((one) => one.bytes),
      hosts.map((one) => one.bytes).toSorted((a, b) => b - a),
    )
    // Hours are written after their bytes are counted, so they may follow the hosts.
    await until(async () => sum((await usage()).buckets.map(({ bytesDown }) => bytesDown)) >= 1_000_000, {
      what: 'the bytes of the hours',
    })

    const choose = async (countsHosts: boolean) =>
      (
        await done(
          app.client.call('PATCH', `/api/v1/plans/${planId}/usage`, {
            key: customer.key,
            json: { countsHosts },
          }),
        )
      ).body as Usage
    assert.deepEqual((await choose(false)).hosts, [])
    // A worker knows of it within a second.
    const { pool } = app.core
    const isForgotten = async (): Promise<boolean> => {
      await pool.query('delete from work.plan_hosts where plan_id = $1', [planId])
      const before = sum((await usage()).buckets.map(({ connections }) => connections))
      ;(await open()).socket.destroy()
      await until(async () => sum((await usage()).buckets.map((one) => one.connections)) > before)
      return (await usage()).hosts.length === 0
    }
    await until(isForgotten, { what: 'no host to be counted' })
    assert.equal((await choose(true)).countsHosts, true)
    await until(async () => {
      ;(await open()).socket.destroy()
      return hostOf()
    })
  })
})
