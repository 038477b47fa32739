import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { basic, socksTo, type Talk, talkTo } from '../support/clients.ts'
import { startRealWorker } from '../support/real-worker.ts'
import { tcpTarget } from '../support/targets.ts'
import { startWorkerProcess } from '../support/worker-process.ts'

const dayMs = 24 * 60 * 60 * 1000
/** 100 Mbps, the unit of the demo's plans that are sold by time. */
const bytesPerSecond = 12_500_000

test('a plan sold by time runs at its speed over all tunnels of two workers, and ends at its time', async (t) => {
  const settings = { FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on' }
  const app = await testApp(t, { own: true, settings })
  const { buyer } = app
  const workers = await Promise.all([0, 1].map(() => startWorkerProcess(t, app)))

  const product = (await buyer.get('/api/v1/products/residential-unlimited-day')).body
  assert.deepEqual([product.shape, product.unit], ['gateway_time', '100 Mbps'])
  const order = await buyer.post('/api/v1/orders', { product_id: product.id, quantity: 1 })
  assert.equal(order.status, 201, order.text)
  const plan = (await buyer.get(`/api/v1/plans/${order.body.planId}`)).body
  assert.deepEqual([plan.speedUnits, plan.dataGbTotal, plan.dataGbRemaining], [1, null, null])
  const { username, password } = plan.connection

  let uploaded = 0
  /** Sends without end, and reads received data. */
  const target = await tcpTarget(t, (socket) => {
    const piece = Buffer.alloc(256 * 1024, 'x')
    const push = (): void => {
      if (!socket.destroyed && socket.write(piece)) setImmediate(push)
    }
    socket.on('drain', push)
    socket.on('data', (chunk: Buffer) => {
      uploaded += chunk.length
    })
    push()
  })
  const connect = `CONNECT 127.0.0.1:${target} HTTP/1.1\r\nProxy-Authorization: ${basic(username, password)}\r\n\r\n`
  const open = async (port: number): Promise<Talk> => {
    const talk = await talkTo(port)
    talk.write(connect)
    const head = await talk.until('\r\n\r\n')
    assert.match(head, /^HTTP\/1\.1 200 /, head)
    return talk
  }

  const { pool } = app.core
  /** When each worker that is on record as one that passes traffic of the plan renewed its lease last. */
  const renewals = async (): Promise<readonly number[]> => {
    const { rows } = await pool.query<{ at: number }>(
      'select extract(epoch from renewed_at)::float8 as at from work.gateway_leases where plan_id = $1 and bytes = 1 order by worker',
      [plan.planId],
    )
    return rows.map(({ at }) => at)
  }
  /** Each worker renewed once more, so it holds the answer to its renewal before. */
  const eachRenewed = async (): Promise<void> => {
    const before = await renewals()
    await until(async () => {
      const now = await renewals()
      return now.length === 2 && now.every((at, worker) => at > (before[worker] ?? 0))
    })
  }

  await t.test('two tunnels on each of two workers pass together the bought speed', async (tt) => {
    const startedMs = performance.now()
    const tunnels = await Promise.all([0, 0, 1, 1].map((at) => open(workers[at]!.port)))
    let passed = 0
    for (const { socket } of tunnels) {
      socket.removeAllListeners('data')
      socket.on('data', (chunk: Buffer) => {
        passed += chunk.length
      })
    }
    // Uploads and downloads are of one speed.
    const [uploading] = tunnels
    const upload = setInterval(() => {
      if (uploading!.socket.writableLength < 1_000_000) uploading!.write(Buffer.alloc(250_000, 'y'))
    }, 50)
    tt.after(() => {
      clearInterval(upload)
      for (const { socket } of tunnels) socket.destroy()
    })

    await until(async () => (await renewals()).length === 2)
    // The first renewal after both are recorded shows a worker the other one; the next one begins after that
    // answer.
    await eachRenewed()
    await eachRenewed()
    // Until then each may have had the whole speed, and a full bucket of a tenth of a second. That is a fifth of the time
    // that is measured, however long a loaded machine takes; what waits in sockets only ever comes later.
    const aloneMs = performance.now() - startedMs + 100
    const endMs = startedMs + Math.max(5_000, 5 * aloneMs)
    await sleep(endMs - performance.now())
    const perSecond = ((passed + uploaded) * 1_000) / (performance.now() - startedMs)
    tt.diagnostic(`${(perSecond / 1e6).toFixed(2)} MB/s of ${bytesPerSecond / 1e6}`)
    assert.ok(perSecond > 0 && perSecond <= 1.25 * bytesPerSecond, `${perSecond} bytes a second`)
  })

  await t.test('at its end its tunnels are cut, and each protocol gets the reason', async (tt) => {
    const { port } = await startRealWorker(tt, app, {}, { clock: () => Date.now() + app.clock.aheadMs })
    const tunnel = await open(port)
    tunnel.socket.removeAllListeners('data').resume()
    const cut = once(tunnel.socket, 'end')
    app.wait(dayMs)
    await cut
    const talk = await talkTo(port)
    talk.write(connect)
    const answer = await talk.until('\r\n\r\n')
    assert.match(answer, /^HTTP\/1\.1 407 Proxy Authentication Required\r\n/)
    assert.match(answer, /\r\nX-Proxy-Error: plan_ended\r\n/)
    talk.socket.destroy()
    const { reply } = await socksTo(port, '127.0.0.1', target, { user: username, word: password })
    assert.equal(reply, -1, 'the failure of RFC 1929')
    assert.equal((await buyer.get(`/api/v1/plans/${plan.planId}`)).body.status, 'expired')
  })
})
