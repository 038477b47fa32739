import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideOpen } from '../../../src/domain/deposits/decide.ts'
import type { DepositDetails } from '../../../src/domain/deposits/events.ts'
import { createDepositSettlement, depositRef } from '../../../src/features/deposits/settle-deposit.ts'
import { GatewayUnavailable } from '../../../src/features/payments/payment-port.ts'
import type { AccountId, DepositId } from '../../../src/kernel/ids.ts'
import { depositStream } from '../../../src/kernel/streams.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { silent } from '../../platform/projections/engine.ts'
import { createMemoryLog } from '../../support/memory-log.ts'

test('a deposit accepts 500 payments, and a server that names others with each answer appends no more events', async (t) => {
  const log = createMemoryLog()
  const runner = runnerOver(log)
  t.after(() => runner.close())
  const settling = createDepositSettlement({
    runner,
    gateways: { byId: async () => null },
    orderable: async () => true,
    clock: Date.now,
    logger: silent,
  })
  const cause = { correlationId: 'test', actor: { kind: 'system', name: 'test' } } as const
  const details: DepositDetails = {
    depositId: 'dep_1' as DepositId,
    accountId: 'acc_1' as AccountId,
    customerId: null,
    rail: 'crypto',
    amountCents: 1_000,
    gatewayId: 'gw_1',
    provider: 'btcpay',
    merchantName: 'Shop',
    fingerprint: 'test',
    pending: null,
  }
  await runner.run({
    name: 'open',
    streams: depositRef(details.depositId),
    decide: ({ deposit }, { nowMs }) => decideOpen(deposit, details, nowMs),
    ...cause,
  })
  const report = (from: number, count: number) => ({
    status: 'open' as const,
    payments: Array.from({ length: count }, (_, n) => ({
      paymentId: `pay_${from + n}`,
      amountMicros: 10_000,
    })),
  })
  const receive = (from: number, count: number) =>
    settling.receive(details.depositId, report(from, count), cause)
  await receive(0, 300)
  const before = (await log.lastOf(depositStream(details.depositId)))?.revision
  await assert.rejects(receive(300, 201), GatewayUnavailable)
  assert.equal((await log.lastOf(depositStream(details.depositId)))?.revision, before)
  const whole = await receive(0, 500)
  assert.deepEqual([whole?.payments.size, whole?.creditedMicros], [500, 5_000_000])
  await assert.rejects(receive(1_000, 1), GatewayUnavailable)
  assert.equal((await receive(0, 500))?.payments.size, 500, 'the same ones again are no others')
})
