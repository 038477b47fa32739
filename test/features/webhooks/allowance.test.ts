import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAllowance } from '../../../src/features/webhooks/webhook-service.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { testDatabase } from '../../support/postgres.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { deliveriesOf, hookTo, path } from './deliveries.ts'
import { startReceiver, status } from './receiver.ts'

const minute = 60_000
const settings = { FAREBOX_RATE_LIMIT: 'on', FAREBOX_RATE_KEY: '1000/1000' }

test('pings are limited to five a minute per endpoint and ten per account, and refused ones leave no trace', async (t) => {
  const app = await testApp(t, { own: 'file', settings })
  const receiver = await startReceiver(t)
  const customer = await app.customer({ cents: 0 })
  const hook = await hookTo(app, receiver.url, ['ping'], customer)
  const others = [
    await hookTo(app, receiver.url, ['ping'], customer),
    await hookTo(app, receiver.url, ['ping'], customer),
  ]
  const test = (id: string) => app.client.post(`${path}/${id}/test`, undefined, { key: hook.key })
  const atOnce = (id: string, count: number) => Promise.all(Array.from({ length: count }, () => test(id)))
  const taken = (answers: readonly { status: number }[]) =>
    answers.filter(({ status: code }) => code === 202).length

  const first = await atOnce(hook.id, 40)
  assert.equal(taken(first), 5)
  const refused = first.find(({ status: code }) => code !== 202)!
  assert.deepEqual([refused.status, refused.body.code], [429, 'rate_limited'])
  assert.match(refused.body.error, /too many pings in a minute/)
  const waitS = Number(refused.headers.get('retry-after'))
  assert.ok(waitS >= 1 && waitS <= 12, `${waitS} s`)

  const rest = await Promise.all(others.map(({ id }) => atOnce(id, 20)))
  assert.equal(taken(rest.flat()), 5, 'the account has ten, whatever its endpoints')
  const other = await hookTo(app, receiver.url)
  const foreign = await app.client.post(`${path}/${hook.id}/test`, undefined, { key: other.key })
  assert.equal(foreign.status, 404, 'no account spends the allowance of another')
  assert.equal((await app.client.post(`${path}/${other.id}/test`, undefined, { key: other.key })).status, 202)

  await until(() => receiver.received.length >= 11, { what: 'eleven pings' })
  assert.equal((await deliveriesOf(app, hook)).length, 5, 'what was refused is not queued')
  assert.equal(receiver.received.length, 11)
  app.wait(minute)
  await app.core.clockGuard.check()
  assert.equal(taken(await atOnce(hook.id, 40)), 5, 'a minute later there are as many again')
})

test('redeliveries and registrations are limited too', async (t) => {
  const app = await testApp(t, { own: 'file', settings })
  const receiver = await startReceiver(t)
  receiver.answer(status(200))
  const hook = await hookTo(app, receiver.url)
  const post = (tail: string) => app.client.post(`${path}${tail}`, undefined, { key: hook.key })
  const { deliveryId } = (await post(`/${hook.id}/test`)).body
  await until(async () => (await deliveriesOf(app, hook))[0]?.status === 'succeeded')
  const count = async (times: number, send: () => Promise<{ status: number }>) =>
    Object.groupBy(await Promise.all(Array.from({ length: times }, send)), ({ status: code }) => code)
  const startMs = performance.now()
  const again = await count(50, () => post(`/${hook.id}/deliveries/${deliveryId}/redeliver`))
  // Thirty a minute: one comes back every two seconds while a slow machine answers the others.
  const back = Math.ceil((performance.now() - startMs) / 2_000)
  const sent = again[202]?.length ?? 0
  assert.ok(sent >= 30 && sent <= 30 + back, `${sent}, ${back} back`)
  assert.equal(again[429]?.length, 50 - sent)
  const outage = await count(12, () => post(`/${hook.id}/redeliver?since=2026-01-01`))
  assert.deepEqual([outage[202]?.length, outage[429]?.length], [5, 7])
  const madeFromMs = performance.now()
  const made = await count(30, () =>
    app.client.post(path, { url: receiver.url, events: ['ping'] }, { key: hook.key }),
  )
  // Twenty a minute, of which the first endpoint took one: one comes back every three seconds.
  const allowedAgain = Math.ceil((performance.now() - madeFromMs) / 3_000)
  const [created, full = 0, limited] = [made[201]?.length, made[409]?.length, made[429]?.length]
  assert.equal(created, 9, 'ten endpoints at most')
  assert.ok(full >= 10 && full <= 10 + allowedAgain, `${full}, ${allowedAgain} allowed again`)
  assert.equal(limited, 30 - 9 - full)
})

test('processes share the count, and a clock that ran ahead delays no account for more than a minute', async (t) => {
  const { pool } = await testDatabase(t)
  let nowMs = Date.parse('2026-11-21T02:30:00Z')
  const process = (aheadMs: number) => createAllowance({ pool, clock: () => nowMs + aheadMs, limited: true })
  const [one, two] = [process(0), process(0)]
  const owner = { accountId: 'acc_1' as AccountId, endpointId: 'whs_1' }
  const tries = await Promise.allSettled(
    Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? one : two)('test', owner)),
  )
  assert.equal(tries.filter(({ status: end }) => end === 'fulfilled').length, 5)
  await process(60 * minute)('test', owner)
  await assert.rejects(one('test', owner), { code: 'rate_limited' })
  nowMs += minute
  await one('test', owner)
})
