import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { GatewayWorker } from '../../../src/app/gateway-process.ts'
import { dropOldRecords } from '../../../src/features/plans/traffic-records.ts'
import { createMeteringHour, endLeasesOf } from '../../../src/gateway/admit/budgets.ts'
import { createRequestRecords, recordedHost } from '../../../src/gateway/admit/record-requests.ts'
import { createReporter } from '../../../src/gateway/admit/reporter.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until as untilTrue } from '../../support/until.ts'
import { carry } from '../support/carry.ts'
import { basic, socksTo, talkTo } from '../support/clients.ts'
import { startCountingTarget } from '../support/counting-target.ts'
import { udpClient, udpTarget, wrapped } from '../support/datagrams.ts'
import { startRealWorker } from '../support/real-worker.ts'
import { echoTarget, httpTarget, tcpTarget } from '../support/targets.ts'
import { startWorkerProcess } from '../support/worker-process.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** A worker reports each second: more reads than these would only cost time. */
const until = <Value>(
  check: () => Promise<Value>,
  options: { readonly timeoutMs?: number; readonly what?: string } = {},
) => untilTrue(check, { ...options, everyMs: 100 })

type Plan = { readonly planId: string; readonly username: string; readonly password: string }

const buyPlan = async ({ buyer }: TestApp): Promise<Plan> => {
  const order = await buyer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 })
  assert.equal(order.status, 201, order.text)
  const { planId } = order.body
  const { body } = await buyer.get(`/api/v1/plans/${planId}`)
  return { planId, ...body.connection }
}

type Recorded = {
  readonly requestId: string
  readonly protocol: string
  readonly line: string
  readonly host: string | null
  readonly port: number | null
  readonly country: string | null
  readonly bytesUp: number
  readonly bytesDown: number
  readonly reason: string | null
}

const requestsOf = async ({ buyer }: TestApp, { planId }: Plan, query = ''): Promise<readonly Recorded[]> => {
  const answer = await buyer.get(`/api/v1/plans/${planId}/requests${query}`)
  assert.equal(answer.status, 200, answer.text)
  return answer.body.requests
}

const trafficOf = async ({ buyer }: TestApp, { planId }: Plan, query = '') => {
  const answer = await buyer.get(`/api/v1/plans/${planId}/traffic${query}`)
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}

type Sum = { readonly bytesUp: number; readonly bytesDown: number }
const recordedBytes = ({
  groups,
  otherGroups,
  merged,
}: {
  readonly groups: readonly Sum[]
  readonly otherGroups: Sum
  readonly merged: Sum
}): number =>
  [...groups, otherGroups, merged].reduce((sum, { bytesUp, bytesDown }) => sum + bytesUp + bytesDown, 0)

const usedBytes = async ({ core }: TestApp, { planId }: Plan): Promise<number> => {
  const { rows } = await core.pool.query('select used_bytes from work.traffic where plan_id = $1', [planId])
  return rows[0].used_bytes
}

const countedHosts = async ({ core }: TestApp, { planId }: Plan) =>
  (await core.pool.query('select host, connections from work.plan_hosts where plan_id = $1', [planId])).rows

/** The connections in the hourly statistics. */
const connectionsOf = async ({ core }: TestApp, { planId }: Plan): Promise<number> =>
  (
    await core.pool.query('select sum(connections)::int as n from work.plan_hours where plan_id = $1', [
      planId,
    ])
  ).rows[0].n

const connectHead = ({ username, password }: Plan, target: string): string =>
  `CONNECT ${target} HTTP/1.1\r\nProxy-Authorization: ${basic(username, password)}\r\n\r\n`

const connectTo = async (port: number, plan: Plan, target: string) => {
  const talk = await talkTo(port)
  talk.write(connectHead(plan, target))
  const head = await talk.until('\r\n\r\n')
  return { talk, head, requestId: /^X-Proxy-Request-Id: (\S+)/m.exec(head)?.[1] }
}

