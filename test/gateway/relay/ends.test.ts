import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import fc, { runs } from '../../support/fast-check.ts'
import { machineMs } from '../../support/machine-time.ts'
import { until } from '../../support/until.ts'
import { authorization, talkTo } from '../support/clients.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { tcpTarget } from '../support/targets.ts'

const ways = {
  end: (socket: Socket) => void socket.end(),
  close: (socket: Socket) => void socket.destroy(),
  reset: (socket: Socket) => void socket.resetAndDestroy(),
  none: () => undefined,
}
type Way = keyof typeof ways
const way = fc.constantFrom(...(Object.keys(ways) as Way[]))

const bodyBytes = 40_000
const heads = {
  length: `HTTP/1.1 200 OK\r\nContent-Length: ${bodyBytes}\r\n\r\n`,
  close: 'HTTP/1.1 200 OK\r\n\r\n',
}
const body = Buffer.alloc(bodyBytes, 'b')

/** A target that sends `bytes` of its answer to the first bytes, and then ends its connection in this way. */
const answering = (
  t: TestContext,
  { head, bytes, end }: { readonly head: string; readonly bytes: number; readonly end: Way },
): Promise<number> =>
  tcpTarget(t, (socket) => {
    socket.once('data', () => {
      socket.write(Buffer.concat([Buffer.from(head), body]).subarray(0, bytes), () => ways[end](socket))
    })
  })

const requests = {
  get: (host: string) => `GET http://${host}/ HTTP/1.1\r\n${authorization}\r\n`,
  post: (host: string) => `POST http://${host}/ HTTP/1.1\r\nContent-Length: 4\r\n${authorization}\r\nbody`,
  connect: (host: string) => `CONNECT ${host} HTTP/1.1\r\n${authorization}\r\n`,
}

const isEmpty = ({ gateway, access, exits }: TestGateway): boolean =>
  gateway.connections === 0 && access.open === 0 && exits.open === 0

const scenario = fc.record({
  request: fc.constantFrom(...(Object.keys(requests) as (keyof typeof requests)[])),
  /** Shares of the request and of the answer. */
  sent: fc.constantFrom(0.5, 1),
  read: fc.constantFrom(0, 0.5, 1),
  client: way,
  head: fc.constantFrom(heads.length, heads.close, ''),
  answered: fc.constantFrom(0, 0.1, 0.5, 1),
  target: way,
})
type Scenario = typeof scenario extends fc.Arbitrary<infer Value> ? Value : never

/** A side that ends only its sending half, or nothing, waits for the other side or for a time limit. */
const play = async (
  t: TestContext,
  gateway: TestGateway,
  { request, sent, read, client, head, answered, target }: Scenario,
): Promise<void> => {
  const bytes = Math.floor(answered * (head.length + bodyBytes))
  const port = await answering(t, { head, bytes, end: target })
  const talk = await talkTo(gateway.port)
  talk.socket.on('error', () => undefined)
  const text = requests[request](`127.0.0.1:${port}`)
  talk.write(text.slice(0, Math.ceil(sent * text.length)))
  if (request === 'connect' && sent === 1) {
    await talk.until('\r\n\r\n')
    talk.write('go')
  }
  if (sent === 1) await talk.exactly(Math.ceil(read * bytes)).catch(() => undefined)
  ways[client](talk.socket)
  if (client === 'none' || client === 'end') await talk.rest().catch(() => undefined)
  talk.socket.destroy()
}

test('connections that end at any step and in any way leave no connection, admission or route', async (t) => {
  const limits = { lingerMs: 100, headMs: 200, idleMs: 200, tunnelIdleMs: 200, endedClientMs: 200 }
  const gateway = await startGateway(t, { limits })
  await fc.assert(
    fc.asyncProperty(fc.array(scenario, { minLength: 20, maxLength: 20 }), async (scenarios) => {
      await Promise.all(scenarios.map((each) => play(t, gateway, each)))
      await until(() => isEmpty(gateway), { what: 'the end of every connection' })
    }),
    { numRuns: runs(8) },
  )
})

