import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { carry } from '../../gateway/support/carry.ts'
import { talkTo } from '../../gateway/support/clients.ts'
import { startCountingTarget } from '../../gateway/support/counting-target.ts'
import { startRealWorker } from '../../gateway/support/real-worker.ts'
import { asCustomer, done } from '../../support/app-actions.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const path = '/api/v1/traffic-budgets'
const megabyte = 1_000_000

test('the gateway stops the traffic of what a budget limits, and of nothing else', async (t) => {
  const app = await testApp(t)
  const { client } = app
  const { port } = await startRealWorker(t, app)
  const target = await startCountingTarget(t)
  const buy = async (key: string, customer: string): Promise<PlanId> => {
    const order = { product_id: 'residential-premium', quantity: 1 }
    const headers = { 'Idempotency-Key': randomUUID(), ...(customer && asCustomer(customer)) }
    return (await done(client.post('/api/v1/orders', order, { key, headers }))).body.planId
  }
  const connectionOf = async (key: string, planId: PlanId) =>
    (await done(client.get(`/api/v1/plans/${planId}`, { key }))).body.connection
  const set = async (key: string, json: object, customer = '') => {
    const headers = customer ? asCustomer(customer) : {}
    const budget = { period: 'month', limitBytes: megabyte, ...json }
    return (await done(client.call('PUT', path, { key, headers, json: budget }))).body
  }
  const used = async (key: string, id: string): Promise<number> =>
    (await done(client.get(`${path}/${id}`, { key }))).body.usedBytes
  /** The bytes of a download of 1.5 MB. */
  const download = async (login: { username: string; password: string }): Promise<number> => {
    const carried = await carry({ way: 'connect', up: 0, down: 1.5 * megabyte, ...login, port, target })
    assert.ok(carried)
    return carried.down
  }

  await t.test('all plans of a customer', async () => {
    const { key, pay } = await app.newReseller(10_000)
    for (const customer of ['ann', 'ben']) await pay(customer, 4_000)
    const [first, second, ofBen] = [await buy(key, 'ann'), await buy(key, 'ann'), await buy(key, 'ben')]
    const { id } = await set(key, {}, 'ann')
    assert.ok((await download(await connectionOf(key, first))) < megabyte)
    await until(async () => (await used(key, id)) === megabyte)
    assert.equal(await download(await connectionOf(key, second)), 0)
    assert.equal(await download(await connectionOf(key, ofBen)), 1.5 * megabyte)
    await done(client.post(`${path}/${id}/reset`, {}, { key }))
    await until(async () => (await download(await connectionOf(key, second))) > 0)
  })

  await t.test('a line set', async () => {
    const { key } = await app.customer({ cents: 10_000 })
    const planId = await buy(key, '')
    const excludeCities = Array.from({ length: 20 }, (_, n) => `a_city_with_a_long_name_${n}`)
    const wanted = { country: 'us', excludeCities, strict: false, format: 'url' }
    const generated = await done(client.post(`/api/v1/plans/${planId}/generate`, wanted, { key }))
    const login = await connectionOf(key, planId)
    const { username } = new URL(generated.body.lines[0])
    const ofSet = { ...login, username }
    const { id } = await set(key, { planId, lineSet: username.split('-set-')[1] })
    assert.ok((await download(ofSet)) < megabyte)
    await until(async () => (await used(key, id)) === megabyte)
    assert.equal(await download(ofSet), 0)
    assert.equal(await download(login), 1.5 * megabyte)
  })

  await t.test('an entry of the whitelist', async () => {
    const { key } = await app.customer({ cents: 10_000 })
    const planId = await buy(key, '')
    const listed = await done(
      client.post(`/api/v1/plans/${planId}/whitelist`, { entries: [{ cidr: '127.0.0.1' }] }, { key }),
    )
    const { id } = await set(key, { planId, whitelistEntryId: listed.body.whitelist[0].id })
    const ask = async (): Promise<string> => {
      const talk = await talkTo(port)
      talk.write(`CONNECT 127.0.0.1:${target.port} HTTP/1.1\r\n\r\n`)
      const head = await talk.until('\r\n\r\n')
      if (!head.startsWith('HTTP/1.1 200 ')) return head
      talk.write(Buffer.from('00000001000000000016e360', 'hex'))
      await talk.rest()
      return head
    }
    await until(async () => (await ask()).startsWith('HTTP/1.1 200 '))
    await until(async () => (await used(key, id)) === megabyte)
    assert.match(await ask(), /^HTTP\/1\.1 466 [\s\S]*X-Proxy-Error: traffic_budget_reached/)
    assert.equal(await download(await connectionOf(key, planId)), 1.5 * megabyte)
  })
})