const recordsOf = (app: TestApp, over: { readonly recordsADay?: number; readonly queued?: number } = {}) => {
  const { pool, clock } = app.core
  const meteringHour = createMeteringHour(clock)
  const records = createRequestRecords({
    pool,
    clock,
    reporter: createReporter({ name: crypto.randomUUID(), onRefused: assert.fail }),
    hosts: 'full',
    meteringHour,
    ...over,
  })
  return {
    records,
    meteringHour,
    add: (planId: string, hour = meteringHour.current()): void => {
      if (records.merge(planId, hour, 1, 2, null)) return
      records.add({
        planId,
        hour,
        requestId: crypto.randomUUID(),
        protocol: 'connect',
        line: 'user',
        host: 'Example.com',
        port: 443,
        country: 'us',
        up: 1,
        down: 2,
        durationMs: 3.4,
        reason: null,
      })
    },
    flush: async () => {
      meteringHour.batchTaken()
      meteringHour.batchReported()
      await records.flush()
    },
  }
}

// The first one: it counts the days of the whole service, and drops them.
test('old records are dropped by day, and none are retained with 0 days', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const { pool, clock } = app.core
  const { add, flush } = recordsOf(app)
  const hours = [0, 1, 7, 8, 9].map(
    (days) => `${new Date(clock() - days * dayMs).toISOString().slice(0, 13)}:00:00.000Z`,
  )
  for (const hour of hours) add(plan.planId, hour)
  await flush()
  const partitions = async (): Promise<number> => {
    const { rows } = await pool.query(
      "select count(*)::int as count from pg_inherits where inhparent = 'traffic.requests'::regclass",
    )
    return rows[0].count
  }
  assert.equal(await partitions(), 5)
  await dropOldRecords(pool, clock(), 7)
  assert.equal(await partitions(), 3)
  assert.equal((await requestsOf(app, plan)).length, 3)
  await dropOldRecords(pool, clock(), 0)
  assert.equal(await partitions(), 0)
  assert.deepEqual(await requestsOf(app, plan), [])
})

const ends: (() => unknown)[] = []
after(async () => {
  for (const end of ends) await end()
})
let usual: Promise<GatewayWorker> | undefined

/** The gateway of all tests that need the usual settings. */
const usualWorker = (app: TestApp): Promise<GatewayWorker> => {
  usual ??= startRealWorker({ after: (end: () => unknown) => void ends.push(end) } as TestContext, app)
  return usual
}

test('HTTP, CONNECT, SOCKS5 and UDP leave one record each, with their bytes, target and request id', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const { port } = await usualWorker(app)
  const { username, password } = plan

  const web = await httpTarget(t, (_, response) => response.end('answer'))
  const plain = await talkTo(port)
  const ids: string[] = []
  const sizes: number[] = []
  for (const path of ['first', 'second']) {
    const request = `GET http://127.0.0.1:${web.port}/${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n`
    plain.write(`${request}Proxy-Authorization: ${basic(username, password)}\r\n\r\n`)
    const head = await plain.until('\r\n\r\n')
    const body = await plain.until('answer')
    ids.push(/^X-Proxy-Request-Id: (\S+)/m.exec(head)?.[1] ?? '')
    sizes.push(head.length + body.length)
  }
  plain.socket.end()

  const echo = await echoTarget(t)
  const connected = await connectTo(port, plan, `127.0.0.1:${echo}`)
  connected.talk.write('four')
  await connected.talk.exactly(4)
  connected.talk.socket.end()
  await connected.talk.rest()

  const login = { user: `${username}-country-us`, word: password }
  const { talk } = await socksTo(port, '127.0.0.1', echo, login)
  talk.write('eleven more')
  await talk.exactly(11)
  talk.socket.end()
  await talk.rest()

  const udpPort = await udpTarget(t, (payload) => payload)
  const association = await socksTo(port, '0.0.0.0', 1, { ...login, user: `${username}-udp-on`, command: 3 })
  assert.equal(association.reply, 0)
  const datagrams = await udpClient(t, association.bound.readUInt16BE(5))
  datagrams.send(wrapped('127.0.0.1', udpPort, 'datagram'))
  await datagrams.next()
  association.talk.socket.end()
  await association.talk.rest()

  const refused = await connectTo(port, { ...plan, username: `${username}-country-xx` }, `127.0.0.1:${echo}`)
  assert.match(refused.head, /^HTTP\/1\.1 403 /)

  const records = await until(
    async () => {
      const found = await requestsOf(app, plan)
      return found.length === 6 ? found : undefined
    },
    { what: 'six records' },
  )
  const oldestFirst = records.toReversed()
  const facts = oldestFirst.map(({ protocol, line, host, port, bytesUp, bytesDown, reason }) => [
    protocol,
    line.replace(username, 'user'),
    host,
    port,
    bytesUp > 20 ? 'head' : bytesUp,
    bytesDown,
    reason,
  ])
  assert.deepEqual(facts, [
    ['http', 'user', '127.0.0.1', web.port, 'head', sizes[0], null],
    ['http', 'user', '127.0.0.1', web.port, 'head', sizes[1], null],
    ['connect', 'user', '127.0.0.1', echo, 4, 4, null],
    ['socks5', 'user-country-us', '127.0.0.1', echo, 11, 11, null],
    ['udp', 'user-udp-on', null, null, 8, 8, null],
    ['connect', 'user-country-xx', null, null, 0, 0, 'targeting_refused'],
  ])
  assert.equal(oldestFirst[3]?.country, 'us')
  assert.deepEqual(
    oldestFirst.slice(0, 3).map(({ requestId }) => requestId),
    [...ids, connected.requestId],
  )
  assert.deepEqual(
    (await requestsOf(app, plan, `?request_id=${ids[1]}`)).map(({ requestId }) => requestId),
    [ids[1]],
  )

  const traffic = await trafficOf(app, plan)
  assert.equal(traffic.unrecordedBytes, 0)
  assert.equal(traffic.meteredBytes, await usedBytes(app, plan))
  assert.equal(traffic.meteredBytes, recordedBytes(traffic))
  assert.deepEqual(traffic.reasons, [{ reason: 'targeting_refused', count: 1 }])
})

