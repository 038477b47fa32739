import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { defaultLimits } from '../../../src/gateway/client.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { drink, pour } from '../support/bytes.ts'
import { authorization, basic, connectBy, socksTo, type Talk, talkTo } from '../support/clients.ts'
import { collect, holdsAtMost } from '../support/collect.ts'
import { startGateway } from '../support/gateway.ts'
import { httpTarget, tcpTarget } from '../support/targets.ts'
import { startWorkerProcess } from '../support/worker-process.ts'

test('the limits equal those of the gateway page', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/guides/proxy-lines.md'), 'utf8')
  const {
    headBytes,
    headMs,
    responseHeadBytes,
    tunnelIdleMs,
    idleMs,
    endedClientMs,
    dialMs,
    udpPeers,
    connections,
  } = defaultLimits
  for (const row of [
    `| A request's head | ${headBytes / 1_024} KiB, ${headMs / 1_000} seconds |`,
    `| A SOCKS client's log-in, and then its request | ${headMs / 1_000} seconds each |`,
    `| An answer's head | ${responseHeadBytes / 1_024} KiB |`,
    `| Time of a tunnel without a byte in either direction | ${tunnelIdleMs / 60_000} minutes, `,
    `and of a tunnel whose one side has ended | ${idleMs / 1_000} seconds |`,
    `until the next bytes of the answer | ${endedClientMs / 1_000} seconds |`,
    `| Time until the target answers, all tries together | ${dialMs / 1_000} seconds |`,
    `| Hosts of a UDP association | ${udpPeers} |`,
    `| Connections of a worker | ${connections.toLocaleString('en')} |`,
  ])
    assert.ok(page.includes(row), row)
})

/** A tunnel whose client has read nothing since its begin. */
const unread = (talk: Talk): Socket => {
  talk.socket.removeAllListeners('data')
  return talk.socket.pause()
}

describe('a side that does not read', () => {
  const endless = (socket: Socket): void => {
    socket.once('data', () => void pour(socket, Number.MAX_SAFE_INTEGER))
  }

  test('makes a tunnel or an answer use no more than its bounded memory', async (t) => {
    const { port, spending } = await startGateway(t)
    const target = await tcpTarget(t, endless)
    const { port: web } = await httpTarget(t, (_, response) => {
      const piece = Buffer.alloc(65_536, 'x')
      const push = (): void => {
        while (response.write(piece));
        response.once('drain', push)
      }
      push()
    })
    const clients: Socket[] = []
    collect()
    const before = process.memoryUsage().arrayBuffers
    const pairs = 15
    for (let n = 0; n < pairs; n += 1) {
      const socket = unread(await connectBy(port, `127.0.0.1:${target}`))
      socket.write('go')
      const plain = connect(port, '127.0.0.1').pause()
      plain.write(`GET http://127.0.0.1:${web}/ HTTP/1.1\r\n${authorization}\r\n`)
      clients.push(socket, plain)
    }
    await until(async () => {
      const { down } = spending.taken
      await new Promise((resolve) => setTimeout(resolve, 200))
      return down > pairs * 100_000 && spending.taken.down === down
    })
    // The targets' own queues, half a megabyte of each at most, are among it.
    await holdsAtMost(before + 700_000 * clients.length, 'arrayBuffers')
    for (const socket of clients) socket.destroy()
  })

  test('is cut after the idle time, on either side, and its partial data does not count as complete', async (t) => {
    const { port, access, gateway } = await startGateway(t, { limits: { tunnelIdleMs: 300, lingerMs: 100 } })
    const target = await tcpTarget(t, endless)
    const lazy = await tcpTarget(t, (socket) => void socket.pause())
    const reader = unread(await connectBy(port, `127.0.0.1:${target}`))
    reader.on('error', () => undefined)
    reader.write('go')
    const writer = (await socksTo(port, '127.0.0.1', lazy)).talk.socket
    writer.on('error', () => undefined)
    void pour(writer, Number.MAX_SAFE_INTEGER)
    await until(() => access.open === 0 && gateway.connections === 0)
    assert.deepEqual(
      access.closed.map(({ error }) => error),
      ['idle_timeout', 'idle_timeout'],
    )
    const { whole } = await drink(reader)
    assert.equal(whole, false)
    writer.destroy()
  })

  test('and has ended its own side is cut after the idle time too: a half-open tunnel stays no longer', async (t) => {
    const { port, access } = await startGateway(t, { limits: { idleMs: 200 } })
    const silent = await tcpTarget(t, () => undefined)
    const ended = await tcpTarget(t, (socket) => void socket.end())
    for (const open of [silent, ended]) {
      const { socket } = await connectBy(port, `127.0.0.1:${open}`)
      if (open === silent) socket.end()
    }
    assert.equal(access.open, 2)
    await until(() => access.open === 0)
    assert.deepEqual(
      access.closed.map(({ error }) => error),
      ['idle_timeout', 'idle_timeout'],
    )
  })
})

