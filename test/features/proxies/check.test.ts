import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { checkRental } from '../../../src/features/proxies/check-proxy.ts'
import { atEnd } from '../../support/cleanup.ts'
import { testApp } from '../../support/test-app.ts'

const rental = (port: number, rotates = false) => ({
  ip: '127.0.0.1',
  host: '127.0.0.1',
  port,
  username: 'u',
  password: 'p',
  rotates,
})
const target = new URL('http://192.0.2.1/ip')
const check = (port: number, rotates = false) =>
  checkRental(rental(port, rotates), target, () => performance.now())

/**
 * A stand-in for the gateway.
 * @returns its port
 */
const answering = (
  t: TestContext,
  answer: { readonly status: number; readonly headers?: Record<string, string>; readonly text: string },
  seen: { url?: string | undefined; login?: string | undefined } = {},
) =>
  new Promise<number>((resolve) => {
    const server = createServer((request, response) => {
      seen.url = request.url
      seen.login = request.headers['proxy-authorization']
      response.writeHead(answer.status, answer.headers).end(answer.text)
    })
    atEnd(t, () => void server.close())
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })

describe('the check of a rented address', () => {
  test('sends a request to the target through the address with its credentials', async (t) => {
    const seen: { url?: string; login?: string } = {}
    const port = await answering(t, { status: 200, text: '127.0.0.1\n' }, seen)
    const { success, exitIp } = await check(port)
    assert.deepEqual([success, exitIp], [true, '127.0.0.1'])
    assert.equal(seen.url, 'http://192.0.2.1/ip')
    assert.equal(seen.login, `Basic ${Buffer.from('u:p').toString('base64')}`)
  })

  test('reports another exit address, which is allowed for mobile lines only', async (t) => {
    const port = await answering(t, { status: 200, text: '203.0.113.9' })
    assert.deepEqual(
      { ...(await check(port)), elapsedMs: 0 },
      {
        success: false,
        exitIp: '203.0.113.9',
        elapsedMs: 0,
        message: 'Traffic passes, but from another exit address.',
      },
    )
    assert.equal((await check(port, true)).success, true)
  })

  test("reports why the gateway refused, why the connection failed, or the target's reply", async (t) => {
    const refused = await answering(t, {
      status: 502,
      headers: { 'x-proxy-error': 'target_refused', 'x-proxy-detail': 'The target refused the connection.' },
      text: '',
    })
    const strange = await answering(t, { status: 200, text: 'x'.repeat(100_000) })
    for (const [port, message] of [
      [refused, 'The gateway answered 502: The target refused the connection.'],
      [strange, 'The target of the check answered 200 without an address.'],
      [1, 'The address cannot be connected to (ECONNREFUSED).'],
    ] as const) {
      const { success, exitIp, message: said } = await check(port)
      assert.deepEqual([success, exitIp, said], [false, null, message])
    }
  })

  test('is refused without a target, for an ended rental, for another account, and for the sixth check in a minute', async (t) => {
    const { buyer, reseller, ahead } = await testApp(t, {
      own: true,
      settings: { FAREBOX_RATE_LIMIT: 'on', FAREBOX_SANDBOX: 'off' },
    })
    const order = await buyer.post('/api/v1/orders', {
      product_id: 'isp-static',
      quantity: 1,
      fulfillment_meta: { country: 'USA', period_days: 30 },
    })
    const path = `/api/v1/proxies/${order.body.proxyIds[0]}/check`
    const refusal = async (client: typeof buyer) => (await client.get(path)).body.code
    assert.equal(await refusal(buyer), 'check_not_available')
    assert.equal(await refusal(reseller), 'not_found')
    ahead(31 * 86_400_000)
    for (let nth = 2; nth <= 5; nth += 1) assert.equal(await refusal(buyer), 'rental_ended')
    const last = await buyer.get(path)
    assert.equal(last.status, 429)
    assert.ok(Number(last.headers.get('retry-after')) <= 12)
  })
})