test('the sums equal the metered bytes exactly with 24 parallel tunnels, and after a killed gateway', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const target = await startCountingTarget(t)
  const worker = await startWorkerProcess(t, app)
  const tunnels = Array.from({ length: 24 }, (_, at) => ({
    ...plan,
    way: at % 2 === 0 ? ('connect' as const) : ('socks5' as const),
    up: 1_000 * at,
    down: 40_000 + 7_001 * at,
    port: worker.port,
    target,
  }))
  const carried = await Promise.all(tunnels.map(carry))
  const seen = carried.reduce((sum, one) => sum + (one?.up() ?? 0) + (one?.down ?? 0), 0)
  const complete = await until(
    async () => {
      const traffic = await trafficOf(app, plan, '?group_by=line')
      assert.ok(traffic.unrecordedBytes >= 0, 'a record is written after its bytes are metered')
      assert.equal(recordedBytes(traffic) + traffic.unrecordedBytes, traffic.meteredBytes)
      return traffic.unrecordedBytes === 0 && traffic.meteredBytes === seen ? traffic : undefined
    },
    { what: 'all records' },
  )
  assert.equal(complete.groups[0].requests, 24)
  assert.equal(complete.meteredBytes, await usedBytes(app, plan))

  // An open tunnel is metered and not recorded.
  const echo = await echoTarget(t)
  const { talk } = await connectTo(worker.port, plan, `127.0.0.1:${echo}`)
  talk.write(Buffer.alloc(5_000, 'x'))
  await talk.exactly(5_000)
  await until(async () => (await usedBytes(app, plan)) === seen + 10_000, { what: 'the report' })
  await worker.kill()
  await endLeasesOf(app.core.pool, worker.worker)
  talk.socket.destroy()
  const traffic = await trafficOf(app, plan)
  assert.equal(traffic.unrecordedBytes, 10_000)
  assert.equal(recordedBytes(traffic) + traffic.unrecordedBytes, await usedBytes(app, plan))
})

