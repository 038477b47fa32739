import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { createBtcpayGateway } from '../../../src/features/payments/btcpay.ts'
import { callbackRoutes, createInbox } from '../../../src/features/payments/callbacks.ts'
import type { LiveGateway } from '../../../src/features/payments/payment-port.ts'
import { crashHooks } from '../../../src/kernel/crash-points.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import type { ApiRequest } from '../../../src/platform/http/route.ts'
import { silent } from '../../platform/projections/engine.ts'
import { testDatabase } from '../../support/postgres.ts'

const nowMs = Date.parse('2026-11-21T12:00:00.000Z')
const webhookSecret = 'VERY_SECRET'

const liveGateway = (gatewayId: string, owner: string | null): LiveGateway => ({
  gatewayId,
  owner: owner as AccountId | null,
  provider: 'btcpay',
  merchantName: 'Shop',
  gateway: createBtcpayGateway(
    { url: 'https://pay.example.com', storeId: 'store', apiKey: 'key', webhookSecret },
    () => assert.fail('no request is sent before the callback is answered'),
  ),
})

test("only correctly signed callbacks use up the callback limit of a reseller's gateway", async (t) => {
  const { pool } = await testDatabase(t)
  const known = new Map(
    [liveGateway('own', null), liveGateway('gw_one', 'acc_one'), liveGateway('gw_two', 'acc_two')].map(
      (live) => [live.gatewayId, live],
    ),
  )
  let monotonicMs = 0
  const [route] = callbackRoutes({
    gateways: {
      byId: async (gatewayId) => known.get(gatewayId) ?? null,
      forRail: async () => null,
      liveRails: async () => [],
    },
    inbox: createInbox(pool, () => nowMs),
    clock: () => nowMs,
    hooks: crashHooks(null, () => undefined),
    monotonicMs: () => monotonicMs,
  })
  let sent = 0
  /** A new callback of the gateway; the code of its refusal, or null. */
  const send = async (gateway: string, secret = webhookSecret): Promise<string | null> => {
    const raw = Buffer.from(
      JSON.stringify({
        deliveryId: `event-${sent++}`,
        type: 'InvoiceSettled',
        timestamp: nowMs / 1000,
        invoiceId: 'invoice',
      }),
    )
    const signature = createHmac('sha256', secret).update(raw).digest('hex')
    const request = {
      params: { gateway },
      raw,
      headers: { 'btcpay-sig': `sha256=${signature}` },
      log: () => silent,
      address: '192.0.2.1',
    } as unknown as ApiRequest
    return route!.handler(request).then(
      () => null,
      ({ code }: { code: string }) => code,
    )
  }
  const refusals = async (count: number, gateway: string, secret?: string) => {
    const codes: (string | null)[] = []
    for (let n = 0; n < count; n += 1) codes.push(await send(gateway, secret))
    return codes.filter((code) => code !== null)
  }
  assert.deepEqual(new Set(await refusals(600, 'gw_one', 'forged')), new Set(['unauthorized']))
  assert.deepEqual(await refusals(500, 'gw_one'), [])
  assert.deepEqual(await refusals(2, 'gw_one'), ['rate_limited', 'rate_limited'])
  assert.deepEqual(await refusals(1, 'gw_two'), [], "another reseller's are taken")
  assert.deepEqual(await refusals(600, 'own'), [], "the service's own are many")
  monotonicMs += 100
  assert.deepEqual(await refusals(2, 'gw_one'), ['rate_limited'], 'ten a second')
  const { rows } = await pool.query(
    'select gateway_id, count(*) from work.gateway_inbox group by 1 order by 1',
  )
  assert.deepEqual(
    rows.map((row) => [row.gateway_id, Number(row.count)]),
    [
      ['gw_one', 501],
      ['gw_two', 1],
      ['own', 600],
    ],
  )
})
