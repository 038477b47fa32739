import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { alpha2Of } from '../../../src/kernel/countries.ts'
import { plannedExits } from '../../../src/sandbox/exit-locations.ts'
import { demoJson } from '../../domain/catalog/samples.ts'
import { type OwnApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { startRealWorker, whoami } from '../support/real-worker.ts'

const minuteMs = 60_000

describe("a mobile line of the demo rotates over the sandbox's exits of its carrier", () => {
  const ends: (() => unknown)[] = []
  let app: OwnApp
  let port: number

  before(async () => {
    const held = { name: 'mobile lines', after: (end: () => unknown) => void ends.push(end) }
    const t = held as unknown as TestContext
    app = await testApp(t, { own: true })
    ;({ port } = await startRealWorker(t, app, {}, { clock: () => Date.now() + app.clock.aheadMs }))
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })

  const rent = async (rotationMinutes: number) => {
    const { status, body } = await app.buyer.post('/api/v1/orders', {
      product_id: 'mobile-dedicated',
      quantity: 1,
      fulfillment_meta: {
        country: 'USA',
        period_days: 30,
        carrier_id: 'att-us',
        service: 'dedicated',
        rotation_minutes: rotationMinutes,
      },
    })
    assert.equal(status, 201, JSON.stringify(body))
    const rental = (await app.buyer.get(`/api/v1/proxies/${body.proxyIds[0]}`)).body
    const line = (protocol: string) =>
      `${protocol}://${rental.username}:${rental.password}@${rental.ip}:${port}`
    await until(() => whoami(line('http')), { what: 'the gateway to listen on the rented address' })
    return { rotateUrl: rental.rotateUrl as string | null, line }
  }
  const exitOf = async (line: string): Promise<string> => {
    const { exit, carrier } = await whoami(line)
    assert.equal(carrier, 'att-us')
    return exit ?? assert.fail('no exit of the sandbox')
  }
  const all = ['sandbox-att-us-1', 'sandbox-att-us-2', 'sandbox-att-us-3']

  test('by its link: the next request uses another exit, over HTTP and SOCKS5', async () => {
    const { rotateUrl, line } = await rent(0)
    const seen: string[] = []
    for (let turn = 0; turn < 3; turn += 1) {
      const exit = await exitOf(line('http'))
      seen.push(exit)
      assert.equal(await exitOf(line('socks5')), exit)
      const answer = await fetch(new URL(rotateUrl ?? '', app.baseUrl))
      assert.equal(answer.status, 200, await answer.text())
      // A worker learns of it within a second.
      await until(async () => (await exitOf(line('http'))) !== exit, { what: 'another exit' })
      app.wait(10_000)
    }
    assert.deepEqual(seen.toSorted(), all)
    assert.equal(await exitOf(line('http')), seen[0])
  })

  test('by its interval: the exit stays for the ordered time, and then changes', async () => {
    const { rotateUrl, line } = await rent(5)
    assert.equal(rotateUrl, null)
    const seen: string[] = []
    for (let turn = 0; turn < 3; turn += 1) {
      seen.push(await exitOf(line('http')))
      app.wait(4 * minuteMs)
      assert.equal(await exitOf(line('http')), seen.at(-1))
      app.wait(minuteMs)
    }
    assert.deepEqual(seen.toSorted(), all)
  })

  test('every carrier of the demo has three exits in its country', () => {
    const sold = new Map<string, string>()
    for (const product of demoJson().products)
      for (const { id, country } of product.carriers ?? []) sold.set(id, alpha2Of(country) ?? '')
    assert.ok(sold.size > 10)
    for (const [id, country] of sold) {
      const exits = plannedExits.filter(({ terms }) => terms.carrier === id)
      assert.deepEqual(
        exits.map(({ terms }) => terms.covers[0]?.country),
        [country, country, country],
        id,
      )
    }
  })
})
