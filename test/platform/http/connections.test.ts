import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { trustedProxies } from '../../../src/platform/http/connections.ts'
import { createHttpMetrics } from '../../../src/platform/http/gauges.ts'
import type { HttpServerOptions } from '../../../src/platform/http/server.ts'
import { machineMs } from '../../support/machine-time.ts'
import { until } from '../../support/until.ts'
import { type Dialled, dial, orderHead } from './raw.ts'
import { sampleDirectory, sampleServer } from './sample.ts'

const lingerMs = 300

/** A server that lingers shortly and reports its number of connections. */
const openServer = async (t: TestContext, over: Partial<HttpServerOptions> = {}) => {
  const registry = new Registry()
  const server = await sampleServer(t, {
    metrics: createHttpMetrics(registry),
    ...over,
    times: { lingerMs, ...over.times },
  })
  const figure = async (name: string) => (await registry.getSingleMetric(name)!.get()).values[0]!.value
  return {
    ...server,
    connections: () => figure('farebox_http_connections'),
    cut: () => figure('farebox_http_connections_cut_total'),
    me: async () => (await server.client.get('/api/v1/me', { key: 'buyer-key' })).status,
  }
}

const askMe = (more = '') => `GET /api/v1/me HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\n${more}\r\n`

describe('A connection is destroyed after its last answer even if its client never closes it', () => {
  const lasts: Readonly<Record<string, readonly [bytes: string, status: string]>> = {
    'bytes that are no request': ['nonsense\r\n\r\n', '400'],
    'headers above the limit': [`GET / HTTP/1.1\r\nhost: a\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`, '431'],
    'a request that closes': [askMe('connection: close\r\n'), '200'],
    'a request of HTTP/1.0': ['GET /api/v1/me HTTP/1.0\r\nx-api-key: buyer-key\r\n\r\n', '200'],
    'a body above the limit': [orderHead(300_000), '413'],
  }
  for (const [what, [bytes, status]] of Object.entries(lasts))
    test(what, async (t) => {
      const { port, connections } = await openServer(t)
      const client = await dial(t, port, bytes, { halfOpen: true })
      await until(() => client.heard().startsWith(`HTTP/1.1 ${status} `))
      await until(async () => (await connections()) === 0, { timeoutMs: 5_000 })
      assert.match(client.heard(), /\r\n\r\n\{.*\}\n$/s, 'the whole answer')
    })
})

test('A keep-alive connection accumulates no listeners of requests refused before their body', async (t) => {
  const { port, node } = await openServer(t, { times: { lingerMs: 10_000 } })
  const taken = once(node, 'connection')
  const client = await dial(t, port)
  const [socket] = (await taken) as [Socket]
  const listeners = (): number =>
    socket.eventNames().reduce((sum, name) => sum + socket.listenerCount(name as string), 0)
  const answers = (): number => client.heard().split('HTTP/1.1 401 ').length - 1
  const refuse = async (): Promise<void> => {
    const before = answers()
    client.socket.write(orderHead(2, undefined, 'unknown'))
    await until(() => answers() > before)
    client.socket.write('{}')
  }
  await refuse()
  const first = listeners()
  for (let n = 0; n < 12; n += 1) await refuse()
  assert.equal(listeners(), first)
})

describe('Late requests', () => {
  const halves: Readonly<Record<string, string>> = {
    'nothing at all': '',
    'half of the headers': 'GET / HTTP/1.1\r\nhost: a\r\n',
    'half of a body': `${orderHead(9)}{`,
  }
  for (const [what, bytes] of Object.entries(halves))
    test(`are refused to the second and closed soon after: ${what}`, async (t) => {
      const { port, connections } = await openServer(t, { times: { requestMs: 1_000 } })
      const [startedMs, requestedMs] = [performance.now(), machineMs()]
      const client = await dial(t, port, bytes, { halfOpen: true })
      await until(() => client.heard().startsWith('HTTP/1.1 408 '), { timeoutMs: 10_000 })
      const tookMs = performance.now() - startedMs
      assert.ok(tookMs >= 950 && machineMs() - requestedMs < 4_000, `${Math.round(tookMs)} ms`)
      await until(async () => (await connections()) === 0, { timeoutMs: 5_000 })
    })

  test('that were answered before their body are closed, unless it arrives', async (t) => {
    const { port, connections, baseUrl } = await openServer(t)
    const held = await dial(t, port, `${orderHead(9, undefined, 'unknown')}{`, { halfOpen: true })
    await until(() => held.heard().startsWith('HTTP/1.1 401 '))
    await until(async () => (await connections()) === 0, { timeoutMs: 5_000 })
    const quick = await dial(t, port, `${orderHead(9, undefined, 'unknown')}{`)
    await until(() => quick.heard().startsWith('HTTP/1.1 401 '))
    quick.socket.write('12345678')
    await sleep(2 * lingerMs)
    quick.socket.write(askMe())
    await until(() => quick.heard().includes('HTTP/1.1 200 '))
    assert.equal((await fetch(`${baseUrl}/api/proxy-list`)).status, 200)
  })
})

