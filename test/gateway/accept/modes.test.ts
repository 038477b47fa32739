import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { promisify } from 'node:util'
import { fetch, ProxyAgent } from 'undici'
import { atEnd } from '../../support/cleanup.ts'
import { selfSigned } from '../support/certificate.ts'
import { authorization, basic, connectBy, curl, socksTo, talkOver, talkTo } from '../support/clients.ts'
import { startGateway } from '../support/gateway.ts'
import { password, username } from '../support/memory-ports.ts'
import { echoTarget, httpTarget } from '../support/targets.ts'

const hello = (t: TestContext, host?: string) =>
  httpTarget(t, (request, response) => void response.end(`hello from ${request.headers.host}`), host)

/** `curl` is on most machines, but none of the proofs below rests on it alone. */
const hasCurl = await promisify(execFile)('curl', ['--version']).then(
  () => true,
  () => false,
)
const curlSays = async (says: string, ...args: string[]): Promise<void> => {
  if (hasCurl) assert.equal(await curl(...args), says)
}

const echoes = async (talk: { write(text: string): void; exactly(bytes: number): Promise<Buffer> }) => {
  talk.write('round and back')
  assert.equal((await talk.exactly(14)).toString(), 'round and back')
}

describe('one port detects the protocol by the first byte:', () => {
  test('CONNECT to an IPv4 address, an IPv6 address and a name', async (t) => {
    const { port } = await startGateway(t)
    const four = await echoTarget(t)
    const six = await echoTarget(t, '::1')
    for (const target of [`127.0.0.1:${four}`, `[::1]:${six}`, `localhost:${four}`, `localhost:${six}`])
      await echoes(await connectBy(port, target))
  })

  test('SOCKS5 to an IPv4 address, an IPv6 address and a name', async (t) => {
    const { port } = await startGateway(t)
    const four = await echoTarget(t)
    const six = await echoTarget(t, '::1')
    for (const [host, target] of [
      ['127.0.0.1', four],
      ['::1', six],
      ['localhost', four],
    ] as const) {
      const { talk, reply } = await socksTo(port, host, target)
      assert.equal(reply, 0)
      await echoes(talk)
    }
  })

  test('plain HTTP by undici, over one connection after another', async (t) => {
    const { port } = await startGateway(t)
    const { port: target } = await hello(t)
    const dispatcher = new ProxyAgent({
      uri: `http://127.0.0.1:${port}`,
      token: basic(),
      proxyTunnel: false,
    })
    atEnd(t, () => dispatcher.close())
    for (let n = 0; n < 5; n++) {
      const response = await fetch(`http://127.0.0.1:${target}/`, { dispatcher })
      assert.equal(await response.text(), `hello from 127.0.0.1:${target}`)
    }
  })

  test('CONNECT by undici', async (t) => {
    const { port, access } = await startGateway(t)
    const { port: target } = await hello(t)
    const dispatcher = new ProxyAgent({ uri: `http://127.0.0.1:${port}`, token: basic(), proxyTunnel: true })
    atEnd(t, () => dispatcher.close())
    const response = await fetch(`http://127.0.0.1:${target}/`, { dispatcher })
    assert.equal(await response.text(), `hello from 127.0.0.1:${target}`)
    assert.equal(access.attempts[0]?.protocol, 'connect')
  })

  test('every mode of curl', async (t) => {
    const { port } = await startGateway(t)
    const { port: target } = await hello(t)
    const { port: six } = await hello(t, '::1')
    const user = `${username}:${password}`
    const url = `http://127.0.0.1:${target}/`
    const says = `hello from 127.0.0.1:${target}`
    await curlSays(says, '-x', `http://${user}@127.0.0.1:${port}`, url)
    await curlSays(says, '-p', '-x', `http://${user}@127.0.0.1:${port}`, url)
    await curlSays(says, '--proxy-anyauth', '-x', `http://${user}@127.0.0.1:${port}`, url)
    await curlSays(says, '--http1.0', '-x', `http://${user}@127.0.0.1:${port}`, url)
    await curlSays(says, '--socks5', `${user}@127.0.0.1:${port}`, url)
    await curlSays(says, '--socks5-hostname', `${user}@127.0.0.1:${port}`, url)
    await curlSays(
      `hello from localhost:${target}`,
      '-x',
      `socks5h://${user}@127.0.0.1:${port}`,
      `http://localhost:${target}/`,
    )
    await curlSays(
      `hello from [::1]:${six}`,
      '-x',
      `http://${user}@127.0.0.1:${port}`,
      `http://[::1]:${six}/`,
    )
    await curlSays(`hello from [::1]:${six}`, '--socks5', `${user}@127.0.0.1:${port}`, `http://[::1]:${six}/`)
  })

  test('clients that connect by IPv6', async (t) => {
    const { port, access } = await startGateway(t, { host: '::1' })
    const target = await echoTarget(t)
    await echoes(await connectBy(port, `127.0.0.1:${target}`, '::1'))
    assert.deepEqual(
      access.attempts.map(({ source, dialled }) => [source, dialled]),
      [['::1', '::1']],
    )
  })

  test('the addresses of both ends are reported without the form of mapped IPv4', async (t) => {
    const { port, access } = await startGateway(t, { host: '::' })
    const target = await echoTarget(t)
    await echoes(await connectBy(port, `127.0.0.1:${target}`, '127.0.0.1'))
    assert.deepEqual(
      access.attempts.map(({ source, dialled }) => [source, dialled]),
      [['127.0.0.1', '127.0.0.1']],
    )
  })

  test('a client of a whitelisted address needs no credentials, over HTTP and SOCKS5', async (t) => {
    const { port, access } = await startGateway(t)
    access.answer = ({ credentials }) =>
      credentials === null ? null : { denied: true, status: 407, error: 'wrong_credentials', detail: 'x' }
    const target = await echoTarget(t)
    const { talk, reply } = await socksTo(port, '127.0.0.1', target, { user: null })
    assert.equal(reply, 0)
    await echoes(talk)
    const http = await talkTo(port)
    http.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n\r\n`)
    assert.match(await http.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    await echoes(http)
  })

  test('a SOCKS5 client that offers both methods must send its credentials: they select the line', async (t) => {
    const { port } = await startGateway(t)
    const talk = await talkTo(port)
    talk.write(Buffer.of(5, 2, 0, 2))
    assert.deepEqual([...(await talk.exactly(2))], [5, 2])
  })

  test('bytes sent together with the request reach the target, by CONNECT and SOCKS5', async (t) => {
    const { port } = await startGateway(t)
    const target = await echoTarget(t)
    const http = await talkTo(port)
    http.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\nat once`)
    await http.until('\r\n\r\n')
    assert.equal((await http.exactly(7)).toString(), 'at once')
    const socks = await talkTo(port)
    const name = Buffer.concat([
      Buffer.of(1, username.length),
      Buffer.from(username),
      Buffer.of(password.length),
      Buffer.from(password),
    ])
    const request = Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, target >> 8, target & 0xff)
    socks.write(Buffer.concat([Buffer.of(5, 1, 2), name, request, Buffer.from('at once')]))
    await socks.exactly(2 + 2 + 10)
    assert.equal((await socks.exactly(7)).toString(), 'at once')
  })

  test('a request that arrives byte by byte', async (t) => {
    const { port } = await startGateway(t)
    const target = await echoTarget(t)
    const talk = await talkTo(port)
    for (const byte of `CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`) {
      talk.write(byte)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    await echoes(talk)
  })
})

