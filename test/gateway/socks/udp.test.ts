import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Exit } from '../../../src/gateway/gateway-ports.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { until } from '../../support/until.ts'
import { socksTo } from '../support/clients.ts'
import { collect, holdsAtMost } from '../support/collect.ts'
import { fakeExit, headerLength, udpClient, udpLine, udpTarget, wrapped } from '../support/datagrams.ts'
import { startGateway, type TestGateway, type TestOptions } from '../support/gateway.ts'
import { exhausted, password, username } from '../support/memory-ports.ts'

const socksExit = (port: number, sandbox = true): Exit => ({
  exitId: `exit_${port}`,
  via: { kind: 'socks5', host: '127.0.0.1', port, username: null, password: null },
  sandbox,
  udp: true,
})

const startUdp = async (t: TestContext, options: TestOptions = {}): Promise<TestGateway> => {
  const world = await startGateway(t, options)
  world.access.line = udpLine
  return world
}

const associate = async (t: TestContext, { port }: TestGateway) => {
  const { talk, reply, bound } = await socksTo(port, '0.0.0.0', 1, { command: 3 })
  assert.equal(reply, 0)
  const relay = bound.readUInt16BE(5)
  return { talk, relay, client: await udpClient(t, relay) }
}

describe('UDP ASSOCIATE', () => {
  test('relays datagrams both ways, counts their payload, and ends with its connection', async (t) => {
    const world = await startUdp(t)
    const target = await udpTarget(t)
    const { talk, client } = await associate(t, world)
    client.send(wrapped('127.0.0.1', target, 'ping'))
    assert.equal(String(await client.next()), 'ping')
    client.send(wrapped('localhost', target, 'by its name'))
    assert.equal(String(await client.next()), 'by its name')
    assert.deepEqual(world.spending.taken, { up: 15, down: 15 })
    talk.socket.end()
    await talk.rest()
    assert.equal(world.access.open, 0)
  })

  test('uses an exit that is a SOCKS5 proxy and resolves names itself', async (t) => {
    const far = await startUdp(t)
    const via = { kind: 'socks5', host: 'localhost', port: far.port, username, password } as const
    const near = await startUdp(t, { exit: { ...socksExit(far.port), via } })
    const target = await udpTarget(t)
    const { talk, client } = await associate(t, near)
    for (const host of ['127.0.0.1', 'localhost']) {
      client.send(wrapped(host, target, 'far away'))
      assert.equal(String(await client.next()), 'far away')
    }
    for (const { spending } of [near, far]) assert.deepEqual(spending.taken, { up: 16, down: 16 })
    talk.socket.end()
    await talk.rest()
    await until(() => far.access.open === 0 && near.access.open === 0)
    assert.deepEqual(near.exits.outcomes, ['connected'])
  })

  test('drops fragments, other ports and addresses of a client, and unsolicited datagrams of targets', async (t) => {
    const world = await startUdp(t)
    const target = await udpTarget(t)
    const { relay, client } = await associate(t, world)
    const intruder = await udpClient(t, relay, '127.0.0.2')
    // Before the client has sent anything: it does not take the relay over.
    intruder.send(wrapped('127.0.0.1', target, 'strange'))
    client.send(wrapped('127.0.0.1', target, 'part', 1))
    client.send(Buffer.of(0, 0))
    client.send(wrapped('127.0.0.1', target, 'whole'))
    assert.equal(String(await client.next()), 'whole')
    const other = await udpClient(t, relay)
    other.send(wrapped('127.0.0.1', target, 'strange'))
    client.send(wrapped('127.0.0.1', target, 'again'))
    assert.equal(String(await client.next()), 'again')
    assert.deepEqual(world.spending.taken, { up: 10, down: 10 })
    assert.deepEqual([intruder.came.length, other.came.length], [0, 0])
  })

  test('charges nothing for an answer that is too long with its header', async (t) => {
    const world = await startUdp(t)
    const large = await udpTarget(t, () => Buffer.alloc(65_507))
    const target = await udpTarget(t)
    const { client } = await associate(t, world)
    client.send(wrapped('127.0.0.1', large, 'x'))
    for (const text of ['one', 'two']) {
      client.send(wrapped('127.0.0.1', target, text))
      assert.equal(String(await client.next()), text)
    }
    assert.deepEqual(world.spending.taken, { up: 7, down: 6 })
  })

  test('ends at a datagram that exceeds the budget, and charges nothing for it', async (t) => {
    const world = await startUdp(t, { budget: 20 })
    const target = await udpTarget(t)
    const { talk, client } = await associate(t, world)
    client.send(wrapped('127.0.0.1', target, '9 bytes..'))
    assert.equal(String(await client.next()), '9 bytes..')
    client.send(wrapped('127.0.0.1', target, 'more than two bytes'))
    await talk.rest()
    assert.deepEqual(world.spending.taken, { up: 9, down: 9 })
    assert.deepEqual(world.access.closed, [{ error: 'traffic_exhausted', host: null }])
  })

  test('waits for more traffic, and then sends the datagrams that wait', async (t) => {
    const world = await startUdp(t, { budget: 0 })
    world.spending.patient = true
    const target = await udpTarget(t)
    const { client } = await associate(t, world)
    client.send(wrapped('127.0.0.1', target, 'first'))
    client.send(wrapped('127.0.0.1', target, 'second'))
    await until(() => world.spending.waiting() === 2)
    world.spending.topUp(1_000)
    assert.deepEqual([String(await client.next()), String(await client.next())], ['first', 'second'])
    assert.deepEqual(world.spending.taken, { up: 11, down: 11 })
  })

  test('is refused for a line without UDP', async (t) => {
    const { port, refusals } = await startGateway(t)
    const { reply } = await socksTo(port, '0.0.0.0', 1, { command: 3 })
    assert.equal(reply, 2)
    assert.deepEqual(refusals, ['403 udp_not_allowed'])
  })

  test('ends when its plan does, also before it has begun', async (t) => {
    const world = await startUdp(t)
    const { talk } = await associate(t, world)
    world.spending.end(exhausted)
    await talk.rest()
    await assert.rejects(socksTo(world.port, '0.0.0.0', 1, { command: 3 }), /the connection ended/)
    await until(() => world.access.open === 0)
    assert.deepEqual(
      world.access.closed.map(({ error }) => error),
      ['traffic_exhausted', 'traffic_exhausted'],
    )
  })
})

