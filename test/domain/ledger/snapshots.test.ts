import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideDebit } from '../../../src/domain/ledger/decide.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { movementKey, recallMovement } from '../../../src/domain/ledger/movements.ts'
import { decided } from '../../../src/kernel/decider.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { handle, readState } from '../../../src/platform/commands/command.ts'
import {
  beginningsOfReads,
  postgresWorld,
  runnerOver,
  signAgain,
  snapshotFrom,
  snapshotsIn,
} from '../../platform/commands/world.ts'
import { account, credited, orderOf } from './support.ts'

const command = { name: 'pay', correlationId: 'test', actor: { kind: 'system', name: 'test' } } as const
const wallet = { stream: ledgerStream(account), fold: ledgerFold }

/**
 * A wallet's snapshot of release 0.2.0, with a memory for each kind of movement. Its balance equals the
 * log's, and it lacks a paid order, so that a decision on it would charge the order again.
 */
const snapshotOf020 = (availableMicros: number): string => {
  const none = { forgottenMs: -1, entries: [] }
  return JSON.stringify({
    ...{ availableMicros, heldMicros: 0, receivableMicros: 0, holds: [], spend: [], customers: [] },
    ...{ credits: none, adjustments: none, debits: none, resolvedHolds: none, customerMovements: none },
  })
}

test('a snapshot of release 0.2.0 is ignored: the wallet is folded from its events, and no order is paid twice', async (t) => {
  const { wire, elsewhere, pool } = await postgresWorld(t)
  const warnings: string[] = []
  const options = {
    snapshots: snapshotsIn(pool),
    limits: { snapshotMinEvents: 10, snapshotEveryMs: 0 },
    logger: { warn: (_: object, message: string) => warnings.push(message), error: () => undefined },
  }
  const runner = runnerOver(wire, options)
  const orders = Array.from({ length: 30 }, (_, n) =>
    orderOf({ orderId: `ord_${n}` as never, amountCents: 1 }),
  )
  await handle(runner, command, wallet, () => decided(credited(10_000_000)))
  const pay = (by: typeof runner, order: (typeof orders)[number]) =>
    handle(by, command, wallet, (state, { nowMs }) => decideDebit(state, { order, cap: null }, nowMs))
  for (const order of orders) assert.equal((await pay(runner, order)).outcome, 'done')
  await snapshotFrom(pool, 20)
  await runner.close()
  await pool.query(`update engine.snapshots set version = 2, state = $1::text`, [
    snapshotOf020(10_000_000 - 30 * 10_000),
  ])
  await signAgain(pool)

  const begun = beginningsOfReads(wire, elsewhere)
  const upgraded = runnerOver(wire, options)
  const again = await pay(upgraded, orders[3]!)
  assert.ok(again.outcome === 'refused' && again.refusal.code === 'already_debited')
  assert.equal(again.refusal.revision, 4)
  assert.equal(begun[0], 0, 'the whole stream is read')
  const state = await readState(upgraded, command, wallet)
  assert.equal(state.availableMicros, 10_000_000 - 30 * 10_000)
  for (const { orderId } of orders) assert.ok(recallMovement(state, movementKey.debit(orderId)))
  assert.deepEqual(warnings, [], 'by its version, before anything of it is read')
  await upgraded.close()
})
