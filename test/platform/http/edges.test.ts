import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { describe, test } from 'node:test'
import { documentationRoutes } from '../../../src/platform/api-docs/routes.ts'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import { LogUnavailable, OutcomeUnknown } from '../../../src/platform/eventstore/errors.ts'
import { answerBrokenRequest } from '../../../src/platform/http/answer.ts'
import { createHangUp, createPendingResponses } from '../../../src/platform/http/connections.ts'
import { sampleDirectory, sampleRoutes, sampleServer } from './sample.ts'

/** Sends bytes and gives all that comes back until the server hangs up. */
const raw = async (port: number, bytes: string): Promise<string> => {
  const socket = connect(port, '127.0.0.1')
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.write(bytes, 'latin1')
  await once(socket, 'close')
  return Buffer.concat(chunks).toString('latin1')
}

const failing = (error: unknown) => [
  ...sampleRoutes.filter(({ operationId }) => operationId !== 'getMe'),
  {
    ...sampleRoutes.find(({ operationId }) => operationId === 'getMe')!,
    handler: async () => {
      throw error
    },
  },
]

describe('Paths and methods', () => {
  test('that do not exist answer 404 in the form of every error, with or without a key', async (t) => {
    const { client } = await sampleServer(t)
    for (const path of [
      '/',
      '/api/v1/nothing',
      '/api/v1/nothing/',
      '//api/v1/orders/',
      '/api/v1/orders/a/b',
      '/api/v1/orders/%ff',
      '/api/v1/orders/%',
    ]) {
      const { code, error } = (await client.get(path)).body
      const expected = { code: 'not_found', error: 'nothing has this path; /docs shows what there is' }
      assert.deepEqual({ code, error }, expected, path)
    }
    const posted = await client.call('POST', '/nowhere', {
      raw: '{',
      headers: { 'content-type': 'text/plain' },
    })
    assert.equal(posted.body.code, 'not_found')
  })

  test('with trailing slashes are redirected to the path, with method, body and query', async (t) => {
    const { client, baseUrl } = await sampleServer(t)
    const sentTo = async (method: string, path: string) => {
      const { status, headers } = await fetch(`${baseUrl}${path}`, { method, redirect: 'manual' })
      assert.notEqual(headers.get('x-request-id'), null)
      return [status, headers.get('location')]
    }
    assert.deepEqual(await sentTo('GET', '/api/v1/orders/?limit=1&a=b?c'), [
      308,
      '/api/v1/orders?limit=1&a=b?c',
    ])
    assert.deepEqual(await sentTo('POST', '/api/v1/orders//'), [308, '/api/v1/orders'])
    assert.deepEqual(await sentTo('GET', '/api/v1/orders/ord_%31/'), [308, '/api/v1/orders/ord_%31'])
    assert.deepEqual(await sentTo('PUT', '/api/v1/orders/'), [308, '/api/v1/orders'])
    const json = { product_id: 'residential', quantity: 5 }
    const placed = await client.post('/api/v1/orders/', json, { key: 'buyer-key' })
    assert.deepEqual([placed.status, placed.body.quantity], [201, 5])
    assert.equal((await client.get('/api/v1/orders/?limit=2', { key: 'buyer-key' })).body.limit, 2)
  })

  test('answer 405 with the methods of the path', async (t) => {
    const { client } = await sampleServer(t)
    const { status, body, headers } = await client.call('PUT', '/api/v1/orders')
    assert.deepEqual(
      [status, body.code, headers.get('allow')],
      [405, 'method_not_allowed', 'POST, GET, HEAD, OPTIONS'],
    )
    assert.equal(
      (await client.call('PATCH', '/api/v1/orders/ord_1')).headers.get('allow'),
      'GET, DELETE, HEAD, OPTIONS',
    )
  })

  test('name the methods of every pattern that a path matches', async (t) => {
    const archive = {
      ...sampleRoutes.find(({ operationId }) => operationId === 'getMe')!,
      method: 'PUT' as const,
      path: '/api/v1/orders/archive',
    }
    const { client } = await sampleServer(t, { routes: [...sampleRoutes, archive] })
    for (const method of ['OPTIONS', 'PATCH'])
      assert.equal(
        (await client.call(method, '/api/v1/orders/archive')).headers.get('allow'),
        'GET, DELETE, PUT, HEAD, OPTIONS',
        method,
      )
  })

  test('answer OPTIONS without a key, and allow CORS only where no key is used', async (t) => {
    const { client } = await sampleServer(t)
    const closed = await client.call('OPTIONS', '/api/v1/orders')
    assert.deepEqual([closed.status, closed.headers.get('allow')], [204, 'POST, GET, HEAD, OPTIONS'])
    assert.equal(closed.headers.get('access-control-allow-origin'), null)
    const open = await client.call('OPTIONS', '/api/proxy-list')
    assert.equal(open.headers.get('access-control-allow-origin'), '*')
    assert.equal(open.headers.get('access-control-allow-headers'), '*, authorization')
    assert.equal(open.headers.get('access-control-expose-headers'), '*')
    assert.equal((await client.get('/api/proxy-list')).headers.get('access-control-allow-origin'), '*')
  })

  test('answer HEAD as GET without the body', async (t) => {
    const { client } = await sampleServer(t)
    const { status, text, headers } = await client.call('HEAD', '/api/v1/me', { key: 'buyer-key' })
    assert.deepEqual([status, text], [200, ''])
    assert.equal(headers.get('content-length'), String('{"email":"buyer@example.com"}\n'.length))
    assert.equal((await client.call('HEAD', '/api/v1/me')).status, 401)
  })
})

