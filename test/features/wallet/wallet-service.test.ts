import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createWallets, startMovementReactor } from '../../../src/features/wallet/wallet-service.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import { type AccountId, newEventId } from '../../../src/kernel/ids.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import { CommandOverload } from '../../../src/platform/commands/command.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { runnerOver, signAgain, snapshotsIn } from '../../platform/commands/world.ts'
import { prefixLog } from '../../support/prefix-log.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { until } from '../../support/until.ts'
import { buyer, cause, projectedWorld, serviceWorld } from '../accounts/world.ts'

test('a wallet is credited once per reference, by any process', async (t) => {
  const world = await serviceWorld(t)
  const { accountId } = await buyer(world)
  const credit = { accountId, amountCents: 2_500, reference: 'invoice 7' }
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      (n % 2 === 0 ? world : world.elsewhere).wallets.credit(credit, cause),
    ),
  )
  assert.deepEqual(
    answers.filter(({ outcome }) => outcome === 'applied'),
    [{ outcome: 'applied', amountMicros: 25_000_000, balanceCents: 2_500 }],
  )
  for (const answer of answers)
    if (answer.outcome === 'refused') assert.equal(answer.refusal.code, 'already_applied')
  assert.equal((await world.wallets.read(accountId, cause)).availableMicros, 25_000_000)
})

test('an unknown account is refused and its reference stays free', async (t) => {
  const { wallets, log } = await serviceWorld(t)
  const credit = { accountId: 'acc_none' as AccountId, amountCents: 1, reference: 'a' }
  assert.deepEqual(await wallets.credit(credit, cause), {
    outcome: 'refused',
    refusal: { code: 'unknown_account' },
  })
  assert.equal(await log.head(), 0)
})

test('a correction below zero is refused with the figures, and nothing is written', async (t) => {
  const world = await serviceWorld(t)
  const { accountId } = await buyer(world)
  const head = await world.log.head()
  const adjustment = {
    accountId,
    amountCents: -1,
    reference: 'a',
    reason: 'correction',
    gateway: null,
  } as const
  assert.deepEqual(await world.wallets.adjust(adjustment, cause), {
    outcome: 'refused',
    refusal: { code: 'insufficient_balance', balanceCents: 0, amountCents: 1, shortfallCents: 1 },
  })
  assert.equal(await world.log.head(), head)
})

test('a chargeback takes the balance, records the rest as a debt and blocks the account', async (t) => {
  const world = await serviceWorld(t)
  const { accountId } = await buyer(world)
  await world.wallets.credit({ accountId, amountCents: 300, reference: 'seed' }, cause)
  const chargeback = { reference: 'cb', reason: 'chargeback', gateway: 'stripe' } as const
  const taken = await world.elsewhere.wallets.adjust({ accountId, amountCents: -500, ...chargeback }, cause)
  assert.deepEqual(taken, { outcome: 'applied', amountMicros: -5_000_000, balanceCents: 0 })
  assert.deepEqual(await world.wallets.read(accountId, cause), {
    availableMicros: 0,
    heldMicros: 0,
    receivableMicros: 2_000_000,
  })
  assert.equal((await world.accounts.read(accountId, cause))!.blocked, true)
})

/** A log that writes this many appends and is then gone. */
const goneAfter = (log: EventLog, appends: number): EventLog => {
  let count = 0
  return prefixLog(log, () => (count++ < appends ? null : { kind: 'unavailable' }))
}

const cutOff = async (t: TestContext, appends: number) => {
  const world = await serviceWorld(t)
  const { accountId } = await buyer(world)
  await world.wallets.credit({ accountId, amountCents: 100, reference: 'seed' }, cause)
  const runner = runnerOver(goneAfter(world.log, appends))
  t.after(() => runner.close())
  return { ...world, accountId, dying: createWallets({ runner }) }
}

for (const appends of [0, 1, 2])
  test(`a credit interrupted after ${appends} of 3 appends is completed by the next attempt, once`, async (t) => {
    const { accountId, dying, wallets, elsewhere } = await cutOff(t, appends)
    const credit = { accountId, amountCents: 30, reference: 'a' }
    await assert.rejects(dying.credit(credit, cause), CommandOverload)
    const moved = appends === 2
    assert.equal((await wallets.credit(credit, cause)).outcome, moved ? 'refused' : 'applied')
    const again = await elsewhere.wallets.credit(credit, cause)
    assert.ok(again.outcome === 'refused' && again.refusal.code === 'already_applied')
    assert.equal((await wallets.read(accountId, cause)).availableMicros, 1_300_000)
  })

for (const appends of [0, 1, 2, 3])
  test(`a chargeback interrupted after ${appends} of 4 appends blocks before it takes, takes once and names its deposit`, async (t) => {
    const { accountId, accounts, dying, wallets, elsewhere, log } = await cutOff(t, appends)
    const chargeback = {
      accountId,
      amountCents: -130,
      reference: 'a',
      reason: 'chargeback',
      gateway: 'stripe',
      depositId: 'dep_1',
    } as const
    await assert.rejects(dying.adjust(chargeback, cause), CommandOverload)
    assert.equal((await accounts.read(accountId, cause))!.blocked, appends >= 2)
    await wallets.adjust(chargeback, cause)
    const again = await elsewhere.wallets.adjust(chargeback, cause)
    assert.ok(again.outcome === 'refused' && again.refusal.code === 'already_applied')
    const { availableMicros, receivableMicros } = await wallets.read(accountId, cause)
    assert.deepEqual([availableMicros, receivableMicros], [0, 300_000])
    assert.equal((await accounts.read(accountId, cause))!.blocked, true)
    const taken = (await log.readAll(0, 100)).filter(({ type }) => type === 'WalletAdjusted')
    assert.deepEqual(
      taken.map(({ data }) => JSON.parse(data).depositId),
      ['dep_1'],
    )
  })

