import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { Registry } from 'prom-client'
import { openAccess } from '../../../src/app/gateway-process.ts'
import { planFold } from '../../../src/domain/plans/fold.ts'
import { createSessionCaps, type SessionCaps } from '../../../src/gateway/admit/open-tunnels.ts'
import type { Whitelisted } from '../../../src/gateway/authenticate/whitelist-lookup.ts'
import type { Admission, ConnectionAttempt, Denied } from '../../../src/gateway/gateway-ports.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { planStream } from '../../../src/kernel/streams.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { createCredentials } from '../../../src/platform/vault/credentials.ts'
import { machineMs } from '../../support/machine-time.ts'
import { operator } from '../../support/operator.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { type OwnApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyTraffic, usedBytesOf } from '../admit/budgets.ts'

describe('who may use the gateway', () => {
  let app: OwnApp
  let plan: PlanId
  const ends: (() => unknown)[] = []
  let gateway: ReturnType<typeof openAccess>
  const registry = new Registry()
  const whitelist = new Map<string, Whitelisted>()

  before(async () => {
    const held = { after: (end: () => unknown) => void ends.push(end) } as TestContext
    app = await testApp(held, { own: true })
    const { core } = app
    plan = await buyTraffic(app, 2)
    gateway = openAccess({
      scheduler: testScheduler(),
      pool: core.pool,
      log: core.log,
      keys: core.keys,
      worker: 'access-test',
      clock: core.clock,
      monotonicMs: () => performance.now(),
      logger: createLogger('silent'),
      maxTunnels: 3,
      hosts: 'full',
      recordsRequests: true,
      registry,
      whitelisted: async (source) => whitelist.get(source) ?? null,
      targetingOfSet: async () => null,
      exitOf: async ({ ip }) => ({
        exitId: 'own',
        via: { kind: 'direct', localAddress: ip },
        sandbox: true,
        udp: true,
      }),
    })
    ends.unshift(() => gateway.stop())
  })
  after(async () => {
    for (const end of ends) await end()
  })

  const credentialOf = async (planId: string) => {
    const { body } = await app.buyer.get(`/api/v1/plans/${planId}`)
    return body.connection as { username: string; password: string }
  }
  const attempt = (credentials: ConnectionAttempt['credentials'], over: Partial<ConnectionAttempt> = {}) =>
    gateway.access.admit({
      requestId: 'req_test',
      credentials,
      source: '203.0.113.9',
      dialled: '127.0.0.1',
      protocol: 'connect',
      ...over,
    })
  const admitted = (answer: Admission | Denied): Admission => {
    assert.ok(!answer.denied, JSON.stringify(answer))
    return answer
  }
  const refused = (answer: Admission | Denied): readonly [number, string] => {
    assert.ok(answer.denied)
    return [answer.status, answer.error]
  }

  test('the line of a new plan is admitted', async () => {
    const { username, password } = await credentialOf(plan)
    const admission = admitted(
      await attempt({ username: `${username}-country-us-city-dallas-session-a1-lifetime-5`, password }),
    )
    assert.equal(admission.holder, plan)
    assert.equal(admission.line.targeting.city, 'dallas')
    assert.deepEqual(admission.line.session, { id: 'a1', lifetimeMinutes: 5 })
    admission.close({ error: null, host: null })
  })

  test('a plan is admitted as soon as its order is answered, whatever was tried before', async () => {
    const { password } = await credentialOf(plan)
    const credentials = createCredentials(app.core.keys.master)
    const { products } = (await app.buyer.get('/api/v1/products')).body
    // A product has one plan: each of these begins another.
    const sold: string[] = products
      .filter((one: Record<string, string>) => one.shape === 'gateway_gb' && one.state === 'active')
      .map(({ id }: { id: string }) => id)
      .filter((id: string) => id !== 'residential-premium')
    assert.ok(sold.length > 1, `${sold}`)
    const tries: Promise<unknown>[] = []
    for (const [n, productId] of sold.entries()) {
      tries.push(attempt({ username: `unknown${n}`, password }, { source: `198.51.100.${n}` }))
      const { status, body } = await app.buyer.post(
        '/api/v1/orders',
        { product_id: productId, quantity: 5 },
        { headers: { 'Idempotency-Key': crypto.randomUUID() } },
      )
      assert.equal(status, 201, JSON.stringify(body))
      admitted(await attempt(credentials.of(body.planId, 0))).close({ error: null, host: null })
    }
    await Promise.all(tries)
  })

  test('traffic is counted and shown in the plan', async () => {
    const before = await usedBytesOf(app, plan)
    const { username, password } = await credentialOf(plan)
    const admission = admitted(await attempt({ username, password }))
    assert.equal(admission.spending.take(700, 'up'), 700)
    assert.equal(admission.spending.take(1_300, 'down'), 1_300)
    admission.spending.giveBack(300, 'down')
    admission.close({ error: null, host: 'example.com' })
    await gateway.flush()
    assert.equal(await usedBytesOf(app, plan), before + 1_700)
    const { rows } = await app.core.pool.query(
      'select bytes_up, bytes_down from work.plan_hours where plan_id = $1',
      [plan],
    )
    assert.deepEqual(rows, [{ bytes_up: 700, bytes_down: 1_000 }])
    const hosts = await app.core.pool.query('select host, bytes, connections from work.plan_hosts')
    assert.deepEqual(hosts.rows, [{ host: 'example.com', bytes: 1_700, connections: 1 }])
  })

  test("its owner reads the plan's usage by hour and day, and the reasons of failures", async () => {
    const { username, password } = await credentialOf(plan)
    await attempt({ username: `${username}-nonsense-1`, password })
    await gateway.flush()
    for (const bucket of ['hour', 'day']) {
      const { status, body } = await app.buyer.get(`/api/v1/plans/${plan}/usage?bucket=${bucket}`)
      assert.equal(status, 200)
      const sum = (of: 'bytesUp' | 'bytesDown' | 'failures') =>
        body.buckets.reduce((bytes: number, one: Record<typeof of, number>) => bytes + one[of], 0)
      assert.deepEqual([sum('bytesUp'), sum('bytesDown'), sum('failures')], [700, 1_000, 1])
      assert.equal(body.failures[0].reason, 'targeting_refused')
      assert.match(body.failures[0].howToFix, /geo lists/)
    }
    const { body } = await app.buyer.get(`/api/v1/plans/${plan}/usage`)
    assert.deepEqual(body.hosts, [{ host: 'example.com', bytes: 1_700, connections: 1 }])
    for (const [query, status] of [
      ['bucket=week', 400],
      ['from=2026-11-22&to=2026-11-21', 400],
      ['bucket=hour&from=2026-01-01&to=2026-11-21', 400],
    ] as const)
      assert.equal((await app.buyer.get(`/api/v1/plans/${plan}/usage?${query}`)).status, status, query)
    assert.equal((await app.reseller.get(`/api/v1/plans/${plan}/usage`)).status, 404)
  })

  test('hosts are deleted and counted no more when the owner says so', async () => {
    const off = await app.buyer.call('PATCH', `/api/v1/plans/${plan}/usage`, {
      json: { countsHosts: false },
    })
    assert.deepEqual([off.body.countsHosts, off.body.hosts], [false, []])
    const { username, password } = await credentialOf(plan)
    const admission = admitted(await attempt({ username, password }))
    admission.spending.take(10, 'up')
    admission.close({ error: null, host: 'example.org' })
    await gateway.flush()
    assert.deepEqual((await app.buyer.get(`/api/v1/plans/${plan}/usage`)).body.hosts, [])
  })

  test('traffic is counted and recorded although a statement marks the next batches as counted', async () => {
    const { pool } = app.core
    const bytes = async (): Promise<readonly number[]> => {
      const { rows } = await pool.query(
        `select (select sum(bytes_up) from work.plan_hours where plan_id = $1)::int as hours,
                (select sum(bytes_up) from traffic.requests where plan_id = $1)::int as requests`,
        [plan],
      )
      return [await usedBytesOf(app, plan), rows[0].hours, rows[0].requests]
    }
    const before = await bytes()
    const { username, password } = await credentialOf(plan)
    for (const _ of ['first', 'second']) {
      await pool.query('update work.traffic_reporters set sequence = 9000000000000000')
      const admission = admitted(await attempt({ username, password }))
      assert.equal(admission.spending.take(500, 'up'), 500)
      admission.close({ error: null, host: null })
      await gateway.flush()
    }
    assert.deepEqual(
      await bytes(),
      before.map((sum) => sum + 1_000),
    )
    const refused = await registry.getSingleMetricAsString('farebox_gateway_refused_batches_total')
    assert.match(refused, /farebox_gateway_refused_batches_total [6-9]$/, 'traffic, usage and records, twice')
  })

  test('what a tunnel gives back after its end is neither charged nor recorded', async () => {
    const { pool } = app.core
    const recorded = async (): Promise<number> =>
      (
        await pool.query(
          'select sum(bytes_up + bytes_down)::int as bytes from traffic.requests where plan_id = $1',
          [plan],
        )
      ).rows[0].bytes
    const before = [await usedBytesOf(app, plan), await recorded()]
    const { username, password } = await credentialOf(plan)
    const admission = admitted(await attempt({ username, password }))
    assert.equal(admission.spending.take(1_000, 'up'), 1_000)
    admission.close({ error: null, host: null })
    admission.spending.giveBack(400, 'up')
    await gateway.flush()
    await gateway.flush()
    assert.deepEqual(
      [await usedBytesOf(app, plan), await recorded()],
      before.map((bytes) => bytes + 600),
    )
  })

  test('wrong credentials of every kind get one answer', async () => {
    const { username, password } = await credentialOf(plan)
    const answers = [
      await attempt({ username, password: `${password}x` }),
      await attempt({ username, password: '' }),
      await attempt({ username: 'nobodysname123', password }),
      await attempt({ username: '', password }),
      await attempt({ username: `${username.slice(0, -1)}-country-us`, password }),
    ]
    for (const answer of answers) assert.deepEqual(answer, answers[0])
    assert.deepEqual(refused(answers[0]!), [407, 'wrong_credentials'])
    assert.deepEqual(refused(await attempt(null)), [407, 'credentials_required'])
  })

  test('the time of an answer does not reveal which usernames exist', async () => {
    const { username } = await credentialOf(plan)
    const timeOf = async (name: string, clock = () => performance.now()): Promise<number> => {
      const startedMs = clock()
      // Each from its own address, so that none is slowed down.
      const source = `203.0.113.${100 + timed++}`
      assert.equal(refused(await attempt({ username: name, password: 'wrong' }, { source }))[0], 407)
      return clock() - startedMs
    }
    let timed = 0
    for (const name of [username, `${username}-country-us`, 'nobodysname123', 'a\0b', '', 'x'.repeat(255)])
      assert.ok((await timeOf(name)) >= 295, name)
    const alternating = Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? username : `nobodysname${n}`))
    const times = await Promise.all(alternating.map((name) => timeOf(name, machineMs)))
    const median = (odd: number) => times.filter((_, n) => n % 2 === odd).toSorted((a, b) => a - b)[3]!
    assert.ok(Math.abs(median(0) - median(1)) < 60, `${times}`)
  })

  test('a wrong password reveals nothing about a line that would be refused', async () => {
    const { username } = await credentialOf(plan)
    const answer = await attempt({ username: `${username}-nonsense-1`, password: 'wrong' })
    assert.deepEqual(refused(answer), [407, 'wrong_credentials'])
  })

  test('a client that guesses passwords is slowed down, and one with the right password is not', async () => {
    const { username, password } = await credentialOf(plan)
    const source = '203.0.113.77'
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => attempt({ username, password: `guess${n}` }, { source })),
    )
    const [startedMs, requestedMs] = [performance.now(), machineMs()]
    const slowed = attempt({ username, password: 'guess' }, { source })
    admitted(await attempt({ username, password }, { source })).close({ error: null, host: null })
    assert.ok(machineMs() - requestedMs < 500)
    await slowed
    // The rate gave back a part of one attempt meanwhile.
    assert.ok(performance.now() - startedMs >= 600)
  })

  test('an unknown token is named in the refusal, and so is one that the product does not sell', async () => {
    const { username, password } = await credentialOf(plan)
    const answer = await attempt({ username: `${username}-state-texas-city-dallas-country-us`, password })
    assert.ok(answer.denied)
    assert.equal(answer.status, 403)
    assert.match(answer.detail, /^state-texas: /)
    const set = await attempt({ username: `${username}-set-abcdefgh`, password })
    assert.deepEqual(refused(set), [403, 'targeting_refused'])
    const { body } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-unlimited', quantity: 1 },
      { headers: { 'Idempotency-Key': 'unlimited' } },
    )
    await until(async () => (await app.buyer.get(`/api/v1/plans/${body.planId}`)).status === 200)
    const unlimited = await credentialOf(body.planId)
    const beyond = await attempt({ ...unlimited, username: `${unlimited.username}-country-us-os-mac` })
    assert.deepEqual(refused(beyond), [403, 'targeting_refused'])
    admitted(await attempt({ ...unlimited, username: `${unlimited.username}-country-us` })).close({
      error: null,
      host: null,
    })
  })

  test('an address on a whitelist needs no credentials, and given credentials take precedence', async () => {
    whitelist.set('198.51.100.4', { entryId: 'wle_1', planId: plan, targeting: null })
    admitted(await attempt(null, { source: '198.51.100.4' })).close({ error: null, host: null })
    const answer = await attempt({ username: 'nobodysname123', password: 'x' }, { source: '198.51.100.4' })
    assert.deepEqual(refused(answer), [407, 'wrong_credentials'])
  })

  test('one connection more than a plan allows is refused until one closes', async () => {
    const { username, password } = await credentialOf(plan)
    const open = [0, 1, 2].map(async () => admitted(await attempt({ username, password })))
    const [first, ...others] = await Promise.all(open)
    const answer = await attempt({ username, password })
    assert.deepEqual(refused(answer), [503, 'too_many_connections'])
    first!.close({ error: null, host: null })
    others.push(admitted(await attempt({ username, password })))
    for (const admission of others) admission.close({ error: null, host: null })
  })

  test('of many simultaneous connections no more are admitted than a plan allows', async () => {
    const line = await credentialOf(plan)
    const answers = await Promise.all(Array.from({ length: 10 }, () => attempt(line)))
    const open = answers.filter((answer) => !answer.denied)
    assert.equal(open.length, 3)
    for (const admission of open) admission.close({ error: null, host: null })
  })

  test('a session with a cap passes exactly that, and another id passes more', async () => {
    const { username, password } = await credentialOf(plan)
    const line = (id: string) => ({ username: `${username}-session-${id}-lifetime-60-limit-2`, password })
    const admission = admitted(await attempt(line('s1')))
    let passed = 0
    for (let denied: Denied | null = null; denied === null; denied = await admission.spending.more()) {
      passed += admission.spending.take(1_500_000, 'down')
      assert.ok(passed <= 2_000_000)
    }
    assert.equal(passed, 2_000_000)
    assert.equal((await admission.spending.more())?.status, 467)
    admission.close({ error: null, host: null })
    assert.deepEqual(refused(await attempt(line('s1'))), [467, 'session_limit_reached'])
    admitted(await attempt(line('s2'))).close({ error: null, host: null })
  })

  test('processes that serve one session together pass no more than its cap', async () => {
    const { username, password } = await credentialOf(plan)
    const { core } = app
    const caps = [0, 1, 2].map(() => createSessionCaps({ pool: core.pool, clock: core.clock }))
    const session = { planId: plan, sessionId: 'shared', limitBytes: 3_000_000, lifetimeMs: 3_600_000 }
    const open = caps.map((each) => each.open(session))
    let passed = 0
    // All at once, from the first byte on.
    await Promise.all(
      open.map(async (cap) => {
        while (await cap.lease(1)) passed += cap.take(10_000)
      }),
    )
    assert.equal(passed, 3_000_000)
    assert.deepEqual(refused(await attempt({ username: `${username}-session-shared-limit-3`, password })), [
      467,
      'session_limit_reached',
    ])
    for (const cap of open) cap.close()
  })

  test('what a process leased of a session and does not pass, others can pass', async () => {
    const { core } = app
    const [one, other] = [0, 1].map(() => createSessionCaps({ pool: core.pool, clock: core.clock })) as [
      SessionCaps,
      SessionCaps,
    ]
    const session = { planId: plan, sessionId: 'idle', limitBytes: 1_000_000, lifetimeMs: 3_600_000 }
    const [idle, busy] = [one.open(session), other.open(session)]
    assert.ok(await idle.lease(1))
    assert.equal(idle.take(5_000), 5_000)
    // It passed something since the last round, so it keeps its lease; after the next one without a byte it does not.
    await one.flush()
    await one.flush()
    let passed = 0
    while (await busy.lease(1)) passed += busy.take(50_000)
    assert.equal(passed, 995_000)
    assert.equal(await idle.lease(1), false)
  })

  test('a password works as soon as its rotation is answered', async () => {
    const { status, body: order } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-basic', quantity: 5 },
      { headers: { 'Idempotency-Key': 'rotated' } },
    )
    assert.equal(status, 201, JSON.stringify(order))
    const before = await credentialOf(order.planId)
    admitted(await attempt(before)).close({ error: null, host: null })
    const { body } = await app.buyer.post(`/api/v1/plans/${order.planId}/rotate-password`, {})
    const { username, password } = body.connection
    assert.notEqual(password, before.password)
    admitted(await attempt({ username, password })).close({ error: null, host: null })
  })

  test('a rental works as soon as its order is answered, also when its address was tried before', async () => {
    const { core } = app
    const known = createCredentials(core.keys.master)
    const rent = async (key: string) => {
      const { body } = await app.buyer.post(
        '/api/v1/orders',
        { product_id: 'isp-static', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } },
        { headers: { 'Idempotency-Key': key } },
      )
      const proxyId = body.proxyIds[0]
      const { body: proxy } = await app.buyer.get(`/api/v1/proxies/${proxyId}`)
      return { proxyId, ip: proxy.ip as string, login: known.of(proxyId, 0) }
    }
    // Addresses are given out in their order: the next ones are not rented yet.
    const { ip } = await rent('first-rental')
    const parts = ip.split('.').map(Number)
    const near = Array.from({ length: 6 }, (_, n) => [...parts.slice(0, 3), parts[3]! + n + 1].join('.'))
    const tried = near.map((dialled) =>
      attempt({ username: 'nobodysname1', password: 'x' }, { dialled, source: dialled }),
    )
    await Promise.all(near.map((dialled) => attempt(null, { dialled })))
    const second = await rent('second-rental')
    admitted(await attempt(second.login, { dialled: second.ip })).close({ error: null, host: null })
    await Promise.all(tried)
  })

  test('only tunnels of the former address end when an address is replaced', async () => {
    const { body: order } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'isp-static', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } },
      { headers: { 'Idempotency-Key': 'to-replace' } },
    )
    const proxyId = order.proxyIds[0]
    const login = createCredentials(app.core.keys.master).of(proxyId, 0)
    const ipOf = async (): Promise<string> => (await app.buyer.get(`/api/v1/proxies/${proxyId}`)).body.ip
    const formerIp = await ipOf()
    const former = admitted(await attempt(login, { dialled: formerIp }))
    const replaced = await app.buyer.post(
      `/api/v1/proxies/${proxyId}/replace`,
      { reason: 'not_working' },
      { headers: { 'Idempotency-Key': 'replace' } },
    )
    assert.ok(replaced.status < 300, JSON.stringify(replaced.body))
    const { ip } = replaced.body
    assert.notEqual(ip, formerIp)
    const current = admitted(await attempt(login, { dialled: ip }))
    await until(() => former.spending.ended.aborted, { what: 'the end of the former tunnel' })
    assert.equal((former.spending.ended.reason as Denied).error, 'rental_ended')
    await gateway.flush()
    await gateway.flush()
    assert.equal(current.spending.ended.aborted, false)
    const another = admitted(await attempt(login, { dialled: ip }))
    former.close({ error: 'rental_ended', host: null })
    await gateway.flush()
    for (const admission of [current, another]) {
      assert.equal(admission.spending.ended.aborted, false)
      admission.close({ error: null, host: null })
    }
    // Cached data of an address is at most a second old.
    await until(async () => {
      const answer = await attempt(login, { dialled: formerIp })
      if (!answer.denied) answer.close({ error: null, host: null })
      return answer.denied
    })
  })

  test('after a rotation the former password works for two minutes, and then its tunnels are cut', async () => {
    const { core } = app
    const former = await credentialOf(plan)
    const admission = admitted(await attempt(former))
    const stream = planStream(plan)
    const rotated = { type: 'PlanCredentialRotated', data: { generation: 1 } } as const
    await core.runner.run({
      name: 'rotate',
      streams: { plan: { stream, fold: planFold } },
      decide: () => ({ appends: [{ stream, events: [rotated] }], answer: null }),
      ...operator,
    })
    const current = await until(async () => {
      const now = await credentialOf(plan)
      return now.password === former.password ? null : now
    })
    assert.equal(current.username, former.username)
    for (const credentials of [former, current])
      await until(async () => {
        const answer = await attempt(credentials)
        if (!answer.denied) answer.close({ error: null, host: null })
        return !answer.denied
      })
    app.wait(121_000)
    await until(() => admission.spending.ended.aborted, { what: 'the cut' })
    assert.equal((admission.spending.ended.reason as Denied).error, 'credential_rotated')
    admission.close({ error: 'credential_rotated', host: null })
    assert.deepEqual(refused(await attempt(former)), [407, 'wrong_credentials'])
    admitted(await attempt(current)).close({ error: null, host: null })
  })

  test('a block cuts the tunnels of the account within about a second, and admits none', async () => {
    const { username, password } = await credentialOf(plan)
    const admission = admitted(await attempt({ username, password }))
    const { core, accounts } = app
    const { rows } = await core.pool.query('select account_id from read.plans where plan_id = $1', [plan])
    const [{ account_id: accountId }] = rows
    await accounts.block(accountId, 'test', operator)
    await until(() => admission.spending.ended.aborted, { what: 'the cut' })
    assert.equal((admission.spending.ended.reason as Denied).error, 'account_blocked')
    admission.close({ error: 'account_blocked', host: null })
    assert.deepEqual(refused(await attempt({ username, password })), [407, 'account_blocked'])
    await accounts.unblock(accountId, operator)
    await until(async () => !(await attempt({ username, password })).denied, { what: 'entry' })
  })

  test('a rented address accepts its own credentials, and dials from itself', async () => {
    const { body: order } = await app.buyer.post(
      '/api/v1/orders',
      { product_id: 'isp-static', quantity: 1, fulfillment_meta: { country: 'USA', period_days: 30 } },
      { headers: { 'Idempotency-Key': 'rental' } },
    )
    const found = await until(async () => {
      const { body } = await app.buyer.get(`/api/v1/proxies?order_id=${order.orderId}`)
      return body.proxies?.[0] ?? false
    })
    const { ip, username, password } = found as { ip: string; username: string; password: string }
    const admission = admitted(await attempt({ username, password }, { dialled: ip }))
    assert.deepEqual(admission.dedicated?.via, { kind: 'direct', localAddress: ip })
    assert.equal(admission.spending.take(5e9, 'down'), 5e9)
    const line = await credentialOf(plan)
    assert.deepEqual(refused(await attempt(line, { dialled: ip })), [407, 'wrong_credentials'])
    assert.deepEqual(refused(await attempt({ username, password })), [407, 'wrong_credentials'])
    app.wait(31 * 86_400_000)
    await until(() => admission.spending.ended.aborted, { what: 'the end of the rental' })
    admission.close({ error: null, host: null })
    const over = await attempt({ username, password }, { dialled: ip })
    assert.equal(refused(over)[0], 407)
  })
})
