import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { testApp } from '../../support/test-app.ts'
import { record } from '../free-list/support/recorded.ts'

const connected = async (t: TestContext, baseUrl: string, mode: 'legacy' | 'auto'): Promise<Client> => {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', baseUrl)))
  t.after(() => client.close())
  return client
}

// biome-ignore lint/suspicious/noExplicitAny: the client has checked it against the tool's schema
const call = async (client: Client, name: string, args: object): Promise<any> =>
  client.callTool({ name, arguments: args as Record<string, unknown> })

/** More look-ups at once than the other tests take. */
const lookups = 30
const settings = { FAREBOX_RATE_LIMIT: 'on', FAREBOX_RATE_LOOKUP: `${lookups}/1` }
const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
const listTools = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })

test('the tools over the Model Context Protocol', async (t) => {
  const { baseUrl, farebox } = await testApp(t, { own: 'file', settings })
  await record(farebox.core.pool, [
    { ip: '8.8.8.8', port: 3128, protocols: ['http', 'https'] },
    { ip: '1.1.1.1', port: 1080, protocols: ['socks5'], anonymity: 'anonymous' },
  ])

  for (const mode of ['legacy', 'auto'] as const)
    await t.test(`the official client uses all three tools (${mode})`, async (t) => {
      const client = await connected(t, baseUrl, mode)
      const { tools } = await client.listTools()
      assert.deepEqual(
        tools.map(({ name }) => name),
        ['ip_lookup', 'proxy_check', 'proxy_list'],
      )
      for (const { annotations, inputSchema, outputSchema } of tools) {
        assert.deepEqual([annotations?.readOnlyHint, annotations?.destructiveHint], [true, false])
        assert.ok(inputSchema.properties && outputSchema)
      }
      const place = await call(client, 'ip_lookup', { ip: '8.8.8.8' })
      assert.deepEqual([place.structuredContent.asn, place.structuredContent.in_live_list], [15169, true])
      assert.deepEqual(JSON.parse(place.content[0].text), place.structuredContent)
      const list = await call(client, 'proxy_list', { protocol: 'socks5', limit: 5 })
      assert.deepEqual([list.structuredContent.total, list.structuredContent.proxies[0].ip], [1, '1.1.1.1'])
      const own = await call(client, 'ip_lookup', {})
      assert.equal(own.structuredContent.ip, '127.0.0.1')
    })

  await t.test('null for an optional argument equals an omitted one', async (t) => {
    const client = await connected(t, baseUrl, 'auto')
    const own = await call(client, 'ip_lookup', { ip: null })
    assert.equal(own.structuredContent.ip, '127.0.0.1')
    const list = await call(client, 'proxy_list', {
      country: null,
      protocol: 'socks5',
      anonymity: null,
      limit: null,
    })
    assert.equal(list.structuredContent.total, 1)
    const check = await call(client, 'proxy_check', {
      proxies: ['10.0.0.1:80'],
      protocols: null,
      timeout_ms: null,
    })
    assert.match(check.content[0].text, /10\.0\.0\.1:80 is not checked/)
    const missing = await call(client, 'proxy_check', { proxies: null })
    assert.equal(missing.isError, true)
  })

  await t.test('a number may be a text, and the cursor of a first page null', async (t) => {
    const client = await connected(t, baseUrl, 'auto')
    const list = await call(client, 'proxy_list', { limit: '1' })
    assert.equal(list.structuredContent.count, 1)
    const wrong = await call(client, 'proxy_list', { limit: '0x1' })
    assert.equal(wrong.isError, true)
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { cursor: null } })
    const answer = await fetch(`${baseUrl}/mcp`, { method: 'POST', headers, body })
    assert.match(await answer.text(), /"tools":\[/)
  })

  await t.test('a client that accepts only event streams gets one', async () => {
    const accept = { ...headers, Accept: 'text/event-stream' }
    const answer = await fetch(`${baseUrl}/mcp`, { method: 'POST', headers: accept, body: listTools })
    assert.deepEqual([answer.status, answer.headers.get('content-type')?.split(';')[0]], [200, accept.Accept])
    assert.match(await answer.text(), /^event: message\ndata: \{.*"tools":\[.*\}\n\n$/)
  })

  await t.test('a refusal of a tool is a result with the reason', async (t) => {
    const client = await connected(t, baseUrl, 'auto')
    const refusals = [
      [
        'proxy_check',
        { proxies: ['10.0.0.1:80'] },
        /invalid_parameter: 10\.0\.0\.1:80 is not checked.*private/,
      ],
      ['proxy_check', { proxies: ['8.8.8.8:80'], judge: 'http://evil.example/' }, /Unrecognized key/],
      ['proxy_check', { proxies: [] }, /proxies/],
      ['proxy_list', { country: 'zz' }, /ISO 3166/],
      ['proxy_list', { protocol: 'ftp' }, /socks5/],
      ['ip_lookup', { ip: 'here' }, /IPv4 or IPv6/],
    ] as const
    for (const [tool, args, words] of refusals) {
      const { isError, content } = await call(client, tool, args)
      assert.equal(isError, true, JSON.stringify(args))
      assert.match(content[0].text, words)
    }
  })

  await t.test('a client that accepts JSON gets JSON, in every form of the header', async () => {
    for (const accept of ['application/json', '*/*', 'application/*', 'text/html, application/json;q=0.5']) {
      const answer = await fetch(`${baseUrl}/mcp`, {
        method: 'POST',
        headers: { ...headers, Accept: accept },
        body: listTools,
      })
      assert.equal(answer.status, 200, accept)
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/)
      assert.ok((JSON.parse(await answer.text()) as { result?: object }).result, accept)
    }
    for (const accept of ['text/html', 'application/json;q=0, */*']) {
      const answer = await fetch(`${baseUrl}/mcp`, {
        method: 'POST',
        headers: { ...headers, Accept: accept },
        body: listTools,
      })
      assert.equal(answer.status, 406, accept)
    }
  })

  await t.test('a page of any site may call it, with a preflight request', async () => {
    const preflight = await fetch(`${baseUrl}/mcp`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://page.example',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'content-type,mcp-protocol-version',
      },
    })
    assert.equal(preflight.status, 204)
    assert.equal(preflight.headers.get('access-control-allow-origin'), '*')
    assert.match(preflight.headers.get('access-control-allow-methods') ?? '', /POST/)
    assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /\*/)
    const answer = await fetch(`${baseUrl}/mcp`, {
      method: 'POST',
      headers: { ...headers, Origin: 'https://page.example' },
      body: listTools,
    })
    assert.deepEqual([answer.status, answer.headers.get('access-control-allow-origin')], [200, '*'])
    assert.equal(answer.headers.get('access-control-expose-headers'), '*')
  })

  await t.test('pages that rebind their own name may not call it, and only POST is accepted', async () => {
    const post = (origin: string | null) =>
      fetch(`${baseUrl}/mcp`, {
        method: 'POST',
        headers: { ...headers, ...(origin === null ? {} : { Origin: origin }) },
        body: listTools,
      })
    const rebound = request(`${baseUrl}/mcp`, {
      method: 'POST',
      headers: { ...headers, Host: 'evil.example:3000', Origin: 'http://evil.example:3000' },
    }).end(listTools)
    const [answered] = (await once(rebound, 'response')) as [IncomingMessage]
    answered.resume()
    assert.equal(answered.statusCode, 403)
    assert.equal((await post('null')).status, 403)
    for (const origin of [null, baseUrl, 'http://localhost:6274'])
      assert.equal((await post(origin)).status, 200)
    for (const method of ['GET', 'DELETE', 'PUT']) {
      const answer = await fetch(`${baseUrl}/mcp`, { method, headers })
      assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'POST, OPTIONS'])
    }
  })

  await t.test('an invalid request is a protocol error', async () => {
    const send = async (body: string) => {
      const answer = await fetch(`${baseUrl}/mcp`, { method: 'POST', headers, body })
      return [
        answer.status,
        JSON.parse((await answer.text()).replace(/^event: message\ndata: /, '')).error?.code,
      ]
    }
    assert.deepEqual(await send('{'), [400, -32_700])
    assert.deepEqual(await send('{"jsonrpc":"2.0","id":1,"method":"resources/list"}'), [200, -32_601])
  })
})

test('a tool has the limit of its HTTP operation, for every way of calling it', async (t) => {
  const { baseUrl } = await testApp(t, { own: 'file', settings })
  const client = await connected(t, baseUrl, 'auto')
  assert.equal((await fetch(`${baseUrl}/api/ip-lookup?ip=8.8.8.8`)).status, 200)
  const answers = await Promise.all(
    Array.from({ length: 2 * lookups }, () => call(client, 'ip_lookup', { ip: '8.8.8.8' })),
  )
  const refused = answers.filter(({ isError }) => isError)
  assert.ok(refused.length >= 1)
  assert.match(refused[0].content[0].text, /rate_limited: too many calls; try again in \d+ s/)
})