test('the TLS port is an HTTPS proxy: CONNECT, plain HTTP and curl', async (t) => {
  const { gateway } = await startGateway(t)
  const tls = selfSigned()
  const port = await gateway.listen({ host: '127.0.0.1', port: 0, tls })
  const target = await echoTarget(t)
  const { port: web } = await hello(t)
  const socket = connectTls({ port, host: '127.0.0.1', ca: tls.cert })
  await once(socket, 'secureConnect')
  const talk = talkOver(socket)
  talk.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n${authorization}\r\n`)
  assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
  await echoes(talk)
  socket.end()
  await talk.rest()
  const directory = await mkdtemp(join(tmpdir(), 'farebox-'))
  atEnd(t, () => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'ca.pem'), tls.cert)
  const proxy = [
    '--proxy-cacert',
    join(directory, 'ca.pem'),
    '-x',
    `https://${username}:${password}@localhost:${port}`,
  ]
  await curlSays(`hello from 127.0.0.1:${web}`, ...proxy, `http://127.0.0.1:${web}/`)
  await curlSays(`hello from 127.0.0.1:${web}`, '-p', ...proxy, `http://127.0.0.1:${web}/`)
})

test('git clones over CONNECT', async (t) => {
  const { port, access } = await startGateway(t)
  const directory = await mkdtemp(join(tmpdir(), 'farebox-'))
  atEnd(t, () => rm(directory, { recursive: true }))
  const run = promisify(execFile)
  const env = { PATH: process.env.PATH, GIT_CONFIG_NOSYSTEM: '1', HOME: directory, GIT_TERMINAL_PROMPT: '0' }
  const git = (...args: string[]) => run('git', args, { cwd: directory, env })
  await git('init', '--quiet', 'source')
  await writeFile(join(directory, 'source', 'file.txt'), 'what was cloned\n')
  await git('-C', 'source', 'add', '.')
  await git(
    '-C',
    'source',
    '-c',
    'user.name=t',
    '-c',
    'user.email=t@example.com',
    'commit',
    '--quiet',
    '-m',
    'one',
  )
  await git('clone', '--quiet', '--bare', 'source', 'served.git')
  await git('-C', 'served.git', 'update-server-info')
  // Over TLS, because git uses CONNECT for https only.
  const tls = selfSigned()
  await writeFile(join(directory, 'ca.pem'), tls.cert)
  const { createServer } = await import('node:https')
  const { createReadStream } = await import('node:fs')
  const server = createServer(tls, (request, response) => {
    const path = new URL(request.url ?? '/', 'https://x').pathname
    createReadStream(join(directory, path))
      .on('error', () => response.writeHead(404).end())
      .pipe(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  const { port: target } = server.address() as { port: number }
  const proxy = `http://${username}:${password}@127.0.0.1:${port}`
  const options = [
    '-c',
    `http.proxy=${proxy}`,
    '-c',
    `http.sslCAInfo=${join(directory, 'ca.pem')}`,
    '-c',
    'http.proxyAuthMethod=basic',
  ]
  await git(...options, 'clone', '--quiet', `https://localhost:${target}/served.git`, 'copy')
  assert.equal((await git('-C', 'copy', 'show', 'HEAD:file.txt')).stdout, 'what was cloned\n')
  assert.ok(access.attempts.some(({ protocol }) => protocol === 'connect'))
})
