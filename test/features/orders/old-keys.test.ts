import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import type { Caller } from '../../../src/platform/http/auth.ts'
import { codec, runnerOver } from '../../platform/commands/world.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { createPlaceQuoted } from '../../support/place-quoted.ts'
import { prefixLog } from '../../support/prefix-log.ts'
import { appendTo, buyer, credit, emptyWorld, planOrder } from '../../support/world.ts'

const start = Date.parse('2026-11-21T00:00:00.000Z')
const week = 7 * 24 * 60 * 60 * 1000
const caller = { accountId: buyer, keyId: 'key_one', capKeyId: 'key_one', cap: null } as Caller

/** Orders as a process that has just started takes them, at a time. */
const shopAt = (log: EventLog, nowMs: number) => {
  const runner = runnerOver(log, { clock: () => nowMs })
  const placeQuoted = createPlaceQuoted({ log, runner })
  const order = (idempotencyKey: string, over: Partial<OrderDetails>) =>
    placeQuoted({ caller, requestId: 'req_test', idempotencyKey, fingerprint: 'fingerprint' }, (orderId) => {
      const { createdAt: _, ...draft } = planOrder(orderId, { renewal: 'repurchase', ...over })
      return draft
    })
  return { order, close: () => runner.close() }
}

const moneyMoved = async (log: EventLog): Promise<readonly string[]> => {
  const types: string[] = []
  for await (const { type } of log.readStream(ledgerStream(buyer))) types.push(type)
  return types
}

const creditWallet = async (log: EventLog): Promise<void> => {
  const world = appendTo(credit(emptyWorld, 10_000, start), [], start)
  const [fact] = world.get(ledgerStream(buyer))!
  const metadata = {
    correlationId: 'test',
    causationId: null,
    actor: { kind: 'operator', name: 'test' },
    recordedAt: new Date(start).toISOString(),
  } as const
  const { type, data, metadata: about } = codec.encode(fact!.event, metadata)
  await log.append(ledgerStream(buyer), 'noStream', [
    { id: crypto.randomUUID(), type, data, metadata: about },
  ])
}

const planA = 'pln_a' as PlanId
const planB = 'pln_b' as PlanId

describe('a key that is repeated after the wallet no longer remembers its order', () => {
  for (const [name, over] of [
    ['a log with atomic items', (log: EventLog) => log],
    ['a log that writes the appends of an item one after another', (log: EventLog) => prefixLog(log)],
  ] as const)
    for (const [who, between] of [
      ['its plan remembers it', planB],
      ['its plan has forgotten it too', planA],
    ] as const)
      test(`returns its order and moves nothing, on ${name}, when ${who}`, async (t) => {
        const log = over({ ...createMemoryLog(), atomicItems: true })
        await creditWallet(log)
        const first = shopAt(log, start)
        const { order } = await first.order('old', { planId: planA })
        await first.close()
        const second = shopAt(log, start + week + 1)
        await second.order('newer', { planId: between })
        await second.close()
        const moved = await moneyMoved(log)
        const third = shopAt(log, start + week + 2)
        t.after(() => third.close())
        const again = await third.order('old', { planId: planA })
        assert.deepEqual([again.replayed, again.order], [true, order])
        assert.deepEqual(await moneyMoved(log), moved, 'paid a second time')
      })
})