test('the reactor completes a movement that is not retried, and withdraws one that the wallet cannot cover', async (t) => {
  const world = await projectedWorld(t)
  const { pool, log, logger, wallets } = world
  const { accountId } = await buyer(world)
  await wallets.credit({ accountId, amountCents: 100, reference: 'seed' }, cause)
  const cutOff = async (amountCents: number, reference: string) => {
    const runner = runnerOver(goneAfter(log, 1))
    t.after(() => runner.close())
    const adjustment = { accountId, amountCents, reference, reason: 'correction', gateway: null } as const
    await assert.rejects(createWallets({ runner }).adjust(adjustment, cause), CommandOverload)
  }
  const beforeMs = Date.now()
  await cutOff(-80, 'first')
  await cutOff(-70, 'second')
  await until(() => world.projections.caughtUp())
  const soon = { scheduler: testScheduler(), pool, wallets, logger, intervalMs: 50 }
  const young = startMovementReactor({ ...soon, clock: () => beforeMs })
  t.after(() => young.stop())
  await young.runNow()
  assert.equal((await wallets.read(accountId, cause)).availableMicros, 1_000_000)
  const reactor = startMovementReactor({ ...soon, clock: () => Date.now() + 6_000 })
  t.after(() => reactor.stop())
  const open = async () => (await pool.query('select 1 from read.open_movements')).rowCount
  await until(async () => (await open()) === 0)
  assert.equal((await wallets.read(accountId, cause)).availableMicros, 200_000)
  const types = (await log.readAll(0, 100)).map(({ type }) => type)
  assert.equal(types.filter((type) => type === 'ManualMovementWithdrawn').length, 1)
})

test('a movement of an unreadable wallet delays no other', async (t) => {
  const world = await projectedWorld(t)
  const { pool, log, logger, wallets } = world
  const buyers = [await buyer(world), await buyer(world, { email: 'another@example.com' })] as const
  for (const { accountId } of buyers) {
    const runner = runnerOver(goneAfter(log, 1))
    t.after(() => runner.close())
    const credit = { accountId, amountCents: 100, reference: 'gift' }
    await assert.rejects(createWallets({ runner }).credit(credit, cause), CommandOverload)
  }
  const event = {
    id: newEventId(),
    type: 'WalletForgotten',
    data: '{}',
    metadata: JSON.stringify({ ...cause, recordedAt: isoTime(Date.now()) }),
  }
  await log.append(ledgerStream(buyers[0].accountId), 'noStream', [event])
  // The books stop at the unknown event: only the other groups catch up.
  await until(async () => (await pool.query('select from read.open_movements')).rowCount === 2)
  const reactor = startMovementReactor({
    scheduler: testScheduler(),
    pool,
    wallets,
    logger,
    clock: () => Date.now() + 6_000,
  })
  t.after(() => reactor.stop())
  await assert.rejects(reactor.runNow(), /unknown ledger event/)
  assert.equal((await wallets.read(buyers[1].accountId, cause)).availableMicros, 1_000_000)
})

const spoiled = {
  'whose balance is not what its event left': { credits: 6, member: 'availableMicros', value: '99000000' },
  'that the next event cannot follow': { credits: 10, member: 'heldMicros', value: '-1' },
} as const

for (const [what, { credits, member, value }] of Object.entries(spoiled))
  test(`a snapshot ${what} is not used for decisions`, async (t) => {
    const world = await serviceWorld(t)
    const { pool, log } = world
    const { accountId } = await buyer(world)
    let nowMs = Date.now()
    const limits = { snapshotMinEvents: 5, snapshotEveryMs: 0 }
    const options = { snapshots: snapshotsIn(pool), limits, clock: () => nowMs }
    const runner = runnerOver(log, options)
    for (let n = 1; n <= credits; n += 1) {
      await createWallets({ runner }).credit({ accountId, amountCents: 100, reference: `${n}` }, cause)
      // Snapshots are of wallets that have forgotten most of what they did.
      nowMs += 4 * 24 * 60 * 60 * 1000
    }
    await runner.close()
    const { rows } = await pool.query('select revision from engine.snapshots')
    assert.deepEqual(rows, [{ revision: 5 }])
    await pool.query(
      'update engine.snapshots set state = jsonb_set(state::jsonb, array[$1::text], $2::jsonb)::text',
      [member, value],
    )
    await signAgain(pool)
    const restarted = runnerOver(log, options)
    t.after(() => restarted.close())
    const wallets = createWallets({ runner: restarted })
    assert.equal((await wallets.read(accountId, cause)).availableMicros, credits * 1_000_000)
  })
