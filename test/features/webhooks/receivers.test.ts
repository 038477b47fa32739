import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createSender } from '../../../src/features/webhooks/webhook-sender.ts'
import { createResolve } from '../../../src/platform/outgoing/target.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import {
  type Delivery,
  deliveriesOf,
  hookTo,
  ping,
  startReactor,
  startWorker,
  untilDelivery,
} from './deliveries.ts'
import { startReceiver, status } from './receiver.ts'

/** A receiver that speaks below HTTP: it gets the socket once a whole request has arrived. */
const rawReceiver = async (t: TestContext, speak: (socket: Socket) => void) => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const [head = '', body = ''] = text.split('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? -1)
      if (length < 0 || body.length < length) return
      text = ''
      speak(socket)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}/hook`
}

test('misbehaving receivers cost one attempt and nothing else', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  startWorker(t, app, { sender: { timeoutMs: 700 } })

  /** The result of the first attempt at a receiver. */
  const firstAttempt = async (url: string) => {
    const hook = await hookTo(app, url)
    const id = await ping(app, hook)
    const delivery = await untilDelivery(app, hook, id, (one) => one.attempts.length > 0)
    return { ...delivery.attempts[0]!, outcome: delivery.status }
  }

  await t.test('one that never answers is abandoned after the time-out', async () => {
    const {
      status: code,
      error,
      outcome,
      latencyMs,
    } = await firstAttempt(await rawReceiver(t, () => undefined))
    assert.deepEqual([code, error, outcome], [null, 'timed out', 'pending'])
    assert.ok(latencyMs >= 690)
  })

  await t.test('one that resets is reported as closed', async () => {
    const {
      status: code,
      error,
      outcome,
    } = await firstAttempt(await rawReceiver(t, (socket) => socket.resetAndDestroy()))
    assert.deepEqual([code, error, outcome], [null, 'the connection was closed before an answer', 'pending'])
  })

  await t.test('a port without a listener is reported as refused', async () => {
    const { error, outcome } = await firstAttempt('http://127.0.0.1:9/hook')
    assert.deepEqual([error, outcome], ['the connection was refused', 'pending'])
  })

  await t.test('another protocol is reported as not HTTP', async () => {
    const url = await rawReceiver(t, (socket) => socket.end('220 mail.example.com ESMTP\r\n'))
    const { status: code, error } = await firstAttempt(url)
    assert.equal(code, null)
    assert.match(error ?? '', /no valid HTTP answer/)
  })

  await t.test('a redirect is not followed', async () => {
    const elsewhere = await startReceiver(t)
    const receiver = await startReceiver(t)
    receiver.answer(status(307, { Location: elsewhere.url }))
    const { status: code, outcome } = await firstAttempt(receiver.url)
    assert.deepEqual([code, outcome], [307, 'pending'])
    assert.equal(elsewhere.connections(), 0)
  })

  await t.test('an endless response is cut, its beginning is stored, and it counts', async () => {
    let sent = 0
    let closed = false
    const url = await rawReceiver(t, (socket) => {
      socket.on('close', () => {
        closed = true
      })
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n')
      const more = (): void => {
        while (!socket.destroyed && socket.write('x'.repeat(4_096))) sent += 4_096
      }
      socket.on('drain', more)
      more()
    })
    const { status: code, answer, outcome } = await firstAttempt(url)
    assert.deepEqual([code, answer, outcome], [200, 'x'.repeat(1_024), 'succeeded'])
    assert.ok(closed && sent < 10_000_000, `${sent} bytes were taken`)
  })

  await t.test('one that announces more than it sends has acknowledged with its status line', async () => {
    const url = await rawReceiver(t, (socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort'),
    )
    const { status: code, answer, outcome } = await firstAttempt(url)
    assert.deepEqual([code, answer, outcome], [200, 'short', 'succeeded'])
  })

  await t.test('one that sends more than it announced is cut at that length', async () => {
    const url = await rawReceiver(t, (socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n'),
    )
    const { status: code, answer, outcome } = await firstAttempt(url)
    assert.deepEqual([code, answer, outcome], [200, 'ok', 'succeeded'])
  })

  await t.test('one that sends its head slowly is abandoned', async () => {
    const url = await rawReceiver(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nX-Drip: ')
      const timer = setInterval(() => socket.write('x'), 50)
      socket.on('close', () => clearInterval(timer))
    })
    const { error } = await firstAttempt(url)
    assert.equal(error, 'timed out')
  })

  await t.test(
    'one that sends its body slowly has acknowledged with its status line, and is closed after the time-out',
    async () => {
      let closed = false
      const url = await rawReceiver(t, (socket) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n')
        const timer = setInterval(() => socket.write('x'), 50)
        socket.on('close', () => {
          closed = true
          clearInterval(timer)
        })
      })
      const { status: code, error, outcome, latencyMs } = await firstAttempt(url)
      assert.deepEqual([code, error, outcome], [200, null, 'succeeded'])
      assert.ok(latencyMs >= 690 && latencyMs < 10_000, `${latencyMs} ms`)
      await until(() => closed, { timeoutMs: 5_000, what: 'the end of the connection' })
    },
  )

  await t.test('a head without end is refused', async () => {
    const url = await rawReceiver(t, (socket) =>
      socket.write(`HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(100_000)}`),
    )
    const { status: code } = await firstAttempt(url)
    assert.equal(code, null)
  })

  await t.test('a response that is not valid text is stored as far as it is', async () => {
    const receiver = await startReceiver(t)
    receiver.answer((response) => response.end(Buffer.from([0, 255, 65])))
    const { answer, outcome } = await firstAttempt(receiver.url)
    assert.deepEqual([answer, outcome], ['\ufffd\ufffdA', 'succeeded'])
  })
})

test('a connection that the receiver closed since its last answer costs no attempt; a new one that it closes does', async (t) => {
  let requests = 0
  const perSocket = new Map<Socket, number>()
  const url = await rawReceiver(t, (socket) => {
    requests += 1
    const count = (perSocket.get(socket) ?? 0) + 1
    perSocket.set(socket, count)
    if (count > 1 || requests > 4) socket.resetAndDestroy()
    else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  })
  const sender = createSender({ resolve: createResolve(), rules: { allowLoopback: true } })
  t.after(() => sender.close())
  const send = async () => {
    await setImmediate() // the connection of the request before is idle
    return (await sender.send(url, { body: Buffer.from('{}'), headers: {} })).status
  }
  assert.equal(await send(), 200)
  assert.equal(await send(), 200)
  assert.deepEqual([requests, perSocket.size], [3, 2])
  requests = 4
  assert.equal(await send(), null)
  assert.equal(requests, 6, 'once on the open connection, once on a new one')
  assert.equal(await send(), null)
  assert.equal(requests, 7)
})

test('a name that resolves after the time-out costs its attempt, and nothing is sent', async (t) => {
  const receiver = await startReceiver(t)
  const lookup = Promise.withResolvers<readonly string[]>()
  const sender = createSender({
    resolve: () => lookup.promise,
    rules: { allowLoopback: true },
    timeoutMs: 50,
  })
  t.after(() => sender.close())
  const url = `http://slow.example:${receiver.port}/hook`
  const request = { body: Buffer.from('{}'), headers: { 'content-type': 'application/json' } }
  assert.deepEqual(await sender.send(url, request), {
    status: null,
    answer: '',
    retryAfter: undefined,
    error: 'timed out',
  })
  lookup.resolve(['127.0.0.1'])
  await until(() => receiver.connections() === 1, { timeoutMs: 5_000, what: 'the late connection' })
  // What comes after it is sent.
  assert.equal((await sender.send(url, request)).status, 200)
  assert.equal(receiver.received.length, 1)
})