describe('No answer is lost by a reset', () => {
  /** More than the buffers of both ends take, so that the client still writes when it is answered. */
  const megabytes = 'a'.repeat(20_000_000)
  const greedy: Readonly<Record<string, readonly [bytes: string, status: string]>> = {
    'of bytes that are no request': [`nonsense\r\n\r\n${megabytes}`, '400'],
    'of a body that is too large': [`${orderHead(megabytes.length)}${megabytes}`, '413'],
    'of a request, by the broken bytes behind it': [`${askMe()}nonsense\r\n\r\n${megabytes}`, '200'],
    'of a request that closes, with more behind it': [`${askMe('connection: close\r\n')}${megabytes}`, '200'],
  }
  for (const [what, [bytes, status]] of Object.entries(greedy))
    test(what, async (t) => {
      const { port } = await openServer(t, { times: { lingerMs: 10_000 } })
      for (let round = 0; round < 3; round += 1) {
        const socket = connect(port, '127.0.0.1')
        t.after(() => socket.destroy())
        const failed: string[] = []
        socket.on('error', (error: NodeJS.ErrnoException) => failed.push(error.code ?? error.message))
        let heard = ''
        // Like a client that writes all of its request before it reads.
        socket.write(bytes, 'latin1', () => socket.on('data', (chunk) => (heard += chunk)))
        await until(() => heard.includes('}') || failed.length > 0, { timeoutMs: 10_000 })
        assert.deepEqual([heard.slice(0, 13), failed], [`HTTP/1.1 ${status} `, []])
        socket.destroy()
      }
    })
})

describe('Connections are bounded', () => {
  test('by address: one more closes the one of that address that waits longest, and no other client is excluded', async (t) => {
    const { port, connections, cut, me } = await openServer(t, { connections: { total: 20, perAddress: 8 } })
    const idle: Dialled[] = []
    for (let n = 0; n < 8; n += 1) idle.push(await dial(t, port, '', { from: '127.0.0.2' }))
    await until(async () => (await connections()) === 8)
    const more: Dialled[] = []
    for (let n = 0; n < 3; n += 1) more.push(await dial(t, port, askMe(), { from: '127.0.0.2' }))
    await until(() => more.every(({ heard }) => heard().startsWith('HTTP/1.1 200 ')))
    assert.deepEqual([await connections(), await cut()], [8, 3])
    await until(() => idle.filter(({ over }) => over()).length === 3)
    assert.deepEqual(
      idle.map(({ over }) => over()),
      [true, true, true, false, false, false, false, false],
    )
    assert.equal(await me(), 200, 'of another address')
    assert.equal(await connections(), 9)
  })

  test('in total: new clients are accepted however many connections other addresses have', async (t) => {
    const { port, connections, me } = await openServer(t, { connections: { total: 20, perAddress: 5 } })
    const held: Dialled[] = []
    const kinds = ['', 'GET / HTTP/1.1\r\n', `${orderHead(9)}{`, askMe()]
    for (let n = 0; n < 60; n += 1)
      held.push(await dial(t, port, kinds[n % 4], { from: `127.0.1.${1 + (n % 12)}` }))
    await until(() => held.filter(({ over }) => over()).length === 40)
    assert.equal(await connections(), 20)
    for (let n = 0; n < 3; n += 1) assert.equal(await me(), 200)
    const fresh = await dial(t, port, askMe('connection: close\r\n'))
    await until(() => fresh.heard().startsWith('HTTP/1.1 200 '))
  })

  test('and none with a running request is closed: if all have one, the new one is closed', async (t) => {
    const gate = Promise.withResolvers<void>()
    const arrived: string[] = []
    const directory = {
      byKey: async (key: string, address: string) => {
        arrived.push(key)
        await gate.promise
        return sampleDirectory.byKey(key, address)
      },
    }
    const { port } = await openServer(t, { directory, connections: { total: 3, perAddress: 3 } })
    const working: Dialled[] = []
    for (let n = 0; n < 3; n += 1) working.push(await dial(t, port, askMe()))
    await until(() => arrived.length === 3)
    const late = await dial(t, port, askMe())
    await until(late.over)
    gate.resolve()
    await until(() => working.every(({ heard }) => heard().startsWith('HTTP/1.1 200 ')))
    const next = await dial(t, port, askMe())
    await until(() => next.heard().startsWith('HTTP/1.1 200 '))
  })

  test('but not those of a trusted proxy, by address: it connects for all clients', async (t) => {
    const { port, connections, cut } = await openServer(t, {
      connections: { total: 30, perAddress: 3 },
      trusted: trustedProxies('127.0.0.9'),
    })
    for (let n = 0; n < 12; n += 1) await dial(t, port, '', { from: '127.0.0.9' })
    await until(async () => (await connections()) === 12)
    assert.equal(await cut(), 0)
  })
})
