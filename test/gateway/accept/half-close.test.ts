import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { until } from '../../support/until.ts'
import { selfSigned } from '../support/certificate.ts'
import {
  authorization,
  connectBy,
  sendRaw,
  socksTo,
  type Talk,
  talkOver,
  talkTo,
} from '../support/clients.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { password, username } from '../support/memory-ports.ts'
import { echoTarget, httpTarget, tcpTarget } from '../support/targets.ts'

describe('a client that ends its side', () => {
  const ends: (() => unknown)[] = []
  let gateway: TestGateway
  let plain: number
  let echo: number
  let greeter: number
  before(async () => {
    const t = { after: (end: () => unknown) => void ends.push(end) } as TestContext
    gateway = await startGateway(t)
    plain = (await httpTarget(t, (request, response) => void request.pipe(response))).port
    echo = await echoTarget(t)
    // Sends first, and sends more after its client has ended.
    greeter = await tcpTarget(t, (socket) => {
      socket.write('welcome')
      socket.resume().on('end', () => socket.end(', bye'))
    })
  })
  after(async () => {
    for (const end of ends) await end()
  })
  const nothingOpen = () =>
    until(() => gateway.access.open === 0 && gateway.gateway.connections === 0, { timeoutMs: 5_000 })
  /** Sends all bytes of a client, and its end with them, in one packet. */
  const sayAndEnd = async (bytes: string | Buffer, port = gateway.port): Promise<Talk> => {
    const talk = await talkTo(port)
    talk.socket.end(bytes)
    return talk
  }
  const get = (fields = '') => `GET http://127.0.0.1:${plain}/ HTTP/1.1\r\n${authorization}${fields}\r\n`
  const connect = (port: number) => `CONNECT 127.0.0.1:${port} HTTP/1.1\r\n${authorization}\r\n`
  const socks = (port: number) =>
    Buffer.concat([
      Buffer.of(5, 1, 2, 1, username.length),
      Buffer.from(username),
      Buffer.of(password.length),
      Buffer.from(password),
      Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, port >> 8, port & 255),
    ])

  test('with a plain request gets its answer, and then the end', async () => {
    for (const fields of ['', 'Connection: keep-alive\r\n']) {
      const answer = (await (await sayAndEnd(get(fields))).rest()).toString()
      assert.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
      await nothingOpen()
    }
  })

  test('after several pipelined requests gets all answers, and then the end', async () => {
    const answers = (await (await sayAndEnd(get().repeat(5))).rest()).toString()
    assert.equal(answers.match(/HTTP\/1\.1 200 OK/g)?.length, 5)
    await nothingOpen()
  })

  test('after a body gets its answer, and then the end', async () => {
    const post = (framing: string) => get(framing).replace('GET', 'POST')
    for (const request of [
      `${post('Content-Length: 5\r\n')}hello`,
      `${post('Transfer-Encoding: chunked\r\n')}5\r\nhello\r\n0\r\n\r\n`,
    ]) {
      assert.match((await (await sayAndEnd(request)).rest()).toString(), /hello/)
      await nothingOpen()
    }
  })

  test('while it waits for the answer, or after it, does not keep its connection', async () => {
    const talk = await talkTo(gateway.port)
    talk.write(get())
    await talk.until('\r\n\r\n')
    talk.socket.end()
    await nothingOpen()
  })

  test('together with CONNECT and data keeps its tunnel', async () => {
    for (const data of ['', 'hello', 'x'.repeat(100_000)]) {
      const talk = await sayAndEnd(`${connect(echo)}${data}`)
      assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
      assert.equal((await talk.rest()).toString(), data)
      await nothingOpen()
    }
    const talk = await sayAndEnd(connect(greeter))
    await talk.until('\r\n\r\n')
    assert.equal((await talk.rest()).toString(), 'welcome, bye')
  })

  test('together with SOCKS messages and data keeps its tunnel', async () => {
    for (const data of ['', 'hello']) {
      const talk = await sayAndEnd(Buffer.concat([socks(echo), Buffer.from(data)]))
      const answer = await talk.rest()
      assert.deepEqual([...answer.subarray(0, 6)], [5, 2, 1, 0, 5, 0])
      assert.equal(answer.subarray(14).toString(), data)
      await nothingOpen()
    }
  })

  test("in a tunnel ends the target's side too, and still gets the target's data", async () => {
    const { talk } = await socksTo(gateway.port, '127.0.0.1', greeter)
    talk.socket.end('ignored')
    assert.equal((await talk.rest()).toString(), 'welcome, bye')
    await nothingOpen()
  })

  test('before its message is complete is disconnected at once', async () => {
    for (const part of [
      'GET http://',
      connect(echo).slice(0, -2),
      Buffer.of(5),
      socks(echo).subarray(0, -3),
    ]) {
      await (await sayAndEnd(part)).rest()
      await nothingOpen()
    }
  })
})

