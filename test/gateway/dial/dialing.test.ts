import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { raceToSocket } from '../../../src/gateway/buffered-socket.ts'
import { addressOfPrefix } from '../../../src/gateway/dial/dial.ts'
import type { Exit } from '../../../src/gateway/gateway-ports.ts'
import { cachedResolve, defaultTargetPolicy, parseTargetPolicy } from '../../../src/gateway/targets.ts'
import { interleaveFamilies } from '../../../src/platform/outgoing/race.ts'
import { until } from '../../support/until.ts'
import { selfSigned } from '../support/certificate.ts'
import { authorization, connectBy, sendRaw, socksTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { directExit, password, username } from '../support/memory-ports.ts'
import { closedPort, echoTarget, httpTarget, tcpTarget } from '../support/targets.ts'

type Via = Exclude<Exit['via']['kind'], 'direct' | 'prefix'>

/** Another gateway as the exit of ours: a real proxy of that kind, whose own exit dials directly. */
const through = async (t: TestContext, kind: Via, word = password) => {
  const tls = selfSigned()
  const far = await startGateway(t)
  const port = kind === 'https' ? await far.gateway.listen({ host: '127.0.0.1', port: 0, tls }) : far.port
  const exit: Exit = {
    exitId: `exit_${kind}`,
    via: { kind, host: 'localhost', port, username, password: word },
    sandbox: true,
    udp: false,
  }
  const near = await startGateway(t, { exit, exitAuthorities: tls.cert })
  return { near, far, exit }
}

describe('an exit that is', () => {
  for (const kind of ['http', 'https', 'socks5'] as const) {
    test(`a proxy over ${kind} carries tunnels and plain requests, and resolves names itself`, async (t) => {
      const { near, far } = await through(t, kind)
      const target = await echoTarget(t)
      const { port: web } = await httpTarget(t, (_, response) => void response.end('from the web'))
      const talk = await connectBy(near.port, `localhost:${target}`)
      talk.write('far away')
      assert.equal((await talk.exactly(8)).toString(), 'far away')
      const { reply } = await socksTo(near.port, '127.0.0.1', target)
      assert.equal(reply, 0)
      const answer = await sendRaw(
        near.port,
        `GET http://127.0.0.1:${web}/ HTTP/1.1\r\nConnection: close\r\n${authorization}\r\n`,
      )
      assert.match(answer, /from the web$/)
      assert.deepEqual(near.exits.outcomes, ['connected', 'connected', 'connected'])
      assert.equal(far.access.attempts.length, 3)
    })

    test(`a proxy over ${kind} that refuses its credentials has failed itself`, async (t) => {
      const { near } = await through(t, kind, 'wrong')
      const answer = await sendRaw(near.port, `CONNECT localhost:80 HTTP/1.1\r\n${authorization}\r\n`)
      assert.match(answer, /^HTTP\/1\.1 502 .*X-Proxy-Error: exit_failed/s)
      assert.deepEqual(near.exits.outcomes, ['failed', 'failed', 'failed'])
    })

    test(`a proxy over ${kind} whose target refuses has not failed itself`, async (t) => {
      const { near } = await through(t, kind)
      const answer = await sendRaw(
        near.port,
        `CONNECT localhost:${await closedPort()} HTTP/1.1\r\n${authorization}\r\n`,
      )
      assert.match(answer, /^HTTP\/1\.1 502 .*X-Proxy-Error: target_/s)
      assert.deepEqual(near.exits.outcomes, ['connected'])
    })
  }

  test('a proxy over https with an untrusted certificate is not used', async (t) => {
    const { exit } = await through(t, 'https')
    const { port, exits } = await startGateway(t, { exit })
    assert.match(
      await sendRaw(port, `CONNECT localhost:80 HTTP/1.1\r\n${authorization}\r\n`),
      /^HTTP\/1\.1 502 /,
    )
    assert.equal(exits.outcomes[0], 'failed')
  })

  test('this machine dials from the local address of the exit', async (t) => {
    const peers: (string | undefined)[] = []
    const target = await tcpTarget(t, (socket) => {
      peers.push(socket.remoteAddress)
      socket.end()
    })
    const exit: Exit = { ...directExit, via: { kind: 'direct', localAddress: '127.0.0.9' } }
    const { port } = await startGateway(t, { exit })
    await (await connectBy(port, `127.0.0.1:${target}`)).rest()
    assert.deepEqual(peers, ['127.0.0.9'])
  })

  test('a local address that this machine does not have is a failure of the exit', async (t) => {
    const exit: Exit = { ...directExit, via: { kind: 'direct', localAddress: '203.0.114.200' } }
    const { port, exits } = await startGateway(t, { exit })
    assert.match(
      await sendRaw(port, `CONNECT 127.0.0.1:80 HTTP/1.1\r\n${authorization}\r\n`),
      /^HTTP\/1\.1 502 /,
    )
    assert.equal(exits.outcomes[0], 'failed')
  })

  test('an IPv6 prefix dials from one of its addresses, and reaches no IPv4 target', async (t) => {
    const peers: (string | undefined)[] = []
    const target = await tcpTarget(
      t,
      (socket) => {
        peers.push(socket.remoteAddress)
        socket.end()
      },
      '::1',
    )
    const exit: Exit = { ...directExit, via: { kind: 'prefix', prefix: '::1/128' } }
    const { port } = await startGateway(t, { exit })
    await (await connectBy(port, `[::1]:${target}`)).rest()
    assert.deepEqual(peers, ['::1'])
    assert.match(
      await sendRaw(port, `CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`),
      /^HTTP\/1\.1 502 .*target_unreachable/s,
    )
  })

  test('dedicated is dialled without using the pool', async (t) => {
    const { port, access, exits } = await startGateway(t)
    const target = await echoTarget(t)
    access.dedicated = { ...directExit, via: { kind: 'direct', localAddress: '127.0.0.7' } }
    exits.next = () => assert.fail('the pool was used')
    await connectBy(port, `127.0.0.1:${target}`)
  })
})

test('an address of a prefix is constant for a session and changes with each connection without one', () => {
  const prefix = '2001:db8:1:2::/64'
  assert.equal(addressOfPrefix(prefix, 'pln_1 a'), addressOfPrefix(prefix, 'pln_1 a'))
  assert.notEqual(addressOfPrefix(prefix, 'pln_1 a'), addressOfPrefix(prefix, 'pln_2 a'))
  const some = new Set(Array.from({ length: 100 }, () => addressOfPrefix(prefix, null)))
  assert.equal(some.size, 100)
  for (const address of some) assert.match(address, /^2001:db8:1:2:/)
  assert.equal(addressOfPrefix('2001:db8::7/128', null), '2001:db8::7')
  assert.match(addressOfPrefix('2001:db8:f0::/44', null), /^2001:db8:f[0-9a-f]:/)
})

describe('addresses of one name', () => {
  const race = (addresses: readonly string[], port: number, timeoutMs = 2_000) =>
    raceToSocket({
      onFault: (error) => assert.fail(String(error)),
      addresses,
      port,
      localAddress: null,
      timeoutMs,
      signal: new AbortController().signal,
    })

  test('alternate, IPv6 first, and are at most six', () => {
    assert.deepEqual(interleaveFamilies(['1.1.1.1', '2.2.2.2', '::1', '3.3.3.3']), [
      '::1',
      '1.1.1.1',
      '2.2.2.2',
      '3.3.3.3',
    ])
    assert.equal(interleaveFamilies(Array.from({ length: 50 }, (_, n) => `192.0.2.${n}`)).length, 6)
  })

  test('are tried at once when the first refuses', async (t) => {
    const target = await tcpTarget(t, (socket) => void socket.end())
    const { socket } = await race(['::1', '127.0.0.1'], target)
    assert.equal(socket.remoteAddress, '127.0.0.1')
    socket.destroy()
  })

  test('fail with the last failure when all refuse', async () => {
    await assert.rejects(race(['::1', '127.0.0.1'], await closedPort()), { code: 'ECONNREFUSED' })
  })

  test('are no longer tried when the client disconnects', async (t) => {
    const sleepy = await tcpTarget(t, () => undefined)
    const exit: Exit = {
      exitId: 'e',
      via: { kind: 'http', host: '127.0.0.1', port: sleepy, username: null, password: null },
      sandbox: true,
      udp: false,
    }
    const { port, access, gateway, exits } = await startGateway(t, { exit })
    const client = connect(port, '127.0.0.1')
    client.write(`CONNECT 127.0.0.1:80 HTTP/1.1\r\n${authorization}\r\n`)
    await until(() => exits.open === 1)
    client.resetAndDestroy()
    await until(() => access.open === 0 && gateway.connections === 0)
    assert.deepEqual(exits.outcomes, ['unused'], 'the exit neither failed nor worked')
    assert.deepEqual(access.closed, [{ error: 'client_reset', host: '127.0.0.1' }])
  })
})

describe('names', () => {
  test('are resolved once for all waiting clients, and again after their time to live', async () => {
    let lookups = 0
    let nowMs = 0
    const resolve = cachedResolve(
      async () => {
        lookups += 1
        return { addresses: ['192.0.2.1'], ttlSeconds: 10 }
      },
      () => nowMs,
    )
    await Promise.all(Array.from({ length: 20 }, () => resolve('a.example')))
    assert.equal(lookups, 1)
    nowMs = 9_999
    await resolve('a.example')
    assert.equal(lookups, 1)
    nowMs = 10_001
    await resolve('a.example')
    assert.equal(lookups, 2)
  })

  test('that do not exist are cached for 5 seconds, and a failure is not cached', async () => {
    let lookups = 0
    let nowMs = 0
    let code = 'ENOTFOUND'
    const resolve = cachedResolve(
      async () => {
        lookups += 1
        throw Object.assign(new Error('no'), { code })
      },
      () => nowMs,
    )
    await assert.rejects(resolve('a.example'))
    nowMs = 4_999
    await assert.rejects(resolve('a.example'))
    assert.equal(lookups, 1)
    nowMs = 5_001
    code = 'ETIMEOUT'
    await assert.rejects(resolve('a.example'))
    nowMs += 1
    await assert.rejects(resolve('a.example'))
    assert.equal(lookups, 3)
  })
})

describe('a policy file', () => {
  test('leaves the defaults for what it does not name', () => {
    assert.deepEqual(parseTargetPolicy('{}'), defaultTargetPolicy)
    assert.deepEqual([...parseTargetPolicy('{"blockedPorts":[]}').blockedPorts], [])
  })

  test('with a mistake is refused with the reason', () => {
    for (const [text, says] of [
      ['no', /must be JSON/],
      ['{"blockedPorts":[0]}', /blockedPorts\.0/],
      ['{"blockedHosts":["a b"]}', /blockedHosts\.0: a host name or an address/],
      ['{"ports":[25]}', /"ports"/],
    ] as const)
      assert.throws(() => parseTargetPolicy(text), says)
  })
})