describe('Keys', () => {
  test('are accepted from either header, and from both when they agree', async (t) => {
    const { client } = await sampleServer(t)
    const headersOf = [
      { 'x-api-key': 'buyer-key' },
      { authorization: 'Bearer buyer-key' },
      { authorization: 'bearer  buyer-key' },
      { 'x-api-key': 'buyer-key', authorization: 'Bearer buyer-key' },
      { 'x-api-key': 'buyer-key', authorization: 'Basic abc' },
    ]
    for (const headers of headersOf) assert.equal((await client.get('/api/v1/me', { headers })).status, 200)
  })

  test('are refused when missing, unknown, malformed or two different ones', async (t) => {
    const { client } = await sampleServer(t)
    const headersOf: Record<string, string>[] = [
      {},
      { 'x-api-key': 'unknown' },
      { 'x-api-key': '' },
      { authorization: 'buyer-key' },
      { authorization: 'Basic buyer-key' },
      { 'x-api-key': 'buyer-key', authorization: 'Bearer reseller-key' },
    ]
    for (const headers of headersOf)
      assert.equal(
        (await client.get('/api/v1/me', { headers })).body.code,
        'unauthorized',
        JSON.stringify(headers),
      )
  })

  test('are ignored by keyless operations, even wrong ones', async (t) => {
    const { client } = await sampleServer(t)
    assert.equal((await client.get('/api/proxy-list', { key: 'unknown' })).status, 200)
  })

  test('allow a blocked account to read', async (t) => {
    const { client } = await sampleServer(t)
    assert.equal((await client.get('/api/v1/orders', { key: 'blocked-key' })).status, 200)
  })
})

describe('Request ids', () => {
  test('are accepted from the client in the safe form, else generated, and returned everywhere', async (t) => {
    const { client } = await sampleServer(t)
    const idOf = async (sent: string) =>
      (await client.get('/api/v1/me', { headers: { 'x-request-id': sent } })).headers.get('x-request-id')
    assert.equal(await idOf('trace.1:a_b-c'), 'trace.1:a_b-c')
    for (const bad of ['has space', 'x'.repeat(129), 'a/b', 'fbx_a-key-sent-by-mistake'])
      assert.match((await idOf(bad)) ?? '', /^req_[0-9a-f]{32}$/)
  })

  test('of scraper calls are accepted unchanged or refused, never replaced', async (t) => {
    const { client } = await sampleServer(t)
    const scrape = (id: string) =>
      client.post(
        '/v1/scrape/video',
        { handle: 'a' },
        { key: 'scraper-key', headers: { 'x-request-id': id } },
      )
    const taken = await scrape('my call / 7')
    assert.deepEqual([taken.body.id, taken.headers.get('x-request-id')], ['my call / 7', 'my call / 7'])
    const refused = await scrape('x'.repeat(129))
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.details],
      [400, 'bad_input', 'X-Request-Id'],
    )
  })
})

