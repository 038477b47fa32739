import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { parseUsername } from '../../src/domain/exits/line.ts'
import { openExits } from '../../src/gateway/exits/open-exits.ts'
import { createVault } from '../../src/platform/vault/seal.ts'
import { talkTo } from '../gateway/support/clients.ts'
import { wrapped } from '../gateway/support/datagrams.ts'
import { tcpTarget } from '../gateway/support/targets.ts'
import { testScheduler } from '../support/scheduler.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)

/** Returns the client's address, and the received data. */
const startTarget = async (t: TestContext): Promise<string> => {
  const server = createServer((request, reply) => {
    let body = ''
    request.on('data', (part) => {
      body += part
    })
    request.on('end', () => {
      const names = Object.keys(request.headers).sort().join()
      reply.end(JSON.stringify({ from: request.socket.remoteAddress, path: request.url, body, names }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

test('the exits of the sandbox', async (t) => {
  const { core, demo, run: command } = await testApp(t, { own: 'file' })
  const { pool, keys, clock, logger } = core
  const opened = await openExits({
    scheduler: testScheduler({ pool }),
    pool,
    vault: createVault(keys.master),
    sandbox: true,
    allowLoopback: true,
    workers: 1,
    clock,
    random: Math.random,
    logger,
  })
  t.after(opened.stop)
  const route = async (rest: string) => {
    const parsed = parseUsername(`u7k2m9x4${rest}`)
    assert.ok(parsed.ok)
    const found = await opened.exits.route({ holder: 'pln_one', line: parsed.line, udp: false })
    if (!found.denied) found.close()
    return found
  }
  const endpoint = async (rest: string) => {
    const found = await route(rest)
    assert.ok(!found.denied, JSON.stringify(found))
    const { via, sandbox, exitId } = found.exit
    assert.ok(via.kind === 'http' || via.kind === 'socks5')
    return { ...via, sandbox, exitId, login: `${via.username}:${via.password}` }
  }
  const control = async (path: string, change?: object) =>
    (
      await fetch(`${demo.sandbox}/_sandbox/exits${path}`, {
        ...(change && {
          method: 'PUT',
          body: JSON.stringify(change),
          headers: { 'content-type': 'application/json' },
        }),
      })
    ).json() as Promise<Record<string, never>>
  const target = await startTarget(t)

  await t.test('are marked in the list of exits', async () => {
    const { exits } = await command('exits', 'list', '--country', 'us')
    assert.equal(exits.length, 14)
    assert.ok(exits.every(({ sandbox }: { sandbox: boolean }) => sandbox))
    assert.doesNotMatch(JSON.stringify(exits), /password/)
  })

  await t.test('are in 13 countries, five in each, and three for each carrier', async () => {
    const { exits } = (await control('')) as unknown as {
      exits: { country: string; family: string; carrier: string | null }[]
    }
    assert.equal(new Set(exits.map(({ country }) => country)).size, 13)
    assert.equal(exits.filter(({ carrier }) => carrier === null).length, 65)
    const ofCarriers = Map.groupBy(
      exits.filter(({ carrier }) => carrier !== null),
      ({ carrier }) => carrier,
    )
    assert.ok([...ofCarriers.values()].every((all) => all.length === 3))
    assert.equal(opened.counts().serving, 65 + 3 * ofCarriers.size)
  })

  await t.test('carry requests as HTTP, CONNECT and SOCKS5 proxies, each from its own address', async () => {
    const seen = new Set<string>()
    for (const [rest, ...args] of [
      ['-country-us-os-mac', '-x', 'http://HOST', '--proxy-user', 'LOGIN', '-d', 'hello'],
      ['-country-us-os-mac', '-p', '-x', 'http://HOST', '--proxy-user', 'LOGIN', '-d', 'hello'],
      ['-country-us-os-windows', '--socks5-hostname', 'HOST', '--proxy-user', 'LOGIN', '-d', 'hello'],
      ['-country-de-os-windows', '-x', 'http://HOST', '--proxy-user', 'LOGIN', '-d', 'hello'],
    ] as const) {
      const { host, port, login, sandbox } = await endpoint(rest)
      assert.equal(sandbox, true)
      const filled = args.map((arg) => arg.replace('HOST', `${host}:${port}`).replace('LOGIN', login))
      const { stdout } = await run('curl', ['-sS', '--max-time', '10', ...filled, `${target}/a?b=1`])
      const answer = JSON.parse(stdout)
      assert.deepEqual([answer.path, answer.body], ['/a?b=1', 'hello'])
      assert.doesNotMatch(answer.names, /proxy|via|forwarded/)
      seen.add(answer.from)
    }
    assert.equal(seen.size, process.platform === 'linux' ? 3 : 1, [...seen].join())
  })

  await t.test('keep a tunnel whose client ends its side together with the request', async (tt) => {
    const late = await tcpTarget(tt, (socket) => {
      let sent = ''
      socket.on('data', (bytes) => {
        sent += bytes
      })
      socket.on('end', () => setImmediate(() => socket.end(`got ${sent}`)))
    })
    const { host, port, username, password, login } = await endpoint('-country-us')
    const [user, pass] = [Buffer.from(username ?? ''), Buffer.from(password ?? '')]
    const signIn = `Proxy-Authorization: Basic ${Buffer.from(login).toString('base64')}`
    const requests = [
      Buffer.from(`CONNECT 127.0.0.1:${late} HTTP/1.1\r\n${signIn}\r\n\r\n`),
      Buffer.concat([
        Buffer.of(5, 1, 2, 1, user.length),
        user,
        Buffer.of(pass.length),
        pass,
        Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, late >> 8, late & 255),
      ]),
    ]
    for (const request of requests) {
      const talk = await talkTo(port, host)
      talk.socket.end(Buffer.concat([request, Buffer.from('hello')]))
      assert.match((await talk.rest()).toString('latin1'), /got hello$/)
    }
  })

  await t.test('refuse clients without credentials, and private targets', async () => {
    const { host, port, login } = await endpoint('-country-fr-os-mac')
    const code = async (...args: readonly string[]) =>
      (await run('curl', ['-sS', '--max-time', '10', '-o', '/dev/null', '-w', '%{http_code}', ...args]))
        .stdout
    assert.equal(await code('-x', `http://${host}:${port}`, target), '407')
    assert.equal(await code('-x', `http://x:y@${host}:${port}`, target), '407')
    assert.equal(await code('-x', `http://${login}@${host}:${port}`, 'http://10.0.0.1/'), '403')
    assert.equal(await code('-x', `http://${login}@${host}:${port}`, 'http://169.254.169.254/'), '403')
  })

  await t.test('relay datagrams', async (tt) => {
    const echo = createSocket('udp4', (message, { port, address }) => echo.send(message, port, address))
    await new Promise<void>((resolve) => echo.bind(0, '127.0.0.1', resolve))
    tt.after(() => echo.close())
    const { host, port, username, password } = await endpoint('-country-jp-udp-on')
    const socket = connect({ host, port })
    tt.after(() => socket.destroy())
    const read = () => new Promise<Buffer>((resolve) => socket.once('data', resolve))
    const [user, pass] = [Buffer.from(username ?? ''), Buffer.from(password ?? '')]
    socket.write(Buffer.of(5, 1, 2))
    await read()
    socket.write(Buffer.concat([Buffer.of(1, user.length), user, Buffer.of(pass.length), pass]))
    assert.equal((await read())[1], 0)
    socket.write(Buffer.of(5, 3, 0, 1, 0, 0, 0, 0, 0, 0))
    const reply = await read()
    const client = createSocket('udp4')
    tt.after(() => client.close())
    const answered = new Promise<Buffer>((resolve) => client.once('message', resolve))
    const to = echo.address().port
    const broken = [
      Buffer.of(0, 0, 0),
      Buffer.of(0, 0, 0, 4, 1, 2, 3, 4, 5, 6),
      Buffer.of(0, 0, 0, 3, 200, 1, 2, 3, 4, 5),
      wrapped('127.0.0.1', 0, 'no port'),
      wrapped('no.such.name.invalid', to, 'no host'),
      wrapped('10.0.0.1', to, 'private'),
    ]
    for (const each of [...broken, wrapped('127.0.0.1', to, 'ping')])
      client.send(each, reply.readUInt16BE(8), '127.0.0.1')
    assert.equal((await answered).subarray(10).toString(), 'ping')
  })

  await t.test('are killed, slowed and revived by the controls, and the pool follows', async () => {
    const id = 'sandbox-au-1'
    const there = async () => !(await route('-country-au-state-new_south_wales-os-windows')).denied
    assert.equal(await there(), true)
    assert.equal((await control(`/${id}`, { alive: false })).alive, false)
    await until(async () => !(await there()), { timeoutMs: 10_000, what: 'its end' })
    assert.equal((await control(`/${id}`, { alive: true, slowMs: 300 })).slowMs, 300)
    await until(there, { timeoutMs: 10_000, what: 'its return' })
    const { host, port, login } = await endpoint('-country-au-state-new_south_wales-os-windows')
    const startMs = performance.now()
    await run('curl', ['-sS', '--socks5-hostname', `${host}:${port}`, '--proxy-user', login, target])
    assert.ok(performance.now() - startMs >= 300)
    assert.match(JSON.stringify(await control(`/${id}`, { alive: 'no' })), /error/)
    assert.match(JSON.stringify(await control('/nothing', {})), /no exit/)
  })
})