test('hanging receivers delay no others', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  let hanging = 0
  const stuck = await rawReceiver(t, () => {
    hanging += 1
  })
  const fast = await startReceiver(t)
  // Fewer places than receivers that hang, and an endpoint with a backlog among them.
  startWorker(t, app, { limits: { active: 4, slowAfterMs: 50 }, sender: { timeoutMs: 60_000 } })
  for (let n = 0; n < 12; n++) {
    const hook = await hookTo(app, stuck)
    await ping(app, hook)
    if (n === 0) for (let more = 0; more < 30; more++) await ping(app, hook)
  }
  const hook = await hookTo(app, fast.url)
  for (let n = 0; n < 20; n++) {
    const id = await ping(app, hook)
    // Its outcome is read from the log too, which may be a little before its attempt is on record.
    const isDone = ({ status, attempts }: Delivery) => status === 'succeeded' && attempts.length > 0
    const delivery = await untilDelivery(app, hook, id, isDone)
    assert.equal(delivery.attempts.length, 1)
  }
  assert.ok(hanging >= 12, `${hanging} requests hang meanwhile`)
  assert.ok(hanging <= 11 + 4, `${hanging} requests hang: one endpoint has more than four`)
})

test('an endpoint with a damaged stored value delays no other, and is sent to once the value is repaired', async (t) => {
  const app = await testApp(t, { own: 'file', roles: ['http', 'projections'] })
  startReactor(t, app)
  const receiver = await startReceiver(t)
  const damaged = await hookTo(app, receiver.url)
  const others = [await hookTo(app, receiver.url), await hookTo(app, receiver.url)]
  const { pool } = app.core
  const flip = () =>
    pool.query(
      `update vault.webhook_values set sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) where endpoint_id = $1`,
      [damaged.id],
    )
  await flip()
  const waiting = await ping(app, damaged)
  const sent = await Promise.all(others.map((hook) => ping(app, hook)))
  startWorker(t, app)
  for (const [n, hook] of others.entries())
    await untilDelivery(app, hook, sent[n]!, ({ status }) => status === 'succeeded')
  const [left] = await deliveriesOf(app, damaged)
  assert.deepEqual([left?.status, left?.attempts], ['pending', []])
  await flip()
  app.wait(61_000)
  await untilDelivery(app, damaged, waiting, ({ status }) => status === 'succeeded')
})