describe('a SOCKS5 exit', () => {
  test('that relays no UDP is replaced by the next one', async (t) => {
    const world = await startUdp(t)
    const none = socksExit((await fakeExit(t, { reply: 7 })).port)
    const good = socksExit((await fakeExit(t)).port)
    const exits = [none, good]
    world.exits.next = () => exits.shift() ?? none
    const { client } = await associate(t, world)
    client.send(wrapped('127.0.0.1', 53, 'ping'))
    assert.equal(String(await client.next()), 'ping')
    assert.deepEqual(world.exits.outcomes, ['failed', 'connected'])
    assert.equal((await socksTo(world.port, '0.0.0.0', 1, { command: 3 })).reply, 4)
    assert.equal(world.refusals.at(-1), '502 exit_failed')
    world.access.line = { ...udpLine, session: { id: 's1', lifetimeMinutes: 10 } }
    assert.equal((await socksTo(world.port, '0.0.0.0', 1, { command: 3 })).reply, 1)
    assert.equal(world.refusals.at(-1), '568 session_failed')
    assert.equal(world.exits.open, 1)
  })

  test('that ends an association ends it for the client too', async (t) => {
    const exit = await fakeExit(t)
    const world = await startUdp(t, { exit: socksExit(exit.port) })
    const { talk } = await associate(t, world)
    exit.breakOff()
    await talk.rest()
    await until(() => world.access.open === 0 && world.exits.open === 0)
    assert.equal(world.access.closed[0]?.error, 'exit_failed')
  })

  test('is sent datagrams at its own address if it names a private one', async (t) => {
    const exit = await fakeExit(t, { named: '10.1.2.3' })
    const world = await startUdp(t, { exit: socksExit(exit.port, false) })
    const { client } = await associate(t, world)
    client.send(wrapped('192.168.0.1', 53, 'not to a private target'))
    client.send(wrapped('203.0.114.9', 53, 'ping'))
    assert.equal(String(await client.next()), 'ping')
    assert.deepEqual(exit.came, [wrapped('203.0.114.9', 53, 'ping')])
  })
})