describe('Bodies', () => {
  test('are accepted up to 256 KiB and refused above, also without a declared length', async (t) => {
    const { client, port } = await sampleServer(t)
    const sized = (bytes: number) => {
      const [head, tail] = ['{"product_id":"a","quantity":1', '}']
      return `${head}${' '.repeat(bytes - head.length - tail.length)}${tail}`
    }
    const headers = { 'content-type': 'application/json' }
    const call = (body: string) =>
      client.call('POST', '/api/v1/orders', { key: 'buyer-key', raw: body, headers })
    assert.equal((await call(sized(262_144))).status, 201)
    assert.equal((await call(sized(262_145))).body.code, 'payload_too_large')
    const chunk = `${(300_000).toString(16)}\r\n${sized(300_000)}\r\n0\r\n\r\n`
    const chunked = await raw(
      port,
      `POST /api/v1/orders HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n${chunk}`,
    )
    assert.match(chunked, /^HTTP\/1\.1 413 [\s\S]*"payload_too_large"/)
  })

  test('of another content type, charset or encoding are 415', async (t) => {
    const { client } = await sampleServer(t)
    const types: Record<string, string>[] = [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'application/json; charset=utf-16' },
      { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      { 'content-type': 'nonsense' },
    ]
    for (const headers of types) {
      const { body } = await client.call('POST', '/api/v1/orders', { key: 'buyer-key', raw: '{}', headers })
      assert.equal(body.code, 'unsupported_media_type', JSON.stringify(headers))
      assert.match(body.error, /application\/json in UTF-8, without a Content-Encoding/)
    }
    const raw = '{"product_id":"a","quantity":1}'
    const fine: Record<string, string>[] = [
      { 'content-type': 'Application/JSON; charset=UTF-8' },
      { 'content-type': 'application/json; charset=utf8' },
      { 'content-type': 'application/json; charset="US-ASCII"' },
      { 'content-type': 'application/json', 'content-encoding': 'Identity' },
    ]
    for (const headers of fine)
      assert.equal(
        (await client.call('POST', '/api/v1/orders', { key: 'buyer-key', raw, headers })).status,
        201,
        JSON.stringify(headers),
      )
  })

  test('are read whatever else a client expects', async (t) => {
    const { port } = await sampleServer(t)
    const body = '{"product_id":"a","quantity":1}'
    const order = (expectation: string): Promise<string> =>
      raw(
        port,
        `POST /api/v1/orders HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nexpect: ${expectation}\r\nconnection: close\r\n\r\n${body}`,
      )
    assert.match(await order('100-continue'), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 /)
    assert.match(await order('200-ok'), /^HTTP\/1\.1 201 [\s\S]*x-request-id/)
  })

  test('that are missing show the expected form', async (t) => {
    const { client } = await sampleServer(t)
    const { body } = await client.call('POST', '/api/v1/orders', { key: 'buyer-key' })
    assert.equal(body.code, 'invalid_body')
    assert.match(body.error, /expected shape/)
  })
})

