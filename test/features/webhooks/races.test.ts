import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { call, startFarebox } from '../../support/farebox.ts'
import { testApp } from '../../support/test-app.ts'
import { buyPlan, caughtUp, type Enqueued, enqueued, gb, meter, nowhere } from './causes.ts'
import { eventsOf, path } from './deliveries.ts'

const settings = { FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_DEMO: 'off' }

/** Plans, each of which goes low while ten endpoints register: a thousand races, ten thousand in the long run. */
const plans = process.env.FAREBOX_SOAK ? 1_000 : 100
const atOnce = 5
const perAccount = 10

test('a plan that becomes low while endpoints register in another process is sent to each exactly once', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const elsewhere = await startFarebox(t, { ...app.env, ...settings })
  const pairs: { endpointId: string; planId: string }[] = []
  let tookMs = 20
  /** Each starts at random within the time that all take, so that either comes first now and then. */
  const apart = async <Value>(run: () => Promise<Value>): Promise<Value> => {
    await sleep(Math.random() * 2 * tookMs)
    const startedMs = performance.now()
    const value = await run()
    tookMs += (performance.now() - startedMs - tookMs) / 10
    return value
  }
  const round = async (): Promise<void> => {
    const customer = await app.customer({ cents: 1_000 })
    const { planId } = await buyPlan(app, customer)
    const register = async (): Promise<void> => {
      const body = { url: nowhere, events: ['plan.low_traffic'] }
      const made = await call(`${elsewhere.baseUrl}${path}`, customer.key, { body })
      assert.equal(made.status, 201, JSON.stringify(made.body))
      pairs.push({ endpointId: made.body.id, planId })
    }
    await Promise.all([
      apart(() => meter(app, planId, 0.95 * gb)),
      ...Array.from({ length: perAccount }, () => apart(register)),
    ])
  }
  for (let n = 0; n < plans; n += atOnce) await Promise.all(Array.from({ length: atOnce }, round))
  await caughtUp(app)
  await caughtUp(app) // deliveries enqueued meanwhile
  const expected = pairs.map(({ endpointId, planId }) => `${endpointId} ${planId}`).sort()
  assert.equal(expected.length, plans * perAccount)
  const queued = (await enqueued(app)).map(({ endpointId, resource }) => `${endpointId} ${resource}`).sort()
  assert.deepEqual(queued, expected)

  const registered = new Map<string, number>()
  const low = new Map<string, number>()
  for (const { type, stream, data, position } of await eventsOf(app.core.log, '')) {
    if (type === 'EndpointRegistered') registered.set((data as Enqueued).endpointId, position)
    if (type === 'PlanRanLow') low.set(stream.replace(/^plan-/, ''), position)
  }
  const first = pairs.filter(
    ({ endpointId, planId }) => registered.get(endpointId)! < low.get(planId)!,
  ).length
  assert.ok(first > pairs.length / 20 && first < (pairs.length * 19) / 20, `${first} endpoints came first`)
  t.diagnostic(`in ${first} of ${pairs.length} races the endpoint came first`)
})

test('at most ten endpoints are active, even if two processes race to register and enable them', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const elsewhere = await startFarebox(t, { ...app.env, ...settings }, ['http'])
  const { key } = await app.customer({ cents: 0 })
  const bases = [app.baseUrl, elsewhere.baseUrl]
  const baseOf = (n: number): string => bases[n % bases.length]!
  const body = { url: nowhere, events: ['ping'] }
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, n) => call(`${baseOf(n)}${path}`, key, { body })),
  )
  const made = answers.filter(({ status }) => status === 201)
  assert.equal(made.length, 10)
  for (const { status, body } of answers)
    if (status !== 201) assert.deepEqual([status, body.code], [409, 'webhook_limit_reached'])

  // Four are disabled, their places are taken, and then all of them want to be active again.
  const patch = (n: number, id: string, status: string) =>
    call(`${baseOf(n)}${path}/${id}`, key, { method: 'PATCH', body: { status } })
  const ids = made.slice(0, 4).map(({ body: { id } }) => id as string)
  for (const id of ids) assert.equal((await patch(0, id, 'disabled')).status, 200)
  const again = await Promise.all([
    ...ids.map((id, n) => patch(n, id, 'active').then(({ status }) => status)),
    ...Array.from({ length: 4 }, (_, n) =>
      call(`${baseOf(n + 1)}${path}`, key, { body }).then(({ status }) => status),
    ),
  ])
  assert.equal(again.filter((status) => status < 300).length, 4, again.join())
  const listed = await call(`${elsewhere.baseUrl}${path}`, key)
  const active = listed.body.webhooks.filter(({ status }: { status: string }) => status === 'active')
  assert.equal(active.length, 10)
})