describe('no datagram', () => {
  const datagram = fc
    .tuple(
      fc.constantFrom(
        wrapped('127.0.0.1', 53, 'payload'),
        wrapped('a.example', 53, 'payload'),
        wrapped('127.0.0.1', 53, ''),
        wrapped('127.0.0.1', 53, Buffer.alloc(65_497, 'x')),
        Buffer.concat([Buffer.of(0, 0, 0, 4), Buffer.alloc(15), Buffer.of(1, 0, 53), Buffer.from('payload')]),
      ),
      fc.array(fc.tuple(fc.nat(24), fc.nat(255)), { maxLength: 3 }),
      fc.option(fc.nat(30)),
    )
    .map(([seed, changes, cut]) => {
      const bytes = Buffer.from(cut === null ? seed : seed.subarray(0, cut))
      for (const [at, byte] of changes) if (at < bytes.length) bytes[at] = byte
      return bytes
    })
  const any = fc.oneof(
    { weight: 4, arbitrary: datagram },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)) },
  )

  test('of a client or an exit ends the gateway, or costs more or less than what passed', async (t) => {
    const exit = await fakeExit(t)
    const world = await startUdp(t, { exit: socksExit(exit.port) })
    const { talk, client } = await associate(t, world)
    const sum = (all: readonly Buffer[]): number => all.reduce((bytes, { length }) => bytes + length, 0)
    let round = 0
    let up = 0
    let down = 0
    let back: readonly Buffer[] = []
    exit.answer = (bytes) => [...back, bytes]
    await fc.assert(
      fc.asyncProperty(
        fc.array(any, { maxLength: 3 }),
        fc.array(any, { maxLength: 2 }),
        async (many, backs) => {
          const marker = Buffer.from(`end of round ${round++}`)
          back = backs
          for (const each of many) client.send(each)
          client.send(wrapped('127.0.0.1', 53, marker))
          await until(() => client.came.some((each) => each.equals(marker)), { everyMs: 1 })
          up += sum(exit.came.map((each) => each.subarray(headerLength(each)!)))
          down += sum(client.came)
          exit.came.length = 0
          client.came.length = 0
          assert.deepEqual(world.spending.taken, { up, down })
        },
      ),
      { numRuns: runs(150, 5_000) },
    )
    talk.socket.destroy()
    await until(() => world.access.open === 0)
  })

  test('of a flood uses more than bounded memory while names are resolved', async (t) => {
    let lookups = 0
    const world = await startUdp(t, {
      lookup: () => {
        lookups += 1
        return new Promise(() => undefined)
      },
    })
    const target = await udpTarget(t)
    const { client } = await associate(t, world)
    const payload = Buffer.alloc(60_000, 'x')
    collect()
    const before = process.memoryUsage().arrayBuffers
    for (let round = 0; round < 60; round += 1) {
      for (let n = 0; n < 3; n += 1) client.send(wrapped(`host${round}-${n}.example`, 53, payload))
      client.send(wrapped('127.0.0.1', target, 'still there'))
      await client.next()
    }
    assert.equal(lookups, 64)
    assert.deepEqual(world.spending.taken, { up: 60 * 11, down: 60 * 11 })
    await holdsAtMost(before + 100 * payload.length, 'arrayBuffers')
  })
})
