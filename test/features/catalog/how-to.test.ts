import assert from 'node:assert/strict'
import { isIPv6 } from 'node:net'
import { test } from 'node:test'
import type { HowToStep } from '../../../src/features/catalog/how-to.ts'
import { startRealWorker, through, whoami } from '../../gateway/support/real-worker.ts'
import { httpTarget } from '../../gateway/support/targets.ts'
import { ownPort } from '../../support/own-port.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

type Found = Partial<Record<'orderId' | 'planId' | 'proxyId' | 'subscriptionId', string>>

const fill = (text: string, found: Found): string =>
  text.replaceAll(/\{(orderId|planId|proxyId|subscriptionId)\}/g, (placeholder, name: keyof Found) => {
    assert.ok(found[name], `${placeholder} stands in a step before any answer named it`)
    return found[name]
  })

// biome-ignore lint/suspicious/noExplicitAny: answers of many routes
const noted = (found: Found, body: any): Found => ({
  ...found,
  ...(body.orderId && !found.orderId && { orderId: body.orderId }),
  ...(body.planId && { planId: body.planId }),
  ...(body.subscriptionId && { subscriptionId: body.subscriptionId }),
  ...(body.proxyIds?.length > 0 && { proxyId: body.proxyIds[0] }),
})

type Rented = {
  readonly ip: string
  readonly host: string
  readonly ports: { readonly http: number }
  readonly username: string
  readonly password: string
  readonly rotation: string | null
}

/** The exit that a generated line goes out of, by the sandbox's own word. */
const goesOut = async (line: string): Promise<void> => {
  const [host, port, username, password] = line.split(':')
  const { exit } = await until(() => whoami(`http://${username}:${password}@${host}:${port}`), { what: line })
  assert.match(exit ?? '', /^sandbox-/, line)
}

test('every how-to step of every product can be sent as printed, and its result carries a request', async (t) => {
  const settings = {
    FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on',
    FAREBOX_GATEWAY_PORT: String(await ownPort()),
    FAREBOX_GATEWAY_LISTEN: '127.0.0.1',
  }
  const app = await testApp(t, { own: true, settings })
  await startRealWorker(t, app, settings)
  const target = await httpTarget(t, (request, response) => response.end(request.socket.remoteAddress))
  /** IPv6 addresses have no owner: a proxy of the sandbox acts as their supplier. */
  const carries = async ({ ip, host, ports, username, password, rotation }: Rented): Promise<void> => {
    const line = `http://${username}:${password}@${host}:${ports.http}`
    const ask = () => through(line, `http://127.0.0.1:${target.port}/`, (answer) => answer.text())
    const from = await until(ask, { what: line })
    if (rotation === null && !isIPv6(ip)) assert.equal(from, ip)
    else assert.match(from, /^127\./)
  }

  const { buyer, reseller } = app
  const used = { lines: 0, addresses: 0 }
  for (const api of [buyer, reseller]) {
    const { body } = await api.get('/api/v1/products')
    for (const product of body.products) {
      const steps: readonly HowToStep[] = product.howTo
      assert.equal(steps.length > 0, product.state === 'active', product.id)
      const subscribes = steps.some(({ path }) => path === '/api/v1/subscriptions')
      assert.equal(subscribes, product.state === 'active' && product.billing.subscription, product.id)
      const isGateway = product.shape === 'gateway_gb' || product.shape === 'gateway_time'
      const generates = steps.some(({ path }) => path.endsWith('/generate'))
      assert.equal(generates, product.state === 'active' && isGateway, product.id)
      let found: Found = {}
      for (const { step, method, path, headers, body: input } of steps) {
        const answer = await api.call(method, fill(path, found), {
          headers,
          ...(input !== null && { raw: fill(JSON.stringify(input), found) }),
        })
        assert.ok(answer.status < 300, `${product.id}, step ${step}: ${answer.text}`)
        found = noted(found, answer.body)
        if (method === 'DELETE') assert.equal(answer.body.cancelAtPeriodEnd, true)
        for (const line of path.endsWith('/generate') ? answer.body.lines : []) {
          await goesOut(line)
          used.lines += 1
        }
        for (const rental of path.startsWith('/api/v1/proxies?') ? answer.body.proxies : []) {
          await carries(rental)
          used.addresses += 1
        }
      }
    }
  }
  assert.ok(used.lines >= 10 && used.addresses >= 4, JSON.stringify(used))
})