for (const client of ['close', 'reset'] as const)
  test(`a client that stops a plain download with a ${client} frees its connection of the plan at once`, async (t) => {
    const gateway = await startGateway(t)
    const target = await tcpTarget(t, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n`)
      const timer = setInterval(() => socket.write(body), 10)
      socket.once('close', () => clearInterval(timer))
    })
    const talk = await talkTo(gateway.port)
    talk.socket.on('error', () => undefined)
    talk.write(requests.get(`127.0.0.1:${target}`))
    await talk.until('bbbb')
    ways[client](talk.socket)
    await until(() => isEmpty(gateway))
    assert.deepEqual(gateway.access.closed, [{ error: 'client_reset', host: '127.0.0.1' }])
  })

for (const [step, sent] of [
  ['before', ''],
  ['during', heads.length + 'b'.repeat(100)],
] as const)
  test(`a client that ends its side ${step} a plain answer frees its connection of the plan before the idle limit`, async (t) => {
    const gateway = await startGateway(t, { limits: { idleMs: 600_000, endedClientMs: 100 } })
    const target = await tcpTarget(t, (socket) => {
      socket.once('data', () => socket.write(sent))
    })
    const talk = await talkTo(gateway.port)
    talk.write(requests.get(`127.0.0.1:${target}`))
    if (sent === '') await until(() => gateway.exits.open === 1)
    else await talk.until('bbbb')
    talk.socket.end()
    await until(() => gateway.access.open === 0)
    assert.deepEqual(gateway.access.closed, [{ error: 'client_reset', host: '127.0.0.1' }])
    if (sent === '') assert.match((await talk.rest()).toString(), /^HTTP\/1\.1 408 .*Leave it open/s)
    talk.socket.destroy()
    await until(() => isEmpty(gateway))
  })

test('a client that ends its side and reads an answer with pauses gets all of it', async (t) => {
  const gateway = await startGateway(t, { limits: { idleMs: 600_000, endedClientMs: 100 } })
  let answer = (): void => undefined
  const target = await tcpTarget(t, (socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write(heads.length)
      answer = () => void socket.write(body)
    })
  })
  const talk = await talkTo(gateway.port)
  talk.socket.end(requests.get(`127.0.0.1:${target}`))
  await talk.until('\r\n\r\n')
  const fromMs = machineMs()
  await until(() => machineMs() - fromMs > 400)
  answer()
  assert.equal((await talk.rest()).length, bodyBytes)
  await until(() => isEmpty(gateway))
  assert.deepEqual(gateway.access.closed, [{ error: null, host: '127.0.0.1' }])
})

for (const [what, head] of Object.entries(heads))
  test(`an answer delimited by its ${what} ends when the traffic ends in its last bytes`, async (t) => {
    const gateway = await startGateway(t)
    const target = await answering(t, { head, bytes: head.length + bodyBytes, end: 'end' })
    const request = requests.get(`127.0.0.1:${target}`)
    gateway.spending.left = request.length + bodyBytes - 10
    const talk = await talkTo(gateway.port)
    talk.write(request)
    const answer = await talk.rest().then(String, ({ code }) => code)
    talk.socket.destroy()
    if (what === 'length') assert.ok(answer.length < head.length + bodyBytes)
    else assert.equal(answer, 'ECONNRESET')
    await until(() => isEmpty(gateway))
    assert.deepEqual(gateway.access.closed, [{ error: 'traffic_exhausted', host: '127.0.0.1' }])
    assert.equal(gateway.spending.left, 0)
  })

test('an answer whose last bytes wait for traffic is completed when there is more', async (t) => {
  const gateway = await startGateway(t)
  const { spending } = gateway
  spending.patient = true
  const target = await answering(t, {
    head: heads.length,
    bytes: heads.length.length + bodyBytes,
    end: 'close',
  })
  spending.left = 1_000
  const talk = await talkTo(gateway.port)
  talk.write(requests.get(`127.0.0.1:${target}`))
  await until(() => spending.waiting() > 0)
  spending.topUp(1_000_000)
  const answer = await talk.until('b'.repeat(bodyBytes))
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
  talk.socket.destroy()
  await until(() => isEmpty(gateway))
})

test('a side that is reset after it has ended is no failure, and the other side receives everything', async (t) => {
  const gateway = await startGateway(t)
  const target = await tcpTarget(t, (socket) => {
    socket.once('data', () => {
      socket.end(body)
      // Later bytes of the client meet a closed socket, which answers with a reset.
      socket.once('finish', () => socket.resetAndDestroy())
    })
  })
  const talk = await talkTo(gateway.port)
  talk.socket.on('error', () => undefined)
  talk.write(requests.connect(`127.0.0.1:${target}`))
  await talk.until('\r\n\r\n')
  talk.write('go')
  assert.equal((await talk.exactly(bodyBytes)).length, bodyBytes)
  talk.write('late')
  await talk.rest()
  talk.socket.destroy()
  await until(() => isEmpty(gateway))
  assert.deepEqual(gateway.access.closed, [{ error: null, host: '127.0.0.1' }])
})

test('a client that closes with unread bytes after the target has ended is no failure', async (t) => {
  const gateway = await startGateway(t)
  const target = await tcpTarget(t, (socket) => void socket.once('data', () => socket.end(body)))
  const talk = await talkTo(gateway.port)
  talk.socket.on('error', () => undefined)
  talk.write(requests.connect(`127.0.0.1:${target}`))
  await talk.until('\r\n\r\n')
  talk.write('go')
  await talk.exactly(bodyBytes)
  await until(() => gateway.spending.taken.down === bodyBytes)
  talk.socket.resetAndDestroy()
  await until(() => isEmpty(gateway))
  assert.deepEqual(gateway.access.closed, [{ error: null, host: '127.0.0.1' }])
})

test('a client that is closed before the last bytes of the target arrive is no failure if it has ended', async (t) => {
  const gateway = await startGateway(t)
  const target = await tcpTarget(t, (socket) => {
    socket.resume()
    socket.once('end', () => socket.end(body))
  })
  const talk = await talkTo(gateway.port)
  talk.socket.on('error', () => undefined)
  talk.write(requests.connect(`127.0.0.1:${target}`))
  await talk.until('\r\n\r\n')
  talk.socket.end('bye')
  await talk.until('b')
  talk.socket.resetAndDestroy()
  await until(() => isEmpty(gateway))
  assert.deepEqual(gateway.access.closed, [{ error: null, host: '127.0.0.1' }])
})
