import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Denied, Exit } from '../../src/gateway/gateway-ports.ts'
import { parseTargetPolicy } from '../../src/gateway/targets.ts'
import { until } from '../support/until.ts'
import { authorization, basic, connectBy, sendRaw, socksTo, talkTo } from './support/clients.ts'
import { startGateway, type TestGateway } from './support/gateway.ts'
import { directExit, exhausted, plainLine } from './support/memory-ports.ts'
import { closedPort, echoTarget, httpTarget, tcpTarget } from './support/targets.ts'

type Expected = {
  readonly status: number
  readonly reason: string
  readonly error: string
  /** The error type of `Proxy-Status`; default: `http_request_denied`. */
  readonly proxyError?: string
  readonly socks: number
}

const parts = (answer: string) => {
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = new Map(
    lines.map((line) => {
      const [name = '', ...value] = line.split(': ')
      return [name.toLowerCase(), value.join(': ')] as const
    }),
  )
  return { first, headers, body }
}

/** Sends CONNECT and a plain request, and checks every part of the answers. */
const refusedOverHttp = async (
  { port, refusals, access, spending, lines }: TestGateway,
  target: string,
  { status, reason, error, proxyError = 'http_request_denied' }: Expected,
): Promise<ReadonlyMap<string, string>> => {
  let headers: ReadonlyMap<string, string> = new Map()
  for (const request of [
    `CONNECT ${target} HTTP/1.1\r\n${authorization}\r\n`,
    `GET http://${target}/ HTTP/1.1\r\n${authorization}\r\n`,
  ]) {
    const answer = parts(await sendRaw(port, request))
    assert.equal(answer.first, `HTTP/1.1 ${status} ${reason}`)
    assert.equal(answer.headers.get('x-proxy-error'), error)
    assert.equal(answer.headers.get('connection'), 'close')
    const body = JSON.parse(answer.body) as { error: string; requestId: string }
    assert.deepEqual(Object.keys(body), ['error', 'requestId'])
    assert.equal(answer.headers.get('x-proxy-detail'), body.error)
    assert.match(body.requestId, /^req_[0-9a-f]{32}$/)
    assert.equal(answer.headers.get('x-request-id'), body.requestId)
    assert.equal(answer.headers.get('x-proxy-request-id'), body.requestId)
    assert.equal(answer.headers.get('proxy-status'), `gateway; error=${proxyError}; details="${error}"`)
    assert.match(lines.at(-1)!, new RegExp(body.requestId), 'the log line has the request id')
    assert.equal(answer.headers.get('content-length'), String(Buffer.byteLength(answer.body)))
    assert.equal(refusals.at(-1), `${status} ${error}`)
    headers = answer.headers
  }
  assert.deepEqual(spending.taken, { up: 0, down: 0 }, 'a refusal costs nothing')
  assert.equal(access.open, 0)
  return headers
}

const refused = async (
  world: TestGateway,
  target: string,
  expected: Expected,
): Promise<ReadonlyMap<string, string>> => {
  const headers = await refusedOverHttp(world, target, expected)
  const [host = '', port = ''] = target.split(/:(?=\d+$)/)
  const { reply, talk } = await socksTo(world.port, host.replace(/^\[|\]$/g, ''), Number(port))
  assert.equal(reply, expected.socks)
  await talk.rest()
  assert.equal(world.access.open, 0)
  return headers
}

const denied = (status: Denied['status'], error: Denied['error']): Denied => ({
  denied: true,
  status,
  error,
  detail: `why it is ${status}`,
})

