import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { until } from '../../support/until.ts'
import { drink, pour } from '../support/bytes.ts'
import { authorization, connectBy, sendRaw, socksTo, talkTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { httpTarget, tcpTarget } from '../support/targets.ts'

const budget = 1_000_003
const more = 5_000_000

describe('a budget that runs out', () => {
  test('stops a download at the exact byte, by CONNECT and by SOCKS5', async (t) => {
    for (const open of ['connect', 'socks'] as const) {
      const { port, spending, access } = await startGateway(t, { budget })
      const target = await tcpTarget(t, (socket) => {
        socket.once('data', () => void pour(socket, more).then(() => socket.end()))
      })
      const talk =
        open === 'connect'
          ? await connectBy(port, `127.0.0.1:${target}`)
          : (await socksTo(port, '127.0.0.1', target)).talk
      talk.socket.removeAllListeners('data')
      talk.socket.pause()
      talk.write('go')
      const { bytes } = await drink(talk.socket)
      assert.equal(bytes, budget - 2)
      assert.equal(spending.left, 0)
      await until(() => access.open === 0)
      assert.equal(access.closed[0]?.error, 'traffic_exhausted')
    }
  })

  test('still gives a slow reader every charged byte', async (t) => {
    const { port, spending, access } = await startGateway(t, {
      budget: 20 * budget,
      limits: { lingerMs: 20_000 },
    })
    const target = await tcpTarget(t, (socket) => {
      socket.once('data', () => void pour(socket, 20 * more))
    })
    const talk = await connectBy(port, `127.0.0.1:${target}`)
    talk.socket.removeAllListeners('data')
    talk.socket.pause()
    talk.write('go')
    const { bytes } = await drink(talk.socket, 100_000)
    assert.equal(bytes, 20 * budget - 2)
    assert.equal(spending.left, 0)
    talk.socket.destroy()
    await until(() => access.open === 0)
  })

  test('stops a plain answer at the exact byte, including its head', async (t) => {
    const { port, spending, access } = await startGateway(t, { budget })
    const { port: target } = await httpTarget(t, (_, response) => void response.end(Buffer.alloc(more)))
    const request = `GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`
    const answer = await sendRaw(port, request)
    assert.equal(answer.length, budget - request.length)
    assert.deepEqual(spending.taken, { up: request.length, down: answer.length })
    await until(() => access.open === 0)
  })

  test('lets no byte too many pass upwards', async (t) => {
    const { port, spending, access } = await startGateway(t, { budget })
    let received = 0
    const target = await tcpTarget(t, (socket) => {
      socket.on('data', ({ length }: Buffer) => {
        received += length
      })
    })
    const talk = await connectBy(port, `127.0.0.1:${target}`)
    talk.socket.on('error', () => undefined)
    await pour(talk.socket, more)
    await until(() => access.open === 0)
    await until(() => received >= budget)
    assert.equal(received, budget)
    assert.deepEqual(spending.taken, { up: budget, down: 0 })
  })

  test('and is topped up in time pauses the tunnel and loses nothing', async (t) => {
    const { port, spending } = await startGateway(t, { budget })
    spending.patient = true
    const target = await tcpTarget(t, (socket) => {
      socket.once('data', () => void pour(socket, more).then(() => socket.end()))
    })
    const talk = await connectBy(port, `127.0.0.1:${target}`)
    talk.socket.removeAllListeners('data')
    talk.socket.pause()
    talk.write('go')
    const drunk = drink(talk.socket)
    for (let filled = budget; filled < more + 2; filled += 500_000) {
      await until(() => spending.left === 0)
      spending.topUp(500_000)
    }
    assert.deepEqual(await drunk, { bytes: more, whole: true, reset: false })
    assert.deepEqual(spending.taken, { up: 2, down: more })
  })
})

describe('counted are', () => {
  test('the heads and bodies of plain HTTP as the client sends and receives them', async (t) => {
    const { port, spending } = await startGateway(t)
    const { port: target } = await httpTarget(t, (request, response) => {
      request.resume()
      request.once('end', () => response.end('answer'))
    })
    const talk = await talkTo(port)
    const requests = [
      `POST http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}Content-Length: 5\r\n\r\nhello`,
      `POST http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    ]
    talk.write(requests.join(''))
    const got = await talk.rest()
    assert.deepEqual(spending.taken, { up: requests.join('').length, down: got.length })
  })

  test('one admission for all requests with the same credentials to the same target', async (t) => {
    const { port, access } = await startGateway(t)
    const answer = (_: unknown, response: { end(text: string): unknown }): void => void response.end('ok')
    const { port: one } = await httpTarget(t, answer)
    const { port: other } = await httpTarget(t, answer)
    const talk = await talkTo(port)
    for (const target of [one, one, one, other, other]) {
      talk.write(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
      await talk.until('ok')
    }
    assert.equal(access.attempts.length, 2)
    talk.socket.end()
    await until(() => access.closed.length === 2)
    assert.deepEqual(access.closed, Array(2).fill({ error: null, host: '127.0.0.1' }))
  })
})
