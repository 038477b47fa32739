import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { type Dispatcher, fetch, ProxyAgent, Socks5ProxyAgent } from 'undici'
import type { DemoFile } from '../../src/app/demo/demo-file.ts'
import { atEnd } from '../support/cleanup.ts'
import { call, dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { machineMs } from '../support/machine-time.ts'
import { operate } from '../support/operator.ts'
import { ownPort } from '../support/own-port.ts'
import { until } from '../support/until.ts'
import { socksTo } from './support/clients.ts'
import { udpClient, udpTarget, wrapped } from './support/datagrams.ts'
import { httpTarget } from './support/targets.ts'

/** The service and its gateway as `npm start` runs them, each in processes of their own. */
describe('a bought product carries traffic', () => {
  const ends: (() => unknown)[] = []
  const held = {
    name: 'the gateway',
    after: (end: () => unknown) => void ends.unshift(end),
  } as unknown as TestContext
  let farebox: FareboxProcess
  let key: string
  let env: Record<string, string>
  let target: string

  before(async () => {
    const dataDir = await dataDirectory(held)
    env = {
      FAREBOX_DATA: dataDir,
      FAREBOX_GATEWAY_WORKERS: '2',
      FAREBOX_GATEWAY_PORT: String(await ownPort()),
      FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on',
    }
    farebox = await startFarebox(held, env)
    const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8')) as DemoFile
    key = demo.buyer.key
    const { port } = await httpTarget(held, (request, response) => {
      const size = Number(new URL(request.url ?? '/', 'http://target').searchParams.get('size') ?? 0)
      response.setHeader('x-seen-from', request.socket.remoteAddress ?? '')
      response.end(Buffer.alloc(size, 'x'))
    })
    target = `http://127.0.0.1:${port}/`
  })
  after(async () => {
    for (const end of ends) await end()
  })

  const api = (path: string, body?: unknown, headers: Record<string, string> = {}) =>
    call(`${farebox.baseUrl}/api/v1${path}`, key, body === undefined ? {} : { body, headers })
  const buy = async (productId: string, quantity: number, more: object = {}) => {
    const { body } = await api(
      '/orders',
      { product_id: productId, quantity, ...more },
      { 'Idempotency-Key': crypto.randomUUID() },
    )
    return body
  }
  const urlsOf = async (planId: string, wanted: object): Promise<readonly string[]> => {
    const { status, body } = await api(`/plans/${planId}/generate`, { format: 'url', ...wanted })
    assert.equal(status, 200, JSON.stringify(body))
    return body.lines
  }
  const through = async (line: string, url = target) => {
    const agent: Dispatcher = line.startsWith('socks5')
      ? new Socks5ProxyAgent(line.replace('socks5h:', 'socks5:'))
      : new ProxyAgent({ uri: line, proxyTunnel: true })
    try {
      const response = await fetch(url, { dispatcher: agent })
      const bytes = (await response.arrayBuffer()).byteLength
      return { status: response.status, bytes, headers: response.headers }
    } finally {
      await agent.destroy()
    }
  }
  const bytesUsed = async (planId: string): Promise<number> => (await api(`/plans/${planId}`)).body.bytesUsed
  let planId: string
  let total: number

  test('the commands that a start prints buy a plan and send a request through it', () => {
    const [, tour = ''] = /paste into another terminal:\n\n([\s\S]*?)\n\n {2}API /.exec(farebox.out()) ?? []
    const script = tour.replaceAll('curl -s ', 'curl -sS --fail-with-body ')
    const output = execFileSync('bash', ['-euo', 'pipefail', '-c', script], { encoding: 'utf8' })
    assert.match(output, /"sandbox":true,"ip":"127\.64\.[\d.]+","exit":"sandbox-us-\d+","country":"us"/)
  })

  test('a generated line of each protocol carries a request through an exit, and the plan shows its bytes', async () => {
    planId = (await buy('residential-premium', 1)).planId
    const { dataGbTotal } = (await api(`/plans/${planId}`)).body
    total = dataGbTotal * 1_000_000_000
    let expected = await bytesUsed(planId)
    for (const protocol of ['http', 'socks5']) {
      const [line = ''] = await urlsOf(planId, { protocol, country: 'us' })
      const answer = await until(() => through(line, `${target}?size=100000`), { what: protocol })
      assert.deepEqual([answer.status, answer.bytes], [200, 100_000])
      assert.match(answer.headers.get('x-seen-from') ?? '', /^127\.64\./, 'through an exit of the sandbox')
      expected += 100_000
      await until(async () => (await bytesUsed(planId)) >= expected, { timeoutMs: 2_000, what: 'bytesUsed' })
    }
  })

  test('the sandbox shows the exit of a request', async () => {
    const [line = ''] = await urlsOf(planId, { protocol: 'socks5', country: 'us', city: 'dallas' })
    const agent = new Socks5ProxyAgent(line.replace('socks5h:', 'socks5:'))
    const response = await fetch('http://whoami.sandbox/', { dispatcher: agent })
    const { country, city } = (await response.json()) as { country: string; city: string }
    assert.deepEqual([country, city], ['us', 'dallas'])
    await agent.destroy()
  })

  test('a line with udp relays datagrams through an exit, and the plan shows their bytes', async (t) => {
    const port = await udpTarget(held, (payload, from) => Buffer.from(`${payload} from ${from.address}`))
    const before = await bytesUsed(planId)
    const [line = ''] = await urlsOf(planId, { protocol: 'socks5', udp: true })
    const { port: gateway, username, password } = new URL(line)
    const { talk, reply, bound } = await socksTo(Number(gateway), '0.0.0.0', 1, {
      user: username,
      word: password,
      command: 3,
    })
    atEnd(t, () => talk.socket.destroy())
    assert.equal(reply, 0)
    const client = await udpClient(t, bound.readUInt16BE(5))
    const ping = 'ping'.repeat(5_000)
    client.send(wrapped('127.0.0.1', port, ping))
    const answer = String(await client.next())
    assert.match(answer, /^(?:ping)+ from 127\.64\./)
    const expected = before + ping.length + answer.length
    await until(async () => (await bytesUsed(planId)) >= expected, { timeoutMs: 2_000, what: 'bytesUsed' })
  })

  test('a used-up plan answers 466 until it is topped up, on every worker', async () => {
    const [line = ''] = await urlsOf(planId, { protocol: 'http' })
    const leave = 3_000_000
    const bytes = total - leave - (await bytesUsed(planId))
    const metered = await operate(
      ['plans', 'meter', '--plan', planId, '--bytes', String(bytes), '--report', 'test'],
      env,
    )
    assert.equal(metered.code, 0, metered.err)
    await assert.rejects(through(line, `${target}?size=${2 * leave}`), 'cut before its end')
    await until(async () => (await bytesUsed(planId)) >= total, { what: 'the last byte' })
    assert.ok((await bytesUsed(planId)) <= total, 'not one byte more')
    assert.equal((await api(`/plans/${planId}`)).body.status, 'depleted')
    for (let n = 0; n < 6; n += 1)
      await assert.rejects(through(line), (error: Error) => /\(466\)/.test(inspect(error)))
    await buy('residential-premium', 1)
    const toppedUpMs = machineMs()
    await until(() => through(line), { what: 'traffic' })
    assert.ok(machineMs() - toppedUpMs < 2_000)
  })

  test('a rented address is a proxy itself, and its traffic exits from it', async () => {
    const order = await buy('isp-static', 1, { fulfillment_meta: { country: 'USA', period_days: 30 } })
    const rental = await until(async () => (await api(`/proxies?order_id=${order.orderId}`)).body.proxies[0])
    const { ip, username, password, ports } = rental
    const line = `http://${username}:${password}@${ip}:${ports.http}`
    const answer = await until(() => through(line), { what: 'the rented address' })
    assert.equal(answer.headers.get('x-seen-from'), ip)
    const { body } = await api(`/proxies/${rental.proxyId}/check`)
    const { elapsedMs, checkedAt, ...said } = body
    assert.deepEqual(said, { success: true, exitIp: ip, message: 'The address carries traffic.' })
    assert.ok(elapsedMs < 10_000 && Date.parse(checkedAt) > 0)

    const replaced = (await api(`/proxies/${rental.proxyId}/replace`, { reason: 'low_speed' })).body
    const next = `http://${username}:${password}@${replaced.ip}:${ports.http}`
    const moved = await until(() => through(next), { what: 'the address in its place' })
    assert.equal(moved.headers.get('x-seen-from'), replaced.ip)
    // Each worker remembers for up to a second whose an address is.
    const isRefused = () =>
      through(line).then(
        () => false,
        () => true,
      )
    await until(isRefused, { timeoutMs: 3_000, what: 'the former address to be unassigned' })
  })

  test('a killed worker is replaced without an effect on the service', async () => {
    const [line = ''] = await urlsOf(planId, { protocol: 'http' })
    const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(farebox.pid)], { encoding: 'utf8' })
      .trim()
      .split(/\s+/)
      .map(Number)
    const commands = children.filter((pid) =>
      execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).includes('gateway-worker'),
    )
    assert.equal(commands.length, 2)
    process.kill(commands[0]!, 'SIGKILL')
    for (let n = 0; n < 4; n += 1) assert.equal((await until(() => through(line))).status, 200)
    assert.equal((await fetch(`${farebox.baseUrl}/readyz`)).status, 200)
  })
})
