import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { basic, socksTo, talkTo } from '../support/clients.ts'
import { startRealWorker } from '../support/real-worker.ts'
import { tcpTarget } from '../support/targets.ts'

const second = 1_000
const chunk = 1_000

test('a gateway without Postgres continues with what it has leased, then answers 503, and then recovers', async (t) => {
  const app = await testApp(t, { own: true })
  const { buyer } = app
  const postgres = await tcpProxy(t, app.env.DATABASE_URL ?? '')
  let laterMs = 0
  /** The clock of the gateway stops with the outage and goes on after it, so that a slow machine adds no time. */
  let stoppedMs: number | null = null
  const { port } = await startRealWorker(
    t,
    app,
    { DATABASE_URL: postgres.url },
    { monotonicMs: () => (stoppedMs ?? performance.now()) + laterMs },
  )
  const order = await buyer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 })
  const plan = (await buyer.get(`/api/v1/plans/${order.body.planId}`)).body
  const { username, password } = plan.connection
  const usedBefore = plan.bytesUsed

  /** Sends a thousand bytes at once and a thousand more for each that it gets. */
  const target = await tcpTarget(t, (socket) => {
    socket.write(Buffer.alloc(chunk, 'x'))
    socket.on('data', () => socket.write(Buffer.alloc(chunk, 'x')))
    socket.once('end', () => socket.end())
  })
  const connect = `CONNECT 127.0.0.1:${target} HTTP/1.1\r\nProxy-Authorization: ${basic(username, password)}\r\n\r\n`
  let seen = 0
  const byConnect = async () => {
    const talk = await talkTo(port)
    talk.write(connect)
    return { talk, head: await talk.until('\r\n\r\n') }
  }
  const request = async (): Promise<void> => {
    const { talk, head } = await byConnect()
    assert.match(head, /^HTTP\/1\.1 200 /)
    await talk.exactly(chunk)
    seen += chunk
    talk.socket.destroy()
  }
  const requestBySocks = async (): Promise<void> => {
    const { talk, reply } = await socksTo(port, '127.0.0.1', target, { user: username, word: password })
    assert.equal(reply, 0)
    await talk.exactly(chunk)
    seen += chunk
    talk.socket.destroy()
  }
  /** From this machine's address, which is on the plan's whitelist. */
  const requestWithoutCredentials = async (): Promise<void> => {
    const talk = await talkTo(port)
    talk.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n\r\n`)
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    await talk.exactly(chunk)
    seen += chunk
    talk.socket.destroy()
  }
  const listed = await buyer.post(`/api/v1/plans/${plan.planId}/whitelist`, {
    entries: [{ cidr: '127.0.0.1' }],
  })
  assert.equal(listed.status, 201, listed.text)
  const running = (await byConnect()).talk
  await running.exactly(chunk)
  seen += chunk
  const next = async (): Promise<void> => {
    running.write('!')
    await running.exactly(chunk)
    seen += 1 + chunk
  }
  const leasedAt = async (): Promise<string> =>
    (await app.farebox.core.pool.query('select max(renewed_at) as at from work.gateway_leases')).rows[0].at
  await until(() => request().then(() => true))
  await until(() => requestWithoutCredentials().then(() => true))

  await t.test('leased bytes are used: by running tunnels, and by new ones of known plans', async () => {
    // Later than the gateway's cached reads are fresh. So each of these requests reads again, at that time.
    stoppedMs = performance.now() + 2 * second
    await request()
    await requestBySocks()
    await requestWithoutCredentials()
    // The second lease from now on was requested after that time. On a busy machine the last one before it may be old.
    for (let n = 0; n < 2; n += 1) {
      const before = await leasedAt()
      await next()
      await until(async () => (await leasedAt()) !== before, { what: 'a lease' })
    }
    await postgres.refuse()
    for (let n = 0; n < 3; n += 1) {
      await next()
      await request()
      await requestBySocks()
      await requestWithoutCredentials()
    }
    laterMs = 29 * second
    await next()
    await request()
  })

  await t.test('half a minute later new ones get 503, over HTTP and SOCKS5', async () => {
    laterMs = 31 * second
    const { talk, head } = await byConnect()
    assert.match(head, /^HTTP\/1\.1 503 Service Unavailable\r\n/)
    assert.match(head, /\r\nRetry-After: 5\r\n/)
    assert.match(head, /\r\nX-Proxy-Error: gateway_unavailable\r\n/)
    const [, detail] = /\r\nX-Proxy-Detail: ([^\r]+)\r\n/.exec(head) ?? []
    assert.equal(JSON.parse((await talk.rest()).toString()).error, detail)
    assert.equal((await socksTo(port, '127.0.0.1', target, { user: username, word: password })).reply, 1)
  })

  const used = async () => (await buyer.get(`/api/v1/plans/${plan.planId}`)).body.bytesUsed - usedBefore
  await t.test(
    'after the outage everything continues, waiting tunnels too, and every byte is counted',
    async () => {
      const answer = next()
      stoppedMs = null
      await postgres.accept()
      await answer
      await until(() => request().then(() => true), { what: 'traffic' })
      await requestBySocks()
      await until(async () => (await used()) === seen, { what: `${seen} bytes` }).catch(async (error) =>
        assert.equal(await used(), seen, error),
      )
    },
  )

  await t.test('a tunnel that waits for ten seconds is cut', async () => {
    let over = false
    running.socket.once('end', () => {
      over = true
    })
    await postgres.refuse()
    laterMs += 31 * second
    running.write('!')
    await until(
      () => {
        laterMs += second
        return over
      },
      { everyMs: 50, what: 'the end of the tunnel' },
    )
    assert.ok((await used()) <= seen)
  })
})
