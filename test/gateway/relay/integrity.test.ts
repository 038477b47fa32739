import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { until } from '../../support/until.ts'
import { drink, pour } from '../support/bytes.ts'
import { selfSigned } from '../support/certificate.ts'
import { authorization, basic, connectBy, socksTo, talkTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { httpTarget, tcpTarget } from '../support/targets.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const size = soak ? 200_000_000 : 12_000_000
const slowly = 400_000

/** The raw socket behind a finished handshake: nothing of the stream was read yet. */
const rawSocket = ({ socket }: { readonly socket: import('node:net').Socket }) => {
  socket.removeAllListeners('data')
  socket.pause()
  return socket
}

describe('every byte arrives as it was sent', () => {
  for (const [name, readerPause] of [
    ['a fast', null],
    ['a slow', slowly],
  ] as const) {
    test(`down a tunnel to a ${name} reader`, async (t) => {
      const { port, spending } = await startGateway(t)
      const target = await tcpTarget(t, (socket) => {
        socket.once('data', () => void pour(socket, size).then(() => socket.end()))
      })
      const socket = rawSocket(await connectBy(port, `127.0.0.1:${target}`))
      socket.write('go')
      assert.deepEqual(await drink(socket, readerPause), { bytes: size, whole: true, reset: false })
      assert.deepEqual(spending.taken, { up: 2, down: size })
    })

    test(`up a tunnel to a ${name} target`, async (t) => {
      const { port, spending } = await startGateway(t)
      const { promise, resolve } = Promise.withResolvers<unknown>()
      const target = await tcpTarget(t, (socket) => void drink(socket, readerPause).then(resolve))
      const { talk } = await socksTo(port, '127.0.0.1', target)
      await pour(talk.socket, size)
      talk.socket.end()
      assert.deepEqual(await promise, { bytes: size, whole: true, reset: false })
      assert.deepEqual(spending.taken, { up: size, down: 0 })
    })

    test(`down a TLS port to a ${name} reader`, async (t) => {
      const { gateway } = await startGateway(t)
      const tls = selfSigned()
      const port = await gateway.listen({ host: '127.0.0.1', port: 0, tls })
      const target = await tcpTarget(t, (socket) => {
        socket.once('data', () => void pour(socket, size).then(() => socket.end()))
      })
      const socket = connectTls({ port, host: '127.0.0.1', ca: tls.cert })
      await once(socket, 'secureConnect')
      socket.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
      await once(socket, 'data')
      socket.pause()
      socket.write('go')
      assert.deepEqual(await drink(socket, readerPause), { bytes: size, whole: true, reset: false })
    })
  }

  // Pieces that do not fill the queue are read while the ones before still wait in it: in memory of their own.
  test('in small pieces to a reader that paused', async (t) => {
    const { port, spending } = await startGateway(t)
    const target = await tcpTarget(t, (socket) => {
      socket.once('data', () => void pour(socket, size, 3_000).then(() => socket.end()))
    })
    const socket = rawSocket(await connectBy(port, `127.0.0.1:${target}`))
    socket.write('go')
    await until(async () => {
      const before = spending.taken.down
      await sleep(100)
      return before > 0 && spending.taken.down === before
    })
    assert.deepEqual(await drink(socket, slowly), { bytes: size, whole: true, reset: false })
  })

  test('both ways at once, with a slow target and a slow reader', async (t) => {
    const { port, spending } = await startGateway(t)
    const { promise, resolve } = Promise.withResolvers<unknown>()
    const target = await tcpTarget(t, (socket) => {
      // Not before the client calls for it: until then its bytes would be read with the reply.
      socket.once('readable', () => void pour(socket, size).then(() => socket.end()))
      void drink(socket, slowly).then(resolve)
    })
    const socket = rawSocket(await connectBy(port, `127.0.0.1:${target}`))
    const poured = pour(socket, size).then(() => socket.end())
    assert.deepEqual(await drink(socket, slowly), { bytes: size, whole: true, reset: false })
    await poured
    assert.deepEqual(await promise, { bytes: size, whole: true, reset: false })
    assert.deepEqual(spending.taken, { up: size, down: size })
  })

  test('in the bodies of a plain request and of its answer, with a slow target and a slow reader', async (t) => {
    const { port } = await startGateway(t)
    const { promise, resolve } = Promise.withResolvers<unknown>()
    const { port: target } = await httpTarget(t, (request, response) => {
      void drink(request, slowly).then(resolve)
      void pour(response, size).then(() => response.end())
    })
    const request = httpRequest({
      port,
      host: '127.0.0.1',
      method: 'POST',
      path: `http://127.0.0.1:${target}/`,
      headers: { 'proxy-authorization': basic(), 'content-length': size },
    })
    void pour(request, size).then(() => request.end())
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    assert.equal(response.headers['transfer-encoding'], 'chunked')
    assert.deepEqual(await drink(response, slowly), { bytes: size, whole: true, reset: false })
    assert.deepEqual(await promise, { bytes: size, whole: true, reset: false })
  })

  test('in the answers of a keep-alive connection, by length and in chunks', async (t) => {
    const { port } = await startGateway(t)
    const body = Buffer.alloc(300_000, 'abcdefghij')
    const { port: target } = await httpTarget(t, (request, response) => {
      if (request.url === '/length') response.setHeader('content-length', body.length)
      for (let at = 0; at < body.length; at += 7_001) response.write(body.subarray(at, at + 7_001))
      response.end()
    })
    const talk = await talkTo(port)
    for (let n = 0; n < 20; n++) {
      talk.write(`GET http://127.0.0.1:${target}/length HTTP/1.1\r\n${authorization}\r\n`)
      await talk.until('\r\n\r\n')
      assert.ok((await talk.exactly(body.length)).equals(body))
    }
    talk.write(`GET http://127.0.0.1:${target}/chunks HTTP/1.1\r\n${authorization}\r\n`)
    assert.match(await talk.until('\r\n\r\n'), /transfer-encoding: chunked/i)
    await talk.until('\r\n0\r\n\r\n')
  })
})

describe('the end of one side', () => {
  test('is passed on alone: the target continues after the client has ended, and the other way round', async (t) => {
    const { port, access } = await startGateway(t)
    const target = await tcpTarget(t, (socket) => {
      socket.resume()
      socket.once('end', () => {
        socket.write('after your end')
        setTimeout(() => socket.end(', and mine'), 20)
      })
    })
    const talk = await connectBy(port, `127.0.0.1:${target}`)
    talk.socket.end('mine first')
    assert.equal((await talk.rest()).toString(), 'after your end, and mine')

    const { promise, resolve } = Promise.withResolvers<string>()
    const other = await tcpTarget(t, (socket) => {
      let seen = ''
      socket.on('data', (bytes) => {
        seen += bytes
      })
      socket.once('end', () => resolve(seen))
      socket.end('that was all')
    })
    const { talk: socks } = await socksTo(port, '127.0.0.1', other)
    assert.equal((await socks.rest()).toString(), 'that was all')
    socks.socket.end('late')
    assert.equal(await promise, 'late')
    await until(() => access.open === 0)
  })

  test('by a reset at a random byte arrives as a reset after a part of the stream', async (t) => {
    const { port, access } = await startGateway(t)
    const rounds = soak ? 200 : 20
    for (let round = 0; round < rounds; round++) {
      const upTo = Math.floor(Math.random() * 2_000_000)
      const target = await tcpTarget(t, (socket) => {
        socket.once('data', () => void pour(socket, upTo).then(() => socket.resetAndDestroy()))
      })
      const socket = rawSocket(await connectBy(port, `127.0.0.1:${target}`))
      socket.on('error', () => undefined)
      socket.write('go')
      const { bytes, whole } = await drink(socket, round % 2 === 0 ? null : slowly)
      assert.ok(bytes <= upTo)
      assert.equal(whole, false, 'a part is not taken for the whole')
    }
    for (let round = 0; round < rounds; round++) {
      const upTo = Math.floor(Math.random() * 2_000_000)
      const { promise, resolve } = Promise.withResolvers<Awaited<ReturnType<typeof drink>>>()
      const target = await tcpTarget(t, (socket) => void drink(socket).then(resolve))
      const { talk } = await socksTo(port, '127.0.0.1', target)
      talk.socket.on('error', () => undefined)
      await pour(talk.socket, upTo)
      talk.socket.resetAndDestroy()
      const { bytes, whole } = await promise
      assert.ok(bytes <= upTo)
      assert.equal(whole, false)
    }
    await until(() => access.open === 0)
  })

  test('without data is set after the idle time', async (t) => {
    const { port, access } = await startGateway(t, { limits: { tunnelIdleMs: 100 } })
    const target = await tcpTarget(t, () => undefined)
    const talk = await connectBy(port, `127.0.0.1:${target}`)
    await talk.rest()
    await until(() => access.open === 0)
    assert.deepEqual(access.closed, [{ error: 'idle_timeout', host: '127.0.0.1' }])
  })

  test('is not set while bytes pass occasionally', async (t) => {
    const { port } = await startGateway(t, { limits: { tunnelIdleMs: 150 } })
    const target = await tcpTarget(t, (socket) => void socket.pipe(socket))
    const talk = await connectBy(port, `127.0.0.1:${target}`)
    for (let n = 0; n < 8; n++) {
      talk.write('.')
      await talk.exactly(1)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    talk.socket.destroy()
  })
})

describe('close of the gateway', () => {
  test('ends idle connections at once, lets running ones end, and cuts those that take too long', async (t) => {
    const { port, gateway, access } = await startGateway(t, { limits: { drainMs: 300 } })
    const { port: web } = await httpTarget(
      t,
      (_, response) => void setTimeout(() => response.end('slow answer'), 50),
    )
    const target = await tcpTarget(t, (socket) => void socket.resume())
    const idle = await talkTo(port)
    idle.write(`GET http://127.0.0.1:${web}/ HTTP/1.1\r\n${authorization}\r\n`)
    await idle.until('slow answer')
    const running = await talkTo(port)
    running.write(`GET http://127.0.0.1:${web}/ HTTP/1.1\r\n${authorization}\r\n`)
    const tunnel = await connectBy(port, `127.0.0.1:${target}`)
    tunnel.socket.on('error', () => undefined)
    await until(() => access.open === 3)
    const startedMs = performance.now()
    const closed = gateway.close()
    assert.equal((await idle.rest()).length, 0)
    assert.match((await running.rest()).toString(), /Connection: close\r\n.*slow answer$/s)
    await closed
    assert.ok(performance.now() - startedMs >= 290)
    assert.equal(access.open, 0)
    await assert.rejects(talkTo(port), { code: 'ECONNREFUSED' })
  })
})
