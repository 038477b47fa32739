import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ViolationRow } from '../../../src/audit/invariants/invariant.ts'
import { orderRules } from '../../../src/audit/invariants/order-invariants.ts'
import type { WalletDebited } from '../../../src/domain/ledger/events.ts'
import type { Payer } from '../../../src/features/orders/prepare-order.ts'
import { orderedBy } from '../../../src/features/orders/prepare-order.ts'
import type { Actor, RecordedEvent } from '../../../src/kernel/event.ts'
import type { AccountId, KeyId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { Rows } from '../../../src/platform/projections/read-model.ts'
import { codec, runnerOver } from '../../platform/commands/world.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { createPlaceQuoted } from '../../support/place-quoted.ts'
import { buyer, credit, emptyWorld, planOrder } from '../../support/world.ts'

const start = Date.parse('2026-11-21T00:00:00.000Z')
const session: Actor & { kind: 'session' } = {
  kind: 'session',
  subjectId: buyer,
  sessionId: 'ses_one',
  method: 'link',
}
const person: Payer = { accountId: buyer, reseller: false, keyId: null, actor: session }
const keyId = 'key_capped' as KeyId
/** Good for one order of $15.00 a day. */
const key: Payer = {
  accountId: buyer,
  reseller: false,
  keyId,
  capKeyId: keyId,
  cap: { cents: 2_000, covers: 'orders' },
}

const shop = async () => {
  const log = { ...createMemoryLog(), atomicItems: true } as const
  const [fact] = credit(emptyWorld, 100_000, start).get(ledgerStream(buyer))!
  const { type, data, metadata } = codec.encode(fact!.event, {
    correlationId: 'test',
    causationId: null,
    actor: { kind: 'operator', name: 'test' },
    recordedAt: new Date(start).toISOString(),
  })
  await log.append(ledgerStream(buyer), 'noStream', [{ id: crypto.randomUUID(), type, data, metadata }])
  const runner = runnerOver(log, { clock: () => start })
  const placeQuoted = createPlaceQuoted({ log, runner })
  let number = 0
  return {
    order: (caller: Payer) => {
      number += 1
      return placeQuoted(
        { caller, requestId: 'req_test', idempotencyKey: `order ${number}`, fingerprint: 'fingerprint' },
        (orderId) => {
          const { createdAt: _, ...draft } = planOrder(orderId, { renewal: 'repurchase' })
          return { ...draft, ...orderedBy(caller) }
        },
      )
    },
    debits: async () => {
      const found: RecordedEvent<WalletDebited>[] = []
      for await (const stored of log.readStream(ledgerStream(buyer)))
        if (stored.type === 'WalletDebited') found.push(decode(stored) as RecordedEvent<WalletDebited>)
      return found
    },
    close: () => runner.close(),
  }
}

test('an order of a session names the session and no key; caps of keys neither limit nor count it', async () => {
  const { order, debits, close } = await shop()
  for (const payer of [person, person, key, person]) await order(payer)
  await assert.rejects(order(key), { code: 'spend_cap_reached' })
  await order(person)
  assert.deepEqual(
    (await debits()).map(({ data, metadata }) => [data.order.keyId, data.order.capKeyId, metadata.actor]),
    [
      [null, undefined, session],
      [null, undefined, session],
      [keyId, undefined, { kind: 'key', accountId: buyer, keyId }],
      [null, undefined, session],
      [null, undefined, session],
    ],
  )
  await close()
})

test('a session of another account pays nothing', async () => {
  const { order, debits, close } = await shop()
  for (const subjectId of ['acc_other', 'stf_operator'])
    await assert.rejects(order({ ...person, actor: { ...session, subjectId } }), /cannot pay for acc_buyer/)
  assert.deepEqual(await debits(), [])
  await close()
})

test('verification finds orders paid by a session or a key without the right', () => {
  const found = (ordered: KeyId | null, actor: Actor): string => {
    let said = ''
    const rows = {
      get: () => undefined,
      put: (_: unknown, { rule, problem }: Partial<ViolationRow>) => {
        if (rule === 'order-payer') said = `${rule}: ${problem}`
      },
    } as unknown as Rows
    const event = {
      type: 'WalletDebited',
      stream: ledgerStream(buyer),
      position: 1,
      data: { order: planOrder('ord_one', { keyId: ordered }) },
      metadata: { actor },
    }
    orderRules.apply(event as never, rows)
    return said
  }
  const byKey = (accountId: string): Actor => ({ kind: 'key', accountId, keyId })
  assert.equal(found(null, session), '')
  assert.equal(found(keyId, byKey(buyer)), '')
  assert.equal(found(null, { kind: 'system', name: 'completion' }), '')
  assert.match(
    found(keyId, session),
    /^order-payer: a session paid order ord_one, which names key key_capped/,
  )
  assert.match(found(null, { ...session, subjectId: 'acc_other' }), /a session of acc_other paid/)
  assert.match(found(null, byKey(buyer)), /key key_capped paid order ord_one, which names no key/)
  assert.match(found(keyId, byKey('acc_other' as AccountId)), /a key of acc_other paid/)
})
