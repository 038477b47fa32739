import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type TestContext, test } from 'node:test'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { publicOutgoing, sandboxOutgoing } from '../../../src/platform/outgoing/send.ts'
import { faultKind, TargetRefused } from '../../../src/platform/outgoing/target.ts'
import { privateListener } from '../../support/private-listener.ts'

test('real providers are called over https at public addresses only', async (t) => {
  let hits = 0
  const server = createServer((_request, response) => {
    hits += 1
    response.end('{}')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const { send, close } = publicOutgoing()
  t.after(close)
  for (const url of [
    `http://127.0.0.1:${port}/`,
    `https://127.0.0.1:${port}/`,
    `https://localhost:${port}/`,
    `https://[::1]:${port}/`,
    `https://[::ffff:127.0.0.1]:${port}/`,
    `https://2130706433:${port}/`,
    'https://169.254.169.254/latest/meta-data/',
    'https://10.0.0.1/',
    'https://192.168.1.1/',
    'https://100.64.0.1/',
    'https://user:password@pay.example.com/',
    'ftp://pay.example.com/',
  ])
    await assert.rejects(send(url), url)
  assert.equal(hits, 0)
})

/** The error of `fetch` for a refused connection. */
const isRefused = (error: unknown): boolean => (error as Error).cause instanceof TargetRefused

test('a provider whose name resolves to a private address, even together with a public one, gets no connection', async (t) => {
  const listener = await privateListener(t)
  for (const addresses of [
    ['127.0.0.1'],
    ['10.0.0.1'],
    ['93.184.215.14', '127.0.0.1'],
    ['127.0.0.1', '93.184.215.14'],
    ['2606:2800:21f:cb07:6820:80da:af6b:8b2c', '::1'],
    ['::ffff:127.0.0.1'],
  ]) {
    const names: string[] = []
    const { send, close } = publicOutgoing({
      resolve: async (hostname) => {
        names.push(hostname)
        return addresses
      },
    })
    t.after(close)
    await assert.rejects(send(`https://pay.example.com:${listener.port}/`), isRefused, addresses.join())
    assert.deepEqual(names, ['pay.example.com'])
  }
  assert.equal(listener.connections(), 0)
})

const startServer = async (t: TestContext, answer: RequestListener): Promise<number> => {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return (server.address() as { port: number }).port
}

const local = { allowLoopback: true }

test('a name is resolved again for each connection, and the checked address is dialled', async (t) => {
  const port = await startServer(t, (_request, response) => {
    response.writeHead(200, { connection: 'close' }).end('{}')
  })
  const answers = [['127.0.0.1'], ['127.0.0.1', '10.0.0.1'], ['10.0.0.1']]
  let lookups = 0
  const { send, close } = publicOutgoing({ resolve: async () => answers[lookups++] ?? [], rules: local })
  t.after(close)
  const url = `http://pay.example.com:${port}/`
  assert.equal(await (await send(url)).text(), '{}')
  assert.equal(lookups, 1)
  await assert.rejects(send(url), isRefused)
  await assert.rejects(send(url), isRefused)
  assert.equal(lookups, 3)
})

test('a redirect of a provider is not followed, and its target is not even resolved', async (t) => {
  let hits = 0
  const port = await startServer(t, (request, response) => {
    hits += 1
    if (request.url === '/away')
      response.writeHead(307, { location: `http://inside.example.com:${port}/` }).end()
    else response.end('{}')
  })
  const names: string[] = []
  const { send, close } = publicOutgoing({
    resolve: async (hostname) => {
      names.push(hostname)
      return ['127.0.0.1']
    },
    rules: local,
  })
  t.after(close)
  await assert.rejects(send(`http://pay.example.com:${port}/away`, { method: 'POST', body: '{}' }))
  assert.deepEqual([hits, names], [1, ['pay.example.com']])
})

test('an answer is read up to two decompressed megabytes, and no further', async (t) => {
  const whole = '{"ok":true}'
  const large = Buffer.alloc(64 * 1024 * 1024)
  const answers: Readonly<Record<string, { readonly encoding?: string; readonly body: Buffer }>> = {
    '/plain': { body: Buffer.from(whole) },
    '/packed': { encoding: 'gzip', body: gzipSync(whole) },
    '/full': { body: Buffer.alloc(2_097_152, ' ') },
    '/large': { body: large },
    '/large-packed': { encoding: 'gzip', body: gzipSync(large) },
    '/large-packed-twice': { encoding: 'gzip, gzip', body: gzipSync(gzipSync(large)) },
    '/large-brotli': {
      encoding: 'br',
      body: brotliCompressSync(large, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
    },
  }
  const port = await startServer(t, (request, response) => {
    const { encoding, body } = answers[request.url ?? '']!
    response.writeHead(200, encoding === undefined ? {} : { 'content-encoding': encoding }).end(body)
  })
  const { send, close } = publicOutgoing({ resolve: async () => ['127.0.0.1'], rules: local })
  t.after(close)
  const read = async (path: string) => (await send(`http://pay.example.com:${port}${path}`)).text()
  for (const path of ['/plain', '/packed']) assert.equal(await read(path), whole)
  assert.equal((await read('/full')).length, 2_097_152)
  for (const path of ['/large', '/large-packed', '/large-packed-twice', '/large-brotli']) {
    const failure = await read(path).then(
      (text) => assert.fail(`${path}: ${text.length} characters were read`),
      (error: unknown) => error,
    )
    assert.match(faultKind(failure), /^(answer_too_large|UND_ERR_RES_EXCEEDED_MAX_SIZE)$/, path)
  }
})

test('the stand-ins are called at their own address only, and no redirect is followed', async (t) => {
  const server = createServer((request, response) => {
    if (request.url === '/away') response.writeHead(302, { location: '/' }).end()
    else response.end('{"ok":true}')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  const { send, close } = sandboxOutgoing(`http://127.0.0.1:${port}`)
  t.after(close)
  assert.equal(await (await send(`http://127.0.0.1:${port}/x`)).text(), '{"ok":true}')
  await assert.rejects(send(`http://127.0.0.1:${port}/away`))
  await assert.rejects(send(`http://127.0.0.1:${port === 1 ? 2 : 1}/`), /is not the sandbox/)
  await assert.rejects(send('https://api.stripe.com/v1/checkout/sessions'), /is not the sandbox/)
})