describe('who may connect:', () => {
  const wrong: Expected = {
    status: 407,
    reason: 'Proxy Authentication Required',
    error: 'wrong_credentials',
    socks: -1,
  }

  test('407 for a wrong password, with the authentication challenge, and status 1 of RFC 1929', async (t) => {
    const world = await startGateway(t)
    world.access.answer = () => denied(407, 'wrong_credentials')
    const headers = await refused(world, '127.0.0.1:1', wrong)
    assert.match(headers.get('proxy-authenticate') ?? '', /^Basic realm="/)
  })

  test('407 without credentials; a SOCKS5 client gets "no acceptable method"', async (t) => {
    const world = await startGateway(t)
    assert.match(await sendRaw(world.port, 'CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n'), /^HTTP\/1\.1 407 /)
    assert.match(await sendRaw(world.port, 'GET http://127.0.0.1/ HTTP/1.1\r\n\r\n'), /^HTTP\/1\.1 407 /)
    assert.equal((await socksTo(world.port, '127.0.0.1', 1, { user: null })).reply, -2)
    assert.ok(world.access.attempts.every(({ credentials }) => credentials === null))
  })

  test('407 for credentials that cannot be parsed', async (t) => {
    const { port } = await startGateway(t)
    for (const value of [
      'Bearer abc',
      'Basic',
      'Basic ?',
      `Basic ${Buffer.from('nocolon').toString('base64')}`,
    ])
      assert.match(
        await sendRaw(port, `CONNECT 127.0.0.1:1 HTTP/1.1\r\nProxy-Authorization: ${value}\r\n\r\n`),
        /^HTTP\/1\.1 407 /,
        value,
      )
  })

  test('a wrong password is reported before the target is checked', async (t) => {
    const { port } = await startGateway(t)
    const wrongWord = `Proxy-Authorization: ${basic('tester1', 'wrong')}\r\n`
    assert.match(await sendRaw(port, `GET ftp://127.0.0.1/ HTTP/1.1\r\n${wrongWord}\r\n`), /^HTTP\/1\.1 407 /)
    assert.match(await sendRaw(port, `CONNECT 10.0.0.1:25 HTTP/1.1\r\n${wrongWord}\r\n`), /^HTTP\/1\.1 407 /)
  })

  for (const [status, reason, error, socks] of [
    [403, 'Targeting Not Accepted', 'targeting_refused', 2],
    [466, 'Traffic Used Up', 'traffic_exhausted', 2],
    [467, 'Session Limit Used Up', 'session_limit_reached', 2],
    [503, 'Service Unavailable', 'too_many_connections', 1],
  ] as const)
    test(`${status} when admission returns it`, async (t) => {
      const world = await startGateway(t)
      world.access.answer = () => denied(status, error)
      await refused(world, '127.0.0.1:1', { status, reason, error, socks })
    })

  test('503 with Retry-After when admission gives a time', async (t) => {
    const world = await startGateway(t)
    world.access.answer = () => ({ ...denied(503, 'too_many_connections'), retryAfterSeconds: 3 })
    const expected = { status: 503, reason: 'Service Unavailable', error: 'too_many_connections', socks: 1 }
    assert.equal((await refused(world, '127.0.0.1:1', expected)).get('retry-after'), '3')
  })

  test('503 when admission fails', async (t) => {
    const world = await startGateway(t)
    world.access.answer = () => {
      throw new Error('no Postgres')
    }
    const expected = {
      status: 503,
      reason: 'Service Unavailable',
      error: 'gateway_unavailable',
      proxyError: 'proxy_internal_error',
      socks: 1,
    }
    assert.equal((await refused(world, '127.0.0.1:1', expected)).get('retry-after'), '5')
  })
})

describe('which targets are allowed:', () => {
  const blocked: Expected = { status: 464, reason: 'Target Blocked', error: 'target_blocked', socks: 2 }
  const strict = { exit: { ...directExit, sandbox: false } }

  for (const target of [
    '127.0.0.1:80',
    '10.1.2.3:80',
    '172.16.0.1:80',
    '192.168.1.1:80',
    '169.254.169.254:80',
    '100.64.0.1:80',
    '0.0.0.0:80',
    '224.0.0.1:80',
    '240.0.0.1:80',
    '255.255.255.255:80',
    '168.63.129.16:80',
    '[::1]:80',
    '[::]:80',
    '[fe80::1]:80',
    '[fd00::1]:80',
    '[::ffff:127.0.0.1]:80',
    '[::ffff:a00:1]:80',
    '[64:ff9b::a00:1]:80',
    '[2002:a00:1::1]:80',
  ])
    test(`464 for ${target}`, async (t) => refusedAddress(await startGateway(t, strict), target))
  const refusedAddress = async (world: TestGateway, target: string): Promise<void> => {
    await refused(world, target, blocked)
  }

  test('464 for a name that resolves to a private address, even together with a public one', async (t) => {
    for (const addresses of [['10.0.0.1'], ['203.0.114.7', '127.0.0.1'], ['fd00::1']])
      await refused(
        await startGateway(t, { ...strict, lookup: async () => ({ addresses, ttlSeconds: 60 }) }),
        'rebound.example.com:80',
        blocked,
      )
  })

  test('464 for localhost through exits that resolve names', async (t) => {
    const via = { kind: 'socks5', host: '127.0.0.1', port: 1, username: null, password: null } as const
    const exit: Exit = { exitId: 'e', via, sandbox: false, udp: false }
    await refused(await startGateway(t, { exit }), 'localhost:80', blocked)
    await refused(await startGateway(t, { exit }), '10.0.0.1:80', blocked)
  })

  for (const port of [25, 465, 587, 445])
    test(`464 for port ${port}`, async (t) => refusedAddress(await startGateway(t), `203.0.114.7:${port}`))

  test('464 for hosts of the policy file and all their subdomains', async (t) => {
    const policy = parseTargetPolicy('{"blockedHosts": ["Example.com", "203.0.114.9"], "blockedPorts": []}')
    const lookup = async () => ({ addresses: ['203.0.114.9'], ttlSeconds: 60 })
    await refused(await startGateway(t, { policy }), 'example.com:80', blocked)
    await refused(await startGateway(t, { policy }), 'WWW.Example.COM.:80', blocked)
    await refused(await startGateway(t, { policy }), '203.0.114.9:80', blocked)
    await refused(await startGateway(t, { policy, lookup }), 'elsewhere.example.org:80', blocked)
  })

  test('464 for the gateway itself', async (t) => {
    const world = await startGateway(t)
    await refused(world, `127.0.0.1:${world.port}`, blocked)
  })

  test('464 for BIND, which SOCKS5 answers with 2', async (t) => {
    const world = await startGateway(t)
    assert.equal((await socksTo(world.port, '127.0.0.1', 80, { command: 2 })).reply, 2)
    assert.deepEqual(world.refusals, ['464 target_blocked'])
    assert.equal(world.access.open, 0)
  })

  test('464 for a scheme other than http', async (t) => {
    const { port, refusals } = await startGateway(t)
    for (const scheme of ['https', 'ftp', 'wss']) {
      const answer = await sendRaw(port, `GET ${scheme}://127.0.0.1/ HTTP/1.1\r\n${authorization}\r\n`)
      assert.match(answer, /^HTTP\/1\.1 464 Target Blocked\r\n/)
    }
    assert.deepEqual(refusals, Array(3).fill('464 target_blocked'))
  })

  test('a target that is neither a name nor an address is a bad request, and unreachable in SOCKS5', async (t) => {
    const { port } = await startGateway(t)
    for (const target of [
      '127.1:80',
      '0x7f.0.0.1:80',
      '2130706433:80',
      'a b:80',
      'host:0',
      'host:65536',
      'host',
      '[127.0.0.1]:80',
      '::1:80',
      '[fe80::1%eth0]:80',
      '\u00e4 b:80',
    ])
      assert.match(
        await sendRaw(port, `CONNECT ${target} HTTP/1.1\r\n${authorization}\r\n`),
        /^HTTP\/1\.1 400 /,
        target,
      )
    assert.equal((await socksTo(port, '127.1', 80)).reply, 4)
    assert.equal((await socksTo(port, 'host', 0)).reply, 4)
  })
})

describe('which exit:', () => {
  test('465 when no exit matches', async (t) => {
    const world = await startGateway(t)
    world.exits.next = () => denied(465, 'no_exit')
    await refused(world, '127.0.0.1:80', {
      status: 465,
      reason: 'No Exit Matches',
      error: 'no_exit',
      proxyError: 'destination_unavailable',
      socks: 3,
    })
  })

  test('503 when all exits are at their capacity', async (t) => {
    const world = await startGateway(t)
    world.exits.next = () => ({ ...denied(503, 'exits_full'), retryAfterSeconds: 2 })
    await refused(world, '127.0.0.1:80', {
      status: 503,
      reason: 'Service Unavailable',
      error: 'exits_full',
      proxyError: 'connection_limit_reached',
      socks: 1,
    })
  })

  const broken = async (): Promise<Exit> => ({
    exitId: 'exit_broken',
    via: { kind: 'socks5', host: '127.0.0.1', port: await closedPort(), username: null, password: null },
    sandbox: true,
    udp: false,
  })

  test('568 when the pinned exit of a session fails three times', async (t) => {
    const world = await startGateway(t, { exit: await broken() })
    world.access.line = { ...plainLine, session: { id: 's1', lifetimeMinutes: 10 } }
    await refused(world, '127.0.0.1:80', {
      status: 568,
      reason: 'Session Exit Failed',
      error: 'session_failed',
      proxyError: 'destination_unavailable',
      socks: 1,
    })
    assert.deepEqual(world.exits.outcomes, Array(9).fill('failed'))
  })

  test('568 when the pool reports that the pinned exit fails', async (t) => {
    const world = await startGateway(t)
    world.exits.next = () => denied(568, 'session_failed')
    await refused(world, '127.0.0.1:80', {
      status: 568,
      reason: 'Session Exit Failed',
      error: 'session_failed',
      proxyError: 'destination_unavailable',
      socks: 1,
    })
  })

  test('502 when every tried exit fails; without a session the next one is tried', async (t) => {
    const world = await startGateway(t, { exit: await broken() })
    await refused(world, '127.0.0.1:80', {
      status: 502,
      reason: 'Bad Gateway',
      error: 'exit_failed',
      proxyError: 'destination_unavailable',
      socks: 4,
    })
    const target = await echoTarget(t)
    let tries = 0
    const failing = await broken()
    world.exits.next = () => (tries++ < 2 ? failing : directExit)
    await connectBy(world.port, `127.0.0.1:${target}`)
    assert.deepEqual(world.exits.outcomes.slice(-3), ['failed', 'failed', 'connected'])
  })

  test('a fallback to the country and the remaining minutes of a session are returned in headers', async (t) => {
    const { port, exits } = await startGateway(t)
    exits.fallback = true
    exits.stickyMinutesLeft = 7
    const { port: target } = await httpTarget(t, (_, response) => void response.end('ok'))
    const plain = await talkTo(port)
    plain.write(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
    const tunnel = await talkTo(port)
    tunnel.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
    for (const talk of [plain, tunnel]) {
      const head = await talk.until('\r\n\r\n')
      assert.match(head, /^HTTP\/1\.1 200 /)
      assert.match(head, /\r\nX-Proxy-Fallback: country\r\n/)
      assert.match(head, /\r\nX-Proxy-Session-Minutes: 7\r\n/)
    }
  })
})

describe('a response that is no refusal', () => {
  test('has Proxy-Status without an error, and a request id; each request of a connection has its own', async (t) => {
    const { port } = await startGateway(t)
    const { port: target } = await httpTarget(t, (_, response) => void response.end('ok'))
    const plain = await talkTo(port)
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      plain.write(`GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
      const { headers } = parts(await plain.until('\r\n\r\nok'))
      assert.equal(headers.get('proxy-status'), 'gateway')
      ids.push(headers.get('x-proxy-request-id')!)
    }
    assert.match(ids[0]!, /^req_[0-9a-f]{32}$/)
    assert.deepEqual(ids.slice(1), [`${ids[0]}.2`, `${ids[0]}.3`])
    plain.write(`GET http://127.0.0.1:25/ HTTP/1.1\r\n${authorization}\r\n`)
    assert.match(await plain.until('\r\n\r\n'), new RegExp(`\r\nX-Proxy-Request-Id: ${ids[0]}\\.4\r\n`))
    const tunnel = await talkTo(port)
    tunnel.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
    const connected = parts(await tunnel.until('\r\n\r\n'))
    assert.equal(connected.headers.get('proxy-status'), 'gateway')
    assert.match(connected.headers.get('x-proxy-request-id')!, /^req_[0-9a-f]{32}$/)
    assert.ok(!ids.includes(connected.headers.get('x-proxy-request-id')!))
  })

  test("keeps the target's own X-Request-Id", async (t) => {
    const { port } = await startGateway(t)
    const { port: target } = await httpTarget(t, (_, response) => {
      response.setHeader('X-Request-Id', 'of-the-target')
      response.end('ok')
    })
    const request = `GET http://127.0.0.1:${target}/ HTTP/1.1\r\nConnection: close\r\n${authorization}\r\n`
    const { headers } = parts(await sendRaw(port, request))
    assert.equal(headers.get('x-request-id'), 'of-the-target')
    assert.match(headers.get('x-proxy-request-id')!, /^req_/)
  })
})

describe('how the target answers:', () => {
  test('502 when it refuses, without blaming the exit', async (t) => {
    const world = await startGateway(t)
    await refused(world, `127.0.0.1:${await closedPort()}`, {
      status: 502,
      reason: 'Bad Gateway',
      error: 'target_refused',
      proxyError: 'connection_refused',
      socks: 5,
    })
    assert.deepEqual(world.exits.outcomes, Array(3).fill('connected'))
  })

  test('502 when its name does not exist', async (t) => {
    const lookup = async (): Promise<never> => {
      throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
    }
    const world = await startGateway(t, { lookup })
    await refused(world, 'nowhere.example.com:80', {
      status: 502,
      reason: 'Bad Gateway',
      error: 'host_not_found',
      proxyError: 'dns_error',
      socks: 4,
    })
  })

  test('504 when its name server does not answer', async (t) => {
    const lookup = async (): Promise<never> => {
      throw Object.assign(new Error('too slow'), { code: 'ETIMEOUT' })
    }
    const world = await startGateway(t, { lookup })
    await refused(world, 'slow.example.com:80', {
      status: 504,
      reason: 'Gateway Timeout',
      error: 'dns_timeout',
      proxyError: 'dns_timeout',
      socks: 6,
    })
  })

  test('504 when the exit accepts and the target does not answer through it in time', async (t) => {
    const silent = await tcpTarget(t, () => undefined)
    const via = { kind: 'http', host: '127.0.0.1', port: silent, username: null, password: null } as const
    const exit: Exit = { exitId: 'e', via, sandbox: true, udp: false }
    const world = await startGateway(t, { exit, limits: { dialMs: 100 } })
    await refused(world, '127.0.0.1:80', {
      status: 504,
      reason: 'Gateway Timeout',
      error: 'target_timeout',
      proxyError: 'connection_timeout',
      socks: 6,
    })
    assert.deepEqual(world.exits.outcomes, Array(3).fill('connected'))
  })

  const badAnswers: readonly (readonly [string, string])[] = [
    ['target_closed', ''],
    ['bad_response', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['bad_response', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx'],
    ['bad_response', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
    ['bad_response', `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(270_000)}\r\n\r\n`],
  ]
  for (const [error, answer] of badAnswers)
    test(`502 ${error} for ${JSON.stringify(answer.slice(0, 80))} in answer to a plain request`, async (t) => {
      const { port, access } = await startGateway(t)
      const target = await tcpTarget(t, (socket) =>
        socket.once('data', () => void (answer === '' ? socket.end() : socket.write(answer))),
      )
      const got = parts(
        await sendRaw(port, `GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`),
      )
      assert.equal(got.first, 'HTTP/1.1 502 Bad Gateway')
      assert.equal(got.headers.get('x-proxy-error'), error)
      const proxyError = error === 'target_closed' ? 'connection_terminated' : 'http_protocol_error'
      assert.equal(got.headers.get('proxy-status'), `gateway; error=${proxyError}; details="${error}"`)
      assert.deepEqual(
        access.closed.map((each) => each.error),
        [error],
      )
    })

  test('504 when a plain request is not answered within the idle time', async (t) => {
    const { port } = await startGateway(t, { limits: { idleMs: 100 } })
    const target = await tcpTarget(t, () => undefined)
    const answer = await sendRaw(port, `GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
    assert.match(answer, /^HTTP\/1\.1 504 Gateway Timeout\r\n/)
    assert.match(
      answer,
      /\r\nProxy-Status: gateway; error=http_response_timeout; details="target_timeout"\r\n/,
    )
  })
})

describe('running connections:', () => {
  const used: Expected = { status: 466, reason: 'Traffic Used Up', error: 'traffic_exhausted', socks: 2 }

  test('466 for the next request when the plan is used up, and none after a top-up', async (t) => {
    const { port, access, spending } = await startGateway(t, { budget: 0 })
    const { port: target } = await httpTarget(t, (_, response) => void response.end('ok'))
    const request = `GET http://127.0.0.1:${target}/ HTTP/1.1\r\nConnection: close\r\n${authorization}\r\n`
    const answer = parts(await sendRaw(port, request))
    assert.equal(answer.first, `HTTP/1.1 ${used.status} ${used.reason}`)
    assert.equal(answer.headers.get('x-proxy-error'), used.error)
    assert.deepEqual(spending.taken, { up: 0, down: 0 })
    spending.topUp(1_000_000)
    assert.match(await sendRaw(port, request), /^HTTP\/1\.1 200 /)
    await until(() => access.open === 0)
  })

  test('a tunnel is cut when its plan ends, and its end is reported with the reason', async (t) => {
    const { port, access, spending } = await startGateway(t)
    const target = await echoTarget(t)
    const http = await connectBy(port, `127.0.0.1:${target}`)
    const { talk: socks } = await socksTo(port, '127.0.0.1', target)
    spending.end(exhausted)
    await Promise.all([http.rest(), socks.rest()])
    await until(() => access.open === 0)
    assert.deepEqual(
      access.closed.map(({ error }) => error),
      ['traffic_exhausted', 'traffic_exhausted'],
    )
  })

  test('a running plain request when its plan ends gets the code if its answer has not begun', async (t) => {
    const { port, spending } = await startGateway(t)
    const target = await tcpTarget(t, (socket) => socket.once('data', () => spending.end(exhausted)))
    const answer = await sendRaw(port, `GET http://127.0.0.1:${target}/ HTTP/1.1\r\n${authorization}\r\n`)
    assert.match(answer, /^HTTP\/1\.1 466 /)
  })

  test("503 with Retry-After for a connection above the gateway's limit", async (t) => {
    const { port, refusals } = await startGateway(t, { limits: { connections: 20 } })
    const target = await echoTarget(t)
    for (let n = 0; n < 20; n++) await connectBy(port, `127.0.0.1:${target}`)
    const answer = parts(await sendRaw(port, `CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`))
    assert.equal(answer.first, 'HTTP/1.1 503 Service Unavailable')
    assert.equal(answer.headers.get('x-proxy-error'), 'gateway_full')
    assert.equal(answer.headers.get('retry-after'), '5')
    assert.equal((await socksTo(port, '127.0.0.1', target)).reply, -2)
    assert.deepEqual(refusals, ['503 gateway_full', '503 gateway_full'])
  })

  test('a log line contains neither target nor password nor user', async (t) => {
    const { port, lines } = await startGateway(t)
    await sendRaw(port, `CONNECT secret-target.example:25 HTTP/1.1\r\n${authorization}\r\n`)
    await sendRaw(
      port,
      `CONNECT secret-target.example:25 HTTP/1.1\r\nProxy-Authorization: ${basic('tester1', 'hidden9')}\r\n\r\n`,
    )
    assert.equal(lines.length, 2)
    for (const line of lines) assert.doesNotMatch(line, /secret-target|tester1|secret1|hidden9/)
  })
})
