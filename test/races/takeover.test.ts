import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call } from '../support/farebox.ts'
import { until } from '../support/until.ts'
import { assertVerified } from '../support/verify.ts'
import { allOrders, balanceOf, logOf, startTwo } from './two-shops.ts'

const traffic = { product_id: 'residential-premium', quantity: 1 }
const trafficCents = 550
const startCents = 10_000_000

test('when the owner of the projections is killed, the other process takes over while orders continue', async (t) => {
  const two = await startTwo(t)
  const { shops, pool } = two
  const [owner, heir] = shops
  const { key } = await two.customer(startCents)
  const epochOf = async (): Promise<number> =>
    (await pool.query('select max(epoch) as epoch from engine.checkpoints')).rows[0].epoch
  const epoch = await epochOf()

  /** The order of each key that was sent; null until it is acknowledged. */
  const requests = new Map<string, string | null>()
  const order = async (baseUrl: string, name: string): Promise<void> => {
    requests.set(name, null)
    const headers = { 'Idempotency-Key': name }
    const { status, body } = await call(`${baseUrl}/api/v1/orders`, key, { body: traffic, headers })
    assert.ok(status === 201 || status === 200, JSON.stringify(body))
    requests.set(name, body.orderId)
  }
  let over = false
  const buy = async (client: string, baseUrl: string): Promise<void> => {
    for (let n = 0; !over && n < 5_000; n += 1) await order(baseUrl, `${client} ${n}`)
  }
  const acknowledged = () => [...requests.values()].filter((id) => id !== null).length

  const doomed = buy('a', owner.baseUrl).catch((error: Error) => error)
  const living = [buy('b', heir.baseUrl), buy('c', heir.baseUrl)]
  await until(() => acknowledged() >= 30, { what: 'the first orders' })
  await owner.kill()
  assert.ok((await doomed) instanceof TypeError, 'its client lost the connection')
  const atKill = acknowledged()
  await until(async () => (await call(`${heir.baseUrl}/api/v1/wallet`, key)).status === 200, {
    timeoutMs: 30_000,
    what: 'reads through the process that is left',
  })
  await until(() => acknowledged() >= atKill + 30, { what: 'orders after the kill' })
  over = true
  await Promise.all(living)
  assert.ok((await epochOf()) > epoch, 'the process that was killed owned the projections')

  for (const [name, orderId] of requests) if (orderId === null) await order(heir.baseUrl, name)
  const listed = await allOrders(heir.baseUrl, key)
  assert.deepEqual(new Set(listed.map(({ orderId }) => orderId)), new Set(requests.values()))
  assert.equal(await balanceOf({ shops: [heir] }, key), startCents - requests.size * trafficCents)
  await assertVerified({
    pool,
    log: await logOf(t, two),
    sealKey: Buffer.from(two.env.FAREBOX_SEAL_KEY!, 'base64'),
  })
})
