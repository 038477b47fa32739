import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { openGatewayWorker } from '../../../src/app/gateway-process.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { startWhoami } from '../../../src/sandbox/exit-dial.ts'
import { type ExitProxy, startExitProxy } from '../../../src/sandbox/exit-proxy.ts'
import { ownPort } from '../../support/own-port.ts'
import { type OwnApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { basic, talkTo } from '../support/clients.ts'
import { through } from '../support/real-worker.ts'

const whoami = 'http://whoami.sandbox/ip'
const dayMs = 86_400_000
const secret = 'Acme-s3cret'

type Rental = {
  readonly proxyId: string
  readonly ip: string
  readonly host: string
  readonly ports: { readonly http: number; readonly socks5: number }
  readonly username: string
  readonly password: string
}

/**
 * A supplier of three addresses, each with its own username; the service and its gateway with default
 * settings.
 */
describe('rented addresses that are endpoints of a supplier', () => {
  const ends: (() => unknown)[] = []
  const held = {
    name: 'endpoints',
    after: (end: () => unknown) => void ends.push(end),
  } as unknown as TestContext
  let app: OwnApp
  let supplier: ExitProxy

  before(async () => {
    // The service's data of rentals contains it.
    const port = String(await ownPort())
    app = await testApp(held, { own: true, settings: { FAREBOX_GATEWAY_PORT: port } })
    const gateway = await openGatewayWorker({
      config: app.farebox.config,
      index: 0,
      systemClock: Date.now,
      monotonicMs: () => performance.now(),
      random: Math.random,
      logger: createLogger('silent'),
    })
    const host = await startWhoami(new Map())
    supplier = await startExitProxy({
      own: '127.66.0.1',
      signsIn: (username, password) =>
        password === secret ? { shows: username.replace('acme-', '198.18.66.') } : null,
      allowLoopback: false,
      whoami: host,
    })
    ends.unshift(gateway.close, supplier.kill, host.close)
  })
  after(async () => {
    for (const end of ends) await end()
  })

  const stockAdd = async (lines: readonly object[]) => {
    const file = await app.file('acme.jsonl', lines.map((line) => JSON.stringify(line)).join('\n'))
    return app.cli('stock', 'add', '--file', file)
  }
  const address = (last: number, over: object = {}) => ({
    product: 'isp-static',
    country: 'USA',
    ip: `198.18.66.${last}`,
    endpoint: {
      protocol: last % 2 === 0 ? 'http' : 'socks5',
      host: '127.0.0.1',
      port: supplier.port,
      username: `acme-${last}`,
      password: secret,
      ...over,
    },
  })
  const rent = async (quantity: number, productId = 'isp-static'): Promise<readonly Rental[]> => {
    const meta = { country: 'USA', period_days: 30 }
    const order = await app.buyer.post('/api/v1/orders', {
      product_id: productId,
      quantity,
      fulfillment_meta: meta,
    })
    assert.equal(order.status, 201, JSON.stringify(order.body))
    const { body } = await app.buyer.get(`/api/v1/proxies?order_id=${order.body.orderId}&limit=100`)
    return body.proxies
  }
  const check = async ({ proxyId }: Rental) => (await app.buyer.get(`/api/v1/proxies/${proxyId}/check`)).body
  const urlOf = ({ host, ports, username, password }: Rental): string =>
    `${username}:${password}@${host}:${ports.http}`
  /** The target's view of the client, by each protocol of a client. */
  const seenThrough = (rental: Rental) => {
    const seen = (protocol: string, tunnel: boolean) =>
      through(`${protocol}://${urlOf(rental)}`, whoami, (response) => response.text(), tunnel)
    return Promise.all([seen('http', false), seen('http', true), seen('socks5h', true)])
  }
  const works = async (rental: Rental): Promise<void> =>
    assert.deepEqual(await seenThrough(rental), Array(3).fill(`${rental.ip}\n`))
  /** A gateway's cached rental may be a second old. */
  const comesToWork = (rental: Rental, what: string, timeoutMs = 3_000) =>
    until(
      () =>
        works(rental).then(
          () => true,
          () => false,
        ),
      { timeoutMs, what },
    )
  /** `status error` of a refusal. */
  const refusal = async (rental: Rental, password = rental.password): Promise<string> => {
    const talk = await talkTo(rental.ports.http, rental.host)
    const login = basic(rental.username, password)
    talk.write(
      `CONNECT whoami.sandbox:80 HTTP/1.1\r\nHost: whoami.sandbox\r\nProxy-Authorization: ${login}\r\n\r\n`,
    )
    const head = await talk.until('\r\n\r\n')
    talk.socket.destroy()
    const [, status, error] = /^HTTP\/1\.1 (\d+)[\s\S]*X-Proxy-Error: (\w+)/i.exec(head) ?? []
    return `${status} ${error}`
  }
  let rentals: readonly Rental[]

  test('are stocked from JSON lines as a whole, and the same file again changes nothing', async () => {
    await rent(60) // the demo's addresses in this pool
    const bad = await stockAdd([address(1), address(2, { port: 70_000, password: 'other-s3cret' })])
    assert.equal(bad.code, 2)
    assert.match(bad.err + bad.out, /line 2\.endpoint\.port/)
    assert.doesNotMatch(bad.err + bad.out, /s3cret/)
    const { json } = await stockAdd([address(1), address(2)])
    assert.deepEqual(json, {
      productId: 'isp-static',
      country: 'USA',
      added: 2,
      changed: [],
      alreadyStocked: [],
      elsewhere: [],
    })
    assert.deepEqual((await stockAdd([address(1), address(2)])).json.alreadyStocked.length, 2)
  })

  test('carry traffic at the gateway by the username of the rental, over every protocol', async () => {
    rentals = await rent(2)
    assert.deepEqual(rentals.map(({ ip }) => ip).sort(), ['198.18.66.1', '198.18.66.2'])
    for (const rental of rentals) {
      assert.equal(rental.host, '127.0.0.1')
      assert.doesNotMatch(JSON.stringify(rental), /acme|66\.0\.1/, 'the supplier is not shown')
      // At once: the gateway knows recent sales.
      await works(rental)
    }
    const { text } = await app.buyer.get('/api/v1/proxies?format=txt&limit=2')
    const lines = rentals.map(
      ({ ports, username, password }) => `127.0.0.1:${ports.http}:${username}:${password}`,
    )
    assert.deepEqual(text.trim().split('\n').sort(), lines.sort())
    assert.equal(await refusal(rentals[0]!, 'wrong'), '407 wrong_credentials')
  })

  test('that are down or refuse their login are reported as a failure of the exit, and a changed login works within a second', async () => {
    const rental = rentals.find(({ ip }) => ip.endsWith('.1'))!
    const changed = await stockAdd([address(1, { password: 'old' })])
    assert.deepEqual([changed.json.changed, changed.json.added], [['198.18.66.1'], 0])
    await until(async () => (await refusal(rental)) === '502 exit_failed', { what: 'the wrong login' })
    await stockAdd([address(1)])
    await comesToWork(rental, 'the right login')
    await supplier.kill()
    for (const each of rentals) assert.equal(await refusal(each), '502 exit_failed')
    await supplier.revive()
    for (const each of rentals) await works(each)
    const { pool } = app.core
    const { rowCount } = await pool.query('select from vault.stock_credentials')
    assert.equal(rowCount, 2, 'what does not sign in any more is gone')
  })

  test('that are replaced continue with the same login through the other endpoint', async () => {
    await stockAdd([address(3)])
    const [rental] = rentals
    const { status, body } = await app.buyer.post(`/api/v1/proxies/${rental!.proxyId}/replace`, {
      reason: 'not_working',
    })
    assert.deepEqual([status, body.ip, body.host], [200, '198.18.66.3', '127.0.0.1'])
    await comesToWork(body, 'the address in its place')
    rentals = [body, rentals[1]!]
  })

  test("of the demo's IPv6 pool work, and a check confirms it without a setting", async () => {
    const [v6] = await rent(10, 'ipv6-datacenter')
    const [v4] = await rent(1, 'ipv4-datacenter')
    assert.deepEqual([v6!.host, v4!.host], ['127.0.0.1', v4!.ip])
    // A dedicated address first needs a listener.
    for (const rental of [v6!, v4!]) await comesToWork(rental, rental.ip, 30_000)
    for (const rental of [v6!, v4!]) {
      const { success, exitIp, message } = await check(rental)
      assert.deepEqual([success, exitIp], [true, rental.ip], message)
    }
    // The service cannot determine how an operator's supplier behaves.
    assert.equal((await check(rentals[0]!)).code, 'check_not_available')
  })

  test('appear in the log without secrets, and verify finds nothing wrong', async () => {
    const events = await app.core.log.readAll(0, 10_000)
    assert.doesNotMatch(JSON.stringify(events), /s3cret|acme-/)
    await app.verified()
  })

  test('answer 407 after their end, and their open tunnels are cut', async () => {
    const [rental] = rentals
    const talk = await talkTo(rental!.ports.http, rental!.host)
    const login = basic(rental!.username, rental!.password)
    talk.write(
      `CONNECT whoami.sandbox:80 HTTP/1.1\r\nHost: whoami.sandbox\r\nProxy-Authorization: ${login}\r\n\r\n`,
    )
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200/)
    app.ahead(31 * dayMs)
    await talk.rest()
    for (const each of rentals) assert.equal(await refusal(each), '407 rental_ended')
  })
})
