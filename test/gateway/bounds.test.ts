import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import type { Exit } from '../../src/gateway/gateway-ports.ts'
import fc, { runs } from '../support/fast-check.ts'
import { until } from '../support/until.ts'
import { selfSigned } from './support/certificate.ts'
import { authorization, basic, connectBy, sendRaw, socksTo, talkOver, talkTo } from './support/clients.ts'
import { collect, holdsAtMost } from './support/collect.ts'
import { udpLine } from './support/datagrams.ts'
import { startGateway } from './support/gateway.ts'
import { directExit, exhausted, password, plainLine, username } from './support/memory-ports.ts'
import { closedPort, echoTarget, httpTarget, tcpTarget } from './support/targets.ts'

const soak = process.env.FAREBOX_SOAK === '1'

const exitAt = (port: number): Exit => ({
  exitId: 'e',
  via: { kind: 'http', host: '127.0.0.1', port, username: null, password: null },
  sandbox: true,
  udp: false,
})

/** Sends pieces, reads all data, and ends. */
const throwAt = async (port: number, pieces: readonly Buffer[]): Promise<void> => {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.resume()
  const closed = new Promise((resolve) => socket.once('close', resolve))
  for (const piece of pieces) {
    if (!socket.writable) break
    socket.write(piece)
    await new Promise((resolve) => setImmediate(resolve))
  }
  socket.end()
  await closed
}