describe('Faults', () => {
  test('of a handler are 500 internal_error with the request id, logged and not shown', async (t) => {
    const lines: string[] = []
    const { createLogger } = await import('../../../src/platform/http/logging.ts')
    const logger = createLogger('info', { write: (line) => void lines.push(line) })
    const { baseUrl } = await sampleServer(t, { routes: failing(new Error('the secret detail')), logger })
    const response = await fetch(`${baseUrl}/api/v1/me`, {
      headers: { 'x-api-key': 'buyer-key', 'x-request-id': 'r1' },
    })
    const body = (await response.json()) as Record<string, unknown>
    assert.deepEqual([response.status, body.code, body.requestId], [500, 'internal_error', 'r1'])
    assert.ok(!JSON.stringify(body).includes('secret'))
    const logged = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'a handler failed')
    assert.deepEqual([logged.requestId, logged.err.message], ['r1', 'the secret detail'])
  })

  test('that are temporary are 503 with Retry-After', async (t) => {
    const { client } = await sampleServer(t, { routes: failing(new CommandOverload('the log is away', 1.2)) })
    const { status, body, headers } = await client.get('/api/v1/me', { key: 'buyer-key' })
    assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'overloaded', '2'])
  })

  test('of the database are 503 if they are temporary, and 500 if they are bugs', async (t) => {
    const coded = (code: string) => Object.assign(new Error('x'), { code })
    const outages = [
      new LogUnavailable('away'),
      new OutcomeUnknown('lost'),
      new Error('Connection terminated unexpectedly'),
      ...['ECONNREFUSED', 'ECONNRESET', '57P01', '53300', '57014', '08006', '42P01', '42703'].map(coded),
    ]
    for (const error of outages) {
      const { client } = await sampleServer(t, { routes: failing(error) })
      assert.equal(
        (await client.get('/api/v1/me', { key: 'buyer-key' })).body.code,
        'overloaded',
        String(error),
      )
    }
    for (const error of [coded('42601'), coded('23505'), new TypeError('x'), 'a text', null, undefined]) {
      const { baseUrl } = await sampleServer(t, { routes: failing(error) })
      const response = await fetch(`${baseUrl}/api/v1/me`, { headers: { 'x-api-key': 'buyer-key' } })
      assert.equal(((await response.json()) as { code: string }).code, 'internal_error', String(error))
    }
  })

  test('of the directory are not 401', async (t) => {
    const directory = {
      byKey: async () => {
        throw new CommandOverload('the database is away', 1)
      },
    }
    const { client } = await sampleServer(t, { directory })
    assert.equal((await client.get('/api/v1/me', { key: 'buyer-key' })).body.code, 'overloaded')
  })

  test('shed load above the number of running requests, and accept the next one afterwards', async (t) => {
    const gate = Promise.withResolvers<void>()
    const directory = {
      byKey: async (key: string, address: string) => {
        await gate.promise
        return sampleDirectory.byKey(key, address)
      },
    }
    const { client } = await sampleServer(t, { directory, maxInFlight: 2 })
    const held = [1, 2].map(() => client.get('/api/v1/me', { key: 'buyer-key' }))
    const shed = client.get('/api/v1/me', { key: 'buyer-key' })
    const first = await Promise.race([...held, shed])
    assert.equal(first.body.code, 'overloaded')
    gate.resolve()
    assert.deepEqual((await Promise.all(held)).map(({ status }) => status).sort(), [200, 200])
    assert.equal((await client.get('/api/v1/me', { key: 'buyer-key' })).status, 200)
  })
})