test('a worker in its own process', async (t) => {
  const app = await testApp(t)
  const { planId } = (
    await app.buyer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 })
  ).body
  const { connection } = (await app.buyer.get(`/api/v1/plans/${planId}`)).body
  const { username, password } = connection
  const signIn = `Proxy-Authorization: ${basic(username, password)}\r\n`
  const settings = { FAREBOX_GATEWAY_CONNECTIONS: '3', FAREBOX_SHUTDOWN_TIMEOUT_MS: '20000' }
  const worker = await startWorkerProcess(t, app, settings)
  const target = await tcpTarget(t, (socket) => {
    socket.once('data', () => void pour(socket, 8_000_000).then(() => socket.end()))
    socket.on('end', () => socket.end())
  })
  const ask = async (): Promise<{ readonly talk: Talk; readonly head: string }> => {
    const talk = await talkTo(worker.port)
    talk.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${signIn}\r\n`)
    return { talk, head: await talk.until('\r\n\r\n') }
  }

  await t.test('opens no more connections of a plan than allowed, also when all arrive at once', async () => {
    const opened = await Promise.all(Array.from({ length: 8 }, ask))
    const letIn = opened.filter(({ head }) => head.startsWith('HTTP/1.1 200 '))
    assert.equal(letIn.length, 3)
    for (const { head } of opened.filter((each) => !letIn.includes(each))) {
      assert.match(head, /^HTTP\/1\.1 503 Service Unavailable\r\n/)
      assert.match(head, /\r\nX-Proxy-Error: too_many_connections\r\n/)
      assert.match(head, /\r\nRetry-After: 1\r\n/)
    }
    const login = { user: username as string, word: password as string }
    assert.equal((await socksTo(worker.port, '127.0.0.1', target, login)).reply, 1)
    for (const { talk } of opened) talk.socket.destroy()
    await until(async () => {
      const { talk, reply } = await socksTo(worker.port, '127.0.0.1', target, login)
      talk.socket.destroy()
      return reply === 0
    })
  })

  await t.test('lets running connections end at SIGTERM, accepts no more, and exits with 0', async () => {
    const talk = await until(async () => {
      const connection = await ask()
      return connection.head.startsWith('HTTP/1.1 200 ') ? connection.talk : null
    })
    const idle = await talkTo(worker.port)
    const running = unread(talk)
    running.write('go')
    const stopped = worker.stop()
    await until(() =>
      talkTo(worker.port).then(
        ({ socket }) => void socket.destroy(),
        () => true,
      ),
    )
    assert.deepEqual(await drink(running, 1_000_000), { bytes: 8_000_000, whole: true, reset: false })
    running.destroy()
    idle.socket.destroy()
    assert.equal(await stopped, 0)
    await until(async () => {
      const { bytesUsed } = (await app.buyer.get(`/api/v1/plans/${planId}`)).body
      return bytesUsed >= 8_000_000
    })
  })
})