describe('no sequence of bytes', () => {
  const seeds = (target: number): readonly Buffer[] => [
    Buffer.from(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\nhello`),
    Buffer.from(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}Connection: close\r\n\r\n`),
    Buffer.from(
      `POST http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n`,
    ),
    Buffer.from([
      5,
      1,
      2,
      1,
      7,
      ...Buffer.from('tester1'),
      7,
      ...Buffer.from('secret1'),
      5,
      1,
      0,
      1,
      127,
      0,
      0,
      1,
      target >> 8,
      target & 255,
    ]),
    Buffer.from([
      5,
      1,
      2,
      1,
      7,
      ...Buffer.from('tester1'),
      7,
      ...Buffer.from('secret1'),
      5,
      3,
      0,
      1,
      0,
      0,
      0,
      0,
      0,
      0,
    ]),
  ]

  test('ends the gateway or leaves anything open', async (t) => {
    // An exit that accepts every target: a random target may be a real host.
    const agreeable = await tcpTarget(t, (socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        socket.pipe(socket)
      })
    })
    const { port, gateway, access } = await startGateway(t, {
      exit: exitAt(agreeable),
      limits: { headMs: 60, idleMs: 60, tunnelIdleMs: 60, lingerMs: 20 },
    })
    access.line = { ...plainLine, targeting: { ...plainLine.targeting, udp: true } }
    const target = await echoTarget(t)
    const mutated = fc
      .tuple(
        fc.constantFrom(...seeds(target)),
        fc.array(fc.tuple(fc.nat(), fc.nat(255), fc.constantFrom('set', 'cut', 'insert', 'repeat')), {
          maxLength: 4,
        }),
      )
      .map(([seed, changes]) =>
        changes.reduce((bytes, [place, byte, how]) => {
          const at = place % (bytes.length + 1)
          const before = bytes.subarray(0, at)
          const after = bytes.subarray(at)
          if (how === 'cut') return Buffer.concat([before, after.subarray(1 + (byte % 8))])
          if (how === 'insert') return Buffer.concat([before, Buffer.of(byte), after])
          if (how === 'repeat') return Buffer.concat([before, before.subarray(-byte), after])
          return Buffer.concat([before, Buffer.of(byte), after.subarray(1)])
        }, seed),
      )
    const random = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes))
    const pieces = fc
      .tuple(fc.oneof(mutated, random), fc.array(fc.nat(600), { maxLength: 4 }))
      .map(([bytes, cuts]) => {
        const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
        return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
      })
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { minLength: 20, maxLength: 20 }), async (many) => {
        await Promise.all(many.map((each) => throwAt(port, each)))
      }),
      { numRuns: runs(20, 500) },
    )
    await until(() => gateway.connections === 0 && access.open === 0)
    const next = `CONNECT 10.0.0.1:80 HTTP/1.1\r\n${authorization}\r\n`
    assert.match(await sendRaw(port, next), /^HTTP\/1\.1 464 /)
  })

  test('of a target ends the gateway', async (t) => {
    const { port, gateway } = await startGateway(t, { limits: { idleMs: 60, lingerMs: 20 } })
    let answer: Buffer = Buffer.alloc(0)
    const target = await tcpTarget(t, (socket) => {
      socket.once('data', () => socket.end(answer))
    })
    const seed = Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n')
    await fc.assert(
      fc.asyncProperty(
        fc.nat(seed.length),
        fc.uint8Array({ maxLength: 6 }),
        fc.nat(4),
        async (at, bytes, cut) => {
          answer = Buffer.concat([seed.subarray(0, at), bytes, seed.subarray(at + cut)])
          await throwAt(port, [
            Buffer.from(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`),
          ])
        },
      ),
      { numRuns: runs(100, 5_000) },
    )
    await until(() => gateway.connections === 0)
  })

  test('makes a connection use more than its bounded memory, while it is dialled or with a slow target', async (t) => {
    const silent = exitAt(await tcpTarget(t, () => undefined))
    const { port, exits, gateway } = await startGateway(t)
    const lazy = await tcpTarget(t, (socket) => void socket.pause())
    const clients = []
    collect()
    const before = process.memoryUsage().arrayBuffers
    const flood = Buffer.alloc(4_000_000, 'x')
    for (const exit of [silent, exits.next() as Exit]) {
      exits.next = () => exit
      for (let n = 0; n < 20; n++) {
        const socket = connect(port, '127.0.0.1')
        socket.on('error', () => undefined)
        socket.write(`CONNECT 127.0.0.1:${lazy} HTTP/1.1\r\n${authorization}\r\n`)
        socket.write(flood)
        clients.push(socket)
      }
      await until(() => gateway.connections === clients.length)
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    await holdsAtMost(before + flood.length + 400_000 * clients.length, 'arrayBuffers')
    for (const socket of clients) socket.destroy()
  })

  test('of unauthenticated clients of one address uses more than its share of connections', async (t) => {
    const { port, gateway } = await startGateway(t, { limits: { unauthenticatedPerAddress: 20 } })
    const target = await echoTarget(t)
    for (let n = 0; n < 30; n++) await connectBy(port, `127.0.0.1:${target}`)
    const strangers = await Promise.all(Array.from({ length: 30 }, () => talkTo(port)))
    await until(() => gateway.connections === 50)
    await Promise.race(strangers.map((each) => each.rest()))
  })
})

describe('connections of every kind', () => {
  const openFiles = (): number =>
    existsSync('/proc/self/fd')
      ? readdirSync('/proc/self/fd').length
      : process.getActiveResourcesInfo().length

  test('leave no file descriptor, no admission and no memory', async (t) => {
    const near = await startGateway(t, { limits: { headMs: 10_000, dialMs: 10_000, lingerMs: 1_000 } })
    const { port, access, exits, gateway } = near
    const echo = await echoTarget(t)
    const { port: web, server } = await httpTarget(t, (_, response) => void response.end('ok'))
    server.on('upgrade', (_, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
      socket.on('error', () => undefined)
      socket.pipe(socket)
    })
    const tls = selfSigned()
    const tlsPort = await gateway.listen({ host: '127.0.0.1', port: 0, tls })
    // Each connection goes out in another way: from here, or through another gateway by HTTP and by SOCKS5.
    const far = await startGateway(t)
    far.access.line = udpLine
    const ways = [directExit, exitAt(far.port), { ...exitAt(far.port), udp: true }].map((exit, at) => ({
      ...exit,
      via:
        exit.via.kind === 'direct'
          ? exit.via
          : { ...exit.via, kind: at === 1 ? 'http' : 'socks5', username, password },
    })) as readonly Exit[]
    const remembered = [near, far].flatMap((each) => [
      each.access.attempts,
      each.access.closed,
      each.exits.outcomes,
      each.refusals,
      each.lines,
    ])
    let way = 0
    exits.next = () => ways[way++ % ways.length]!
    const closedTarget = await closedPort()
    access.answer = ({ credentials }) => {
      if (credentials?.username === 'empty') return exhausted
      return credentials?.password === 'wrong' ? { ...exhausted, status: 407 } : null
    }
    access.line = udpLine
    const wrong = `Proxy-Authorization: ${basic('tester1', 'wrong')}\r\n`
    const leave = (socket: import('node:net').Socket): void => {
      socket.on('error', () => undefined)
      socket.destroy()
    }
    const kinds: readonly (() => Promise<unknown>)[] = [
      async () => {
        const talk = await connectBy(port, `127.0.0.1:${echo}`)
        talk.socket.end('x')
        await talk.rest()
      },
      async () => leave((await connectBy(port, `127.0.0.1:${echo}`)).socket),
      async () => (await connectBy(port, `127.0.0.1:${echo}`)).socket.resetAndDestroy(),
      async () => {
        const { talk } = await socksTo(port, '127.0.0.1', echo)
        talk.socket.end('x')
        await talk.rest()
      },
      async () => leave((await socksTo(port, '0.0.0.0', 1, { command: 3 })).talk.socket),
      () =>
        sendRaw(port, `GET http://127.0.0.1:${web}/ HTTP/1.1\r\nConnection: close\r\n${authorization}\r\n`),
      async () => {
        const talk = await talkTo(port)
        talk.write(`GET http://127.0.0.1:${web}/ HTTP/1.1\r\n${authorization}\r\n`)
        await talk.until('ok')
        leave(talk.socket)
      },
      async () => {
        const talk = await talkTo(port)
        talk.write(
          `GET http://127.0.0.1:${web}/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n${authorization}\r\n`,
        )
        await talk.until('\r\n\r\n')
        talk.socket.end('x')
        await talk.rest()
      },
      async () => {
        const socket = connectTls({ port: tlsPort, host: '127.0.0.1', ca: tls.cert })
        await once(socket, 'secureConnect')
        const talk = talkOver(socket)
        talk.write(`CONNECT 127.0.0.1:${echo} HTTP/1.1\r\n${authorization}\r\n`)
        await talk.until('\r\n\r\n')
        socket.end('x')
        await talk.rest()
      },
      () => sendRaw(port, `CONNECT 127.0.0.1:${closedTarget} HTTP/1.1\r\n${authorization}\r\n`),
      () => sendRaw(port, `CONNECT 127.0.0.1:${echo} HTTP/1.1\r\n${wrong}\r\n`),
      () => sendRaw(port, `CONNECT 10.0.0.1:80 HTTP/1.1\r\n${authorization}\r\n`),
      () => sendRaw(port, 'nonsense\r\n\r\n'),
      async () => leave((await talkTo(port)).socket),
      async () => {
        const talk = await talkTo(port)
        talk.write(`CONNECT 127.0.0.1:${echo} HTTP/1.1\r\n${authorization}\r\n`)
        leave(talk.socket)
      },
    ]
    const round = async (): Promise<void> => {
      await Promise.all(kinds.map((kind) => kind()))
    }
    const settled = () =>
      until(() =>
        [near, far].every(
          (each) => each.gateway.connections === 0 && each.access.open === 0 && each.exits.open === 0,
        ),
      )
    for (let n = 0; n < 15; n++) await round()
    await settled()
    collect()
    const filesBefore = openFiles()
    const heapBefore = process.memoryUsage().heapUsed
    const rounds = Math.ceil((soak ? 20_000 : 1_000) / kinds.length)
    for (let n = 0; n < rounds; n++) {
      await round()
      for (const list of remembered) list.length = 0
    }
    await settled()
    await until(() => openFiles() <= filesBefore)
    await holdsAtMost(heapBefore + 2_000_000, 'heapUsed')
    const grown = process.memoryUsage().heapUsed - heapBefore
    t.diagnostic(`${rounds * kinds.length} connections, the heap grew by ${grown} bytes`)
  })
})