test('a tunnel across an hour leaves the bytes of each hour in that hour', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  let offsetMs = 0
  const { port } = await startRealWorker(t, app, {}, { clock: () => Date.now() + offsetMs })
  const echo = await echoTarget(t)
  const { talk, requestId } = await connectTo(port, plan, `127.0.0.1:${echo}`)
  talk.write('first')
  await talk.exactly(5)
  await until(async () => (await usedBytes(app, plan)) === 10, { what: 'the first report' })
  offsetMs = hourMs
  await until(async () => (await requestsOf(app, plan)).length === 1, { what: 'the part of the first hour' })
  talk.write('the second')
  await talk.exactly(10)
  talk.socket.end()
  await talk.rest()
  const records = await until(async () => {
    const found = await requestsOf(app, plan)
    return found.length === 2 ? found : undefined
  })
  assert.deepEqual(
    records.map((record) => [
      record.requestId,
      record.reason,
      record.host,
      record.port,
      record.bytesUp,
      record.bytesDown,
    ]),
    [
      [requestId, null, '127.0.0.1', echo, 10, 10],
      [requestId, 'in_progress', '127.0.0.1', echo, 5, 5],
    ],
  )
  const now = Date.now()
  const query = `&since=${new Date(now - hourMs).toISOString()}&until=${new Date(now + 2 * hourMs).toISOString()}`
  const traffic = await trafficOf(app, plan, `?group_by=hour${query}`)
  assert.deepEqual(
    traffic.groups.map(({ bytesUp, bytesDown, requests }: Sum & { readonly requests: number }) => [
      bytesUp,
      bytesDown,
      requests,
    ]),
    [
      [5, 5, 0],
      [10, 10, 1],
    ],
  )
  const { rows } = await app.core.pool.query(
    'select bytes from traffic.metered_hours where plan_id = $1 order by hour',
    [plan.planId],
  )
  assert.deepEqual(
    rows.map(({ bytes }) => bytes),
    [10, 20],
  )
})

test('while Postgres does not answer, traffic passes, the queue stays bounded, and no byte is lost from the sums', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const postgres = await tcpProxy(t, app.env.DATABASE_URL ?? '')
  const { port } = await startRealWorker(t, app, { DATABASE_URL: postgres.url })
  const target = await tcpTarget(t, (socket) => {
    socket.on('data', () => socket.end(Buffer.alloc(100, 'x')))
  })
  const request = async (): Promise<void> => {
    const { talk, head } = await connectTo(port, plan, `127.0.0.1:${target}`)
    assert.match(head, /^HTTP\/1\.1 200 /)
    talk.write('x')
    await talk.exactly(100)
    talk.socket.destroy()
  }
  await request()
  await postgres.refuse()
  for (let count = 0; count < 20; count += 1) await request()
  await postgres.accept()
  const traffic = await until(
    async () => {
      const found = await trafficOf(app, plan)
      return found.meteredBytes === 21 * 101 && found.unrecordedBytes === 0 ? found : undefined
    },
    { timeoutMs: 30_000, what: 'the records after the outage' },
  )
  assert.equal(traffic.groups[0].requests, 21)
})

test('bytes are recorded after they are counted, and never if they are lost', async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  const plan = `pln_${crypto.randomUUID()}`
  const { records, add, meteringHour } = recordsOf(app, { queued: 1 })
  const written = async () => {
    await records.drain()
    const { rows } = await app.core.pool.query(
      `select count(*)::int as requests, coalesce(sum(bytes_up + bytes_down), 0)::int as bytes,
              (select coalesce(sum(requests), 0)::int from traffic.merged_hours where plan_id = $1) as merged,
              (select coalesce(sum(bytes_up + bytes_down), 0)::int from traffic.merged_hours where plan_id = $1) as rest
         from traffic.requests where plan_id = $1`,
      [plan],
    )
    return rows[0]
  }
  for (let count = 0; count < 3; count += 1) add(plan)
  meteringHour.batchTaken()
  assert.deepEqual(await written(), { requests: 0, bytes: 0, merged: 0, rest: 0 })
  meteringHour.batchReported()
  assert.deepEqual(await written(), { requests: 1, bytes: 3, merged: 2, rest: 6 })
  for (let count = 0; count < 3; count += 1) add(plan)
  meteringHour.batchTaken()
  meteringHour.batchLost()
  meteringHour.batchReported()
  assert.deepEqual(await written(), { requests: 2, bytes: 3, merged: 4, rest: 6 })
})

test('records beyond the limit of a day, or of the queue, are merged by hour and lose no byte', async (t: TestContext) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const first = recordsOf(app, { recordsADay: 3 })
  for (let count = 0; count < 5; count += 1) first.add(plan.planId)
  await first.flush()
  for (let count = 0; count < 4; count += 1) first.add(plan.planId)
  await first.flush()
  assert.equal((await requestsOf(app, plan)).length, 3)
  const { merged } = await trafficOf(app, plan)
  assert.deepEqual(merged, { bytesUp: 6, bytesDown: 12, requests: 6, failures: 0 })

  const other = await recordsOf(app, { queued: 10 })
  for (let count = 0; count < 1_000; count += 1) other.add('pln_busy')
  assert.equal(other.records.size, 10)
  await other.flush()
  assert.equal(other.records.size, 0)
  const { rows } = await app.core.pool.query(
    `select (select count(*) from traffic.requests where plan_id = 'pln_busy')::int as detailed,
            (select requests from traffic.merged_hours where plan_id = 'pln_busy')::int as merged`,
  )
  assert.deepEqual(rows, [{ detailed: 10, merged: 990 }])
})