describe('Bytes that are not a request', () => {
  test('are answered in the form of every error', async (t) => {
    const { port } = await sampleServer(t)
    const broken = [
      'nonsense\r\n\r\n',
      'GET / HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n',
      'GET /\u0000 HTTP/1.1\r\nhost: a\r\n\r\n',
    ]
    for (const bytes of broken) {
      const answer = await raw(port, bytes)
      assert.match(
        answer,
        /^HTTP\/1\.1 400 [\s\S]*"code":"invalid_parameter","requestId":"req_/,
        JSON.stringify(bytes),
      )
    }
    const long = await raw(port, `GET / HTTP/1.1\r\nhost: a\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`)
    assert.match(long, /^HTTP\/1\.1 431 Request Header Fields Too Large\r\n[\s\S]*"code":"invalid_parameter"/)
  })

  test('that are incomplete are answered as too late', async (t) => {
    const late = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
    const server = createServer((socket) =>
      answerBrokenRequest(createHangUp(1_000), createPendingResponses())(late, socket),
    ).listen(0, '127.0.0.1')
    t.after(() => server.close())
    await once(server, 'listening')
    const answer = await raw((server.address() as AddressInfo).port, 'GET / HTTP/1.1\r\nhost: a\r\n')
    assert.match(
      answer,
      /^HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*"code":"invalid_parameter","requestId":"req_/,
    )
  })

  test('that lack a Host are refused in the form of every error', async (t) => {
    const { port } = await sampleServer(t)
    const answer = await raw(
      port,
      'GET /api/v1/me HTTP/1.1\r\nx-api-key: buyer-key\r\nconnection: close\r\n\r\n',
    )
    assert.match(
      answer,
      /^HTTP\/1\.1 400 [\s\S]*x-request-id: (\S+)[\s\S]*Host[\s\S]*"invalid_parameter","requestId":"\1"/,
    )
    const old = await raw(port, 'GET /api/v1/me HTTP/1.0\r\nx-api-key: buyer-key\r\n\r\n')
    assert.match(old, /^HTTP\/1\.1 200 /)
  })

  test('that contain the service or the caller twice are refused, even if both are the same', async (t) => {
    const { port } = await sampleServer(t)
    const ask = (...lines: string[]): Promise<string> =>
      raw(port, `GET /api/v1/me HTTP/1.1\r\n${lines.join('\r\n')}\r\nconnection: close\r\n\r\n`)
    const key = 'x-api-key: buyer-key'
    const bearer = 'authorization: Bearer buyer-key'
    assert.match(await ask('host: a', key, bearer), /^HTTP\/1\.1 200 /)
    for (const [name, lines] of [
      ['host', ['host: a', 'Host: b', key]],
      ['host', ['host: a', 'host: a', key]],
      ['authorization', ['host: a', bearer, 'Authorization: Bearer reseller-key']],
      ['authorization', ['host: a', key, bearer, bearer]],
      ['x-api-key', ['host: a', key, 'X-API-Key: reseller-key']],
      ['x-api-key', ['host: a', key, key]],
    ] as const)
      assert.match(
        await ask(...lines),
        new RegExp(`^HTTP/1\\.1 400 [\\s\\S]*the header ${name} twice","code":"invalid_parameter"`),
        lines.join(),
      )
  })

  test('whose length is not the declared one are refused', async (t) => {
    const { port } = await sampleServer(t)
    const head =
      'POST /api/v1/orders HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\ncontent-type: application/json\r\n'
    const both = await raw(port, `${head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`)
    assert.match(both, /^HTTP\/1\.1 400 /)
  })

  test('with two idempotency keys count as without a key', async (t) => {
    const { port } = await sampleServer(t)
    const body = '{"product_id":"a","quantity":1}'
    const answer = await raw(
      port,
      `POST /api/v1/orders HTTP/1.1\r\nhost: a\r\nx-api-key: buyer-key\r\ncontent-type: application/json\r\nidempotency-key: a\r\nidempotency-key: b\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
    )
    assert.match(answer, /"invalid_idempotency_key"/)
  })
})

describe('Every answer', () => {
  test('in JSON ends with a newline, also a refusal and one to invalid bytes', async (t) => {
    const { baseUrl, port } = await sampleServer(t, {
      routes: [...sampleRoutes, ...documentationRoutes(sampleRoutes)],
    })
    const headers = { 'x-api-key': 'buyer-key' }
    for (const path of [
      '/api/v1/me',
      '/nowhere',
      '/api/v1/orders?limit=x',
      '/api/proxy-list',
      '/openapi.json',
    ]) {
      const text = await (await fetch(`${baseUrl}${path}`, { headers })).text()
      assert.ok(/[^\n]\n$/.test(text), path)
    }
    assert.match(await raw(port, 'nonsense\r\n\r\n'), /\}\n$/)
  })

  test('has the security headers and is never cached', async (t) => {
    const { client } = await sampleServer(t)
    for (const path of ['/api/v1/me', '/nowhere', '/api/proxy-list', '/api/v1/orders/%']) {
      const { headers } = await client.get(path)
      assert.equal(headers.get('x-content-type-options'), 'nosniff', path)
      assert.equal(headers.get('cache-control'), 'no-store', path)
      assert.equal(headers.get('content-security-policy'), "default-src 'none'; frame-ancestors 'none'", path)
      assert.equal(headers.get('referrer-policy'), 'no-referrer', path)
    }
  })
})