describe('before authentication', () => {
  test("a SOCKS client has the head's time limit for all its messages, and again for its request", async (t) => {
    const { port, gateway, access } = await startGateway(t, { limits: { headMs: 300, idleMs: 60_000 } })
    const silent = await Promise.all(
      [Buffer.of(5), Buffer.of(5, 1, 2), Buffer.of(5, 1, 2, 1, 7)].map(async (bytes) => {
        const talk = await talkTo(port)
        talk.write(bytes)
        return talk
      }),
    )
    // One byte after another does not make the time longer.
    const slow = await talkTo(port)
    slow.write(Buffer.of(5, 1, 2, 1, 255))
    const drip = setInterval(() => slow.socket.writable && slow.write('a'), 50)
    slow.socket.on('error', () => undefined)
    const known = await talkTo(port)
    known.write(
      Buffer.concat([Buffer.of(5, 1, 2, 1, username.length), Buffer.from(`${username}\x07${password}`)]),
    )
    await until(() => access.open === 1)
    await until(() => gateway.connections === 0 && access.open === 0, { timeoutMs: 5_000 })
    clearInterval(drip)
    for (const { socket } of [...silent, slow, known]) socket.destroy()
  })

  test('bytes that are neither HTTP nor SOCKS5 are refused at the first byte', async (t) => {
    const { port, access } = await startGateway(t, { limits: { headMs: 60_000 } })
    for (const byte of [0x00, 0x04, 0x09, 0x0a, 0x16, 0x20, 0x22, 0x28, 0x3a, 0x40, 0x7b, 0x7f, 0x80, 0xff])
      assert.match(await sendRaw(port, Buffer.of(byte)), /^HTTP\/1\.1 400 /, `${byte}`)
    // A control character or a bare line end behind a right beginning, too.
    for (const bytes of ['GET \0', 'GET http://a/ HTTP/1.1\n', 'GET http://a/ HTTP/1.1\r\nA: \x01', 'G\rE'])
      assert.match(await sendRaw(port, bytes), /^HTTP\/1\.1 400 /, JSON.stringify(bytes))
    // A first line that is no request line, as soon as it is whole.
    for (const bytes of ['SSH-2.0-client\r\n', 'EHLO a\r\n', 'GET /a b HTTP/1.1\r\nHost'])
      assert.match(await sendRaw(port, bytes), /^HTTP\/1\.1 400 /, JSON.stringify(bytes))
    assert.equal((await sendRaw(port, Buffer.of(5, 1, 2, 2))).length, 4)
    assert.equal(access.attempts.length, 0)
  })

  test('a client that does not finish the TLS handshake counts as an unauthenticated client of its address', async (t) => {
    const { gateway, access } = await startGateway(t, {
      limits: { unauthenticatedPerAddress: 3, headMs: 500 },
    })
    const port = await gateway.listen({ host: '127.0.0.1', port: 0, tls: selfSigned() })
    const target = await echoTarget(t)
    const tunnel = async (): Promise<void> => {
      const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
      const talk = talkOver(socket)
      talk.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
      assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
      open.push(socket)
    }
    const open: Socket[] = []
    // Those that are known do not count.
    for (let n = 0; n < 5; n++) await tunnel()
    const silent = await Promise.all([1, 2, 3].map(() => talkTo(port)))
    assert.equal((await (await talkTo(port)).rest()).length, 0, 'one more is closed')
    // They are closed when the time of a handshake has passed.
    await Promise.all(silent.map(async (talk) => assert.equal((await talk.rest()).length, 0)))
    await until(async () =>
      tunnel().then(
        () => true,
        () => false,
      ),
    )
    for (const socket of open) socket.destroy()
    await until(() => access.open === 0 && gateway.connections === 0)
  })

  test('an empty line before a request is ignored', async (t) => {
    const { port } = await startGateway(t)
    const target = await echoTarget(t)
    const talk = await talkTo(port)
    talk.write(`\r\nCONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    talk.socket.destroy()
  })
})

test('an idle tunnel has its own time limit, and a half-closed one that of other connections', async (t) => {
  const { port, access } = await startGateway(t, { limits: { tunnelIdleMs: 60_000, idleMs: 100 } })
  const silent = await tcpTarget(t, () => undefined)
  const [open, half] = [
    await connectBy(port, `127.0.0.1:${silent}`),
    await connectBy(port, `127.0.0.1:${silent}`),
  ]
  half.socket.end()
  await until(() => access.open === 1)
  assert.deepEqual(access.closed, [{ error: 'idle_timeout', host: '127.0.0.1' }])
  open.socket.destroy()
})