test('hosts are recorded whole, as their registered domain, or not at all', () => {
  assert.equal(recordedHost('WWW.Example.co.uk', 'full'), 'www.example.co.uk')
  assert.equal(recordedHost('WWW.Example.co.uk', 'domain'), 'example.co.uk')
  assert.equal(recordedHost('192.0.2.1', 'domain'), null)
  assert.equal(recordedHost('www.example.com', 'none'), null)
})

test('an owner who turns hosts off removes them from existing and later records', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const { port } = await usualWorker(app)
  const echo = await echoTarget(t)
  const request = async (): Promise<void> => {
    const { talk } = await connectTo(port, plan, `127.0.0.1:${echo}`)
    talk.write('x')
    await talk.exactly(1)
    talk.socket.end()
    await talk.rest()
  }
  await request()
  await until(async () => (await requestsOf(app, plan, '?host=127.0.0.1')).length === 1)
  const open = await connectTo(port, plan, `127.0.0.1:${echo}`)
  const changed = await app.buyer.call('PATCH', `/api/v1/plans/${plan.planId}/usage`, {
    json: { countsHosts: false },
  })
  assert.equal(changed.status, 200, changed.text)
  open.talk.socket.destroy()
  const records = await until(async () => {
    const found = await requestsOf(app, plan)
    return found.length === 2 ? found : undefined
  })
  assert.deepEqual(
    records.map(({ host, port: target }) => [host, target]),
    [
      [null, null],
      [null, null],
    ],
  )
  assert.deepEqual(await countedHosts(app, plan), [])
})

test('nothing is recorded with 0 days, and the metered bytes are not recorded', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const { port } = await startRealWorker(t, app, { FAREBOX_TRAFFIC_RECORDS_DAYS: '0' })
  const echo = await echoTarget(t)
  const { talk } = await connectTo(port, plan, `127.0.0.1:${echo}`)
  talk.write('x')
  await talk.exactly(1)
  talk.socket.end()
  await talk.rest()
  const traffic = await until(async () => {
    const found = await trafficOf(app, plan)
    return found.meteredBytes === 2 ? found : undefined
  })
  assert.equal(traffic.unrecordedBytes, 2)
  assert.deepEqual(await requestsOf(app, plan), [])
})

test('a gateway records whole hosts, registered domains, or neither hosts nor ports', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const plan = await buyPlan(app)
  const recorded = new Map<string, readonly (string | number | null)[]>()
  for (const hosts of ['full', 'domain', 'none']) {
    const settings = { FAREBOX_TRAFFIC_RECORDS_HOSTS: hosts }
    const { port } = await (hosts === 'full' ? usualWorker(app) : startRealWorker(t, app, settings))
    const talk = await talkTo(port)
    const authorization = `Proxy-Authorization: ${basic(plan.username, plan.password)}`
    talk.write(`GET http://whoami.sandbox/ HTTP/1.1\r\nHost: whoami.sandbox\r\n${authorization}\r\n\r\n`)
    const id = /^X-Proxy-Request-Id: (\S+)/m.exec(await talk.until('\r\n\r\n'))?.[1]
    talk.socket.end()
    await talk.rest()
    const record = await until(async () => {
      const found = await requestsOf(app, plan, `?request_id=${id}`)
      return found[0]
    })
    recorded.set(hosts, [record.host, record.port])
    await until(async () => (await connectionsOf(app, plan)) === recorded.size)
  }
  assert.deepEqual(await countedHosts(app, plan), [{ host: 'whoami.sandbox', connections: 2 }])
  assert.deepEqual(
    [...recorded],
    [
      ['full', ['whoami.sandbox', 80]],
      ['domain', ['whoami.sandbox', 80]],
      ['none', [null, null]],
    ],
  )
})
