import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accountFold } from '../../../src/domain/accounts/fold.ts'
import { decideManual, manualStream } from '../../../src/domain/ledger/decide-manual.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import type { ManualMovement } from '../../../src/domain/ledger/manual-movements.ts'
import { manualFold } from '../../../src/domain/ledger/manual-movements.ts'
import { movementKey, recallMovement } from '../../../src/domain/ledger/movements.ts'
import { postingsOf } from '../../../src/domain/ledger/postings.ts'
import type { Fold } from '../../../src/kernel/decider.ts'
import type { DomainEvent } from '../../../src/kernel/event.ts'
import { rememberedMs } from '../../../src/kernel/recent-ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { accountStream, ledgerStream } from '../../../src/kernel/streams.ts'
import fc from '../../support/fast-check.ts'
import { account, startMs } from './support.ts'

/** Streams as lists, written append by append, so that the end of an item can be lost as on a log without atomic items. */
const createWorld = () => {
  const streams = new Map<StreamName, { event: DomainEvent; atMs: number }[]>()
  // biome-ignore lint/suspicious/noExplicitAny: a fold is handed only its own stream's events
  const read = <State>(stream: StreamName, fold: Fold<State, any>): State =>
    (streams.get(stream) ?? []).reduce(
      (state, { event, atMs }, revision) => fold.evolve(state, { ...event, revision, recordedAtMs: atMs }),
      fold.initial,
    )
  const write = (stream: StreamName, event: DomainEvent, atMs: number) =>
    streams.set(stream, [...(streams.get(stream) ?? []), { event, atMs }])
  return {
    read,
    write,
    ledger: () => (streams.get(ledgerStream(account)) ?? []).map(({ event }) => event as LedgerEvent),
    /** Decides the movement and writes its first appends, or all if `appended` is omitted. */
    move(movement: ManualMovement, atMs: number, appended = Number.POSITIVE_INFINITY) {
      const states = {
        account: read(accountStream(account), accountFold),
        movement: read(manualStream(movement), manualFold),
        ledger: read(ledgerStream(account), ledgerFold),
      }
      const { appends, answer } = decideManual(states, movement)
      for (const { stream, events } of appends.slice(0, appended))
        for (const event of events) write(stream, event, atMs)
      return { answer, whole: appended >= appends.length, appends: appends.length }
    },
  }
}

const createAccount = (world: ReturnType<typeof createWorld>, reseller = false) => {
  const event = { type: 'AccountCreated', data: { accountId: account, reseller } }
  world.write(accountStream(account), event, startMs)
  return world
}

const credit = (reference: string, amountMicros: number): ManualMovement => ({
  kind: 'credit',
  accountId: account,
  reference,
  amountMicros,
})
const adjustment = (
  reference: string,
  amountMicros: number,
  reason: 'correction' | 'chargeback' | 'deposit_refund' = 'correction',
): ManualMovement => ({
  kind: 'adjustment',
  accountId: account,
  reference,
  reason,
  gateway: reason === 'correction' ? null : 'stripe',
  amountMicros,
})

const ofCustomer =
  (reason: 'payment' | 'chargeback') =>
  (reference: string, amountMicros: number): ManualMovement => ({
    kind: 'customer',
    accountId: account,
    customerId: 'cus_a',
    reference,
    reason,
    gateway: reason === 'chargeback' ? 'stripe' : null,
    amountMicros,
  })

test('an account that does not exist cannot be credited', () => {
  const { answer, appends } = createWorld().move(credit('a', 10), startMs)
  assert.deepEqual(answer, { outcome: 'refused', refusal: { code: 'unknown_account' } })
  assert.equal(appends, 0)
})

test('a manual credit is applied once, and its reference stays used after the wallet no longer remembers it', () => {
  const world = createAccount(createWorld())
  assert.deepEqual(world.move(credit('a', 30_000), startMs).answer, {
    outcome: 'applied',
    amountMicros: 30_000,
    balanceCents: 3,
  })
  const keyOfA = movementKey.credit({ source: 'manual', gateway: 'manual', reference: 'a' })
  assert.ok(recallMovement(world.read(ledgerStream(account), ledgerFold), keyOfA))
  for (let day = 1; day < 20; day += 1)
    world.move(credit(`day ${day}`, 1), startMs + day * (rememberedMs / 7))
  assert.equal(recallMovement(world.read(ledgerStream(account), ledgerFold), keyOfA), undefined)
  assert.deepEqual(world.move(credit('a', 99_000), startMs + 30 * (rememberedMs / 7)), {
    answer: { outcome: 'refused', refusal: { code: 'already_applied', amountMicros: 30_000, isSame: false } },
    whole: true,
    appends: 0,
  })
})

test('a credit and an adjustment may use the same reference', () => {
  const world = createAccount(createWorld())
  assert.equal(world.move(credit('a', 30_000), startMs).answer.outcome, 'applied')
  assert.equal(world.move(adjustment('a', -10_000), startMs).answer.outcome, 'applied')
})

test('an interrupted credit is applied as recorded, whatever the retry requests', () => {
  const world = createAccount(createWorld())
  world.move(credit('a', 30_000), startMs, 1)
  const { answer } = world.move(credit('a', 99_000), startMs + 1)
  assert.deepEqual(answer, {
    outcome: 'refused',
    refusal: { code: 'already_applied', amountMicros: 30_000, isSame: false },
  })
  assert.equal(world.read(ledgerStream(account), ledgerFold).availableMicros, 30_000)
})

test('a recorded adjustment that the wallet can no longer cover frees its reference', () => {
  const world = createAccount(createWorld())
  world.move(credit('seed', 30_000), startMs)
  world.move(adjustment('a', -20_000), startMs + 1, 1)
  world.move(adjustment('b', -20_000), startMs + 2)
  const refused = world.move(adjustment('a', -20_000), startMs + 3).answer
  assert.ok(refused.outcome === 'refused' && refused.refusal.code === 'insufficient_balance')
  assert.equal(world.move(adjustment('a', -10_000), startMs + 4).answer.outcome, 'applied')
})

test("a movement that may predate the wallet's memory is not applied again", () => {
  const world = createAccount(createWorld())
  world.move(credit('a', 30_000), startMs, 2)
  const keyOfA = movementKey.credit({ source: 'manual', gateway: 'manual', reference: 'a' })
  assert.ok(recallMovement(world.read(ledgerStream(account), ledgerFold), keyOfA))
  for (let day = 1; day < 20; day += 1)
    world.move(credit(`day ${day}`, 1), startMs + day * (rememberedMs / 7))
  const { answer } = world.move(credit('a', 30_000), startMs + 3 * rememberedMs)
  assert.deepEqual(answer, { outcome: 'refused', refusal: { code: 'unconfirmed', recordedAtMs: startMs } })
})

test('a chargeback blocks the account before it takes the money', () => {
  const world = createAccount(createWorld())
  world.move(adjustment('cb', -50_000, 'chargeback'), startMs, 2)
  assert.equal(world.read(accountStream(account), accountFold)!.blocked, true)
  assert.equal(world.read(ledgerStream(account), ledgerFold).receivableMicros, 0)
  assert.equal(world.move(adjustment('cb', -50_000, 'chargeback'), startMs + 1).answer.outcome, 'applied')
  assert.equal(world.read(ledgerStream(account), ledgerFold).receivableMicros, 50_000)
})

test('a refund at the provider leaves a debt, and does not block the account', () => {
  const world = createAccount(createWorld())
  world.move(credit('seed', 30_000), startMs)
  const refund = adjustment('re', -50_000, 'deposit_refund')
  assert.equal(world.move(refund, startMs + 1).answer.outcome, 'applied')
  assert.equal(world.read(accountStream(account), accountFold)!.blocked, false)
  assert.equal(world.read(ledgerStream(account), ledgerFold).receivableMicros, 20_000)
})

test('neither a correction nor a returned chargeback blocks the account', () => {
  const world = createAccount(createWorld())
  world.move(credit('seed', 30_000), startMs)
  assert.equal(world.move(adjustment('a', -10_000), startMs + 1).answer.outcome, 'applied')
  assert.equal(world.move(adjustment('won', 10_000, 'chargeback'), startMs + 2).answer.outcome, 'applied')
  assert.equal(world.read(accountStream(account), accountFold)!.blocked, false)
})

test('an interrupted adjustment keeps its reason when it is retried with another one', () => {
  for (const move of [
    adjustment,
    (...[ref, by, reason]: Parameters<typeof adjustment>) =>
      ofCustomer(reason === 'chargeback' ? reason : 'payment')(ref, by),
  ]) {
    const world = createAccount(createWorld(), true)
    world.move(move('a', 30_000), startMs, 1)
    const { answer } = world.move(move('a', 30_000, 'chargeback'), startMs + 1)
    assert.deepEqual(answer, {
      outcome: 'refused',
      refusal: { code: 'already_applied', amountMicros: 30_000, isSame: false },
    })
    const [moved] = world.ledger()
    assert.notEqual(moved && 'reason' in moved.data && moved.data.reason, 'chargeback')
  }
})

test('a disputed movement names the deposit, and a manual one names none', () => {
  for (const move of [adjustment, ofCustomer('chargeback')]) {
    const world = createAccount(createWorld(), true)
    world.move({ ...move('cb', 10), depositId: 'dep_a' } as ManualMovement, startMs)
    world.move(move('hand', 10), startMs + 1)
    assert.deepEqual(
      world.ledger().map(({ data }) => 'depositId' in data && data.depositId),
      ['dep_a', false],
    )
  }
})

for (const [what, more, less] of [
  [
    'what a wallet has',
    (ref: string, by: number) => credit(ref, by),
    (ref: string, by: number) => adjustment(ref, 0 - by),
  ],
  ['what a wallet owes', (ref: string, by: number) => adjustment(ref, 0 - by, 'chargeback'), credit],
  [
    'what a customer has',
    ofCustomer('payment'),
    (ref: string, by: number) => ofCustomer('payment')(ref, 0 - by),
  ],
  [
    'what a customer owes',
    (ref: string, by: number) => ofCustomer('chargeback')(ref, 0 - by),
    ofCustomer('payment'),
  ],
] as const)
  test(`more ${what} than can be counted exactly is refused before anything is written, and its reference stays free`, () => {
    const world = createAccount(createWorld(), true)
    const most = Number.MAX_SAFE_INTEGER
    assert.equal(world.move(more('most', most), startMs).answer.outcome, 'applied')
    const before = world.ledger().length
    for (const by of [1, most]) {
      const { answer, appends } = world.move(more('over', by), startMs + 1)
      assert.deepEqual([answer, appends], [{ outcome: 'refused', refusal: { code: 'invalid_amount' } }, 0])
    }
    assert.equal(world.ledger().length, before)
    assert.equal(world.move(less('room', 2), startMs + 2).answer.outcome, 'applied')
    assert.equal(world.move(more('over', 1), startMs + 3).answer.outcome, 'applied')
  })

test("a recorded credit that exceeds the wallet's maximum is withdrawn", () => {
  const world = createAccount(createWorld())
  world.move(credit('a', 10), startMs, 1)
  world.move(credit('b', Number.MAX_SAFE_INTEGER), startMs + 1)
  const refused = world.move(credit('a', 10), startMs + 2).answer
  assert.deepEqual(refused, { outcome: 'refused', refusal: { code: 'invalid_amount' } })
  assert.equal(world.read(manualStream(credit('a', 10)), manualFold)?.status, 'withdrawn')
})

const movement: fc.Arbitrary<ManualMovement> = fc.oneof(
  fc
    .record({ reference: fc.constantFrom('a', 'b', 'c'), amountMicros: fc.integer({ min: 1, max: 50_000 }) })
    .map(({ reference, amountMicros }) => credit(reference, amountMicros)),
  fc
    .record({
      reference: fc.constantFrom('a', 'b', 'c'),
      amountMicros: fc.integer({ min: -60_000, max: 20_000 }).filter((amount) => amount !== 0),
      reason: fc.constantFrom('correction' as const, 'chargeback' as const, 'deposit_refund' as const),
    })
    .map(({ reference, amountMicros, reason }) => adjustment(reference, amountMicros, reason)),
  fc
    .record({
      customerId: fc.constantFrom('cus_a', 'cus_b'),
      reference: fc.constantFrom('a', 'b'),
      amountMicros: fc.integer({ min: -60_000, max: 20_000 }).filter((amount) => amount !== 0),
      reason: fc.constantFrom('payment' as const, 'chargeback' as const),
    })
    .map(({ reason, ...rest }) => ({
      kind: 'customer' as const,
      accountId: account,
      reason,
      gateway: reason === 'chargeback' ? 'stripe' : null,
      ...rest,
    })),
)

test('only resellers have customer credit that can be moved', () => {
  const world = createAccount(createWorld())
  const payment = { kind: 'customer', customerId: 'cus_a', reference: 'a', reason: 'payment' } as const
  const { answer, appends } = world.move(
    { ...payment, accountId: account, gateway: null, amountMicros: 1 },
    startMs,
  )
  assert.deepEqual(answer, { outcome: 'refused', refusal: { code: 'not_a_reseller' } })
  assert.equal(appends, 0)
})

test('invariant: interrupted anywhere and retried in any order, a reference moves the wallet at most once, as requested', () => {
  const attempts = fc.array(fc.record({ movement, appended: fc.oneof(fc.nat(4), fc.constant(99)) }), {
    maxLength: 40,
    size: 'max',
  })
  fc.assert(
    fc.property(attempts, (list) => {
      const world = createAccount(createWorld(), true)
      let nowMs = startMs
      for (const { movement: request, appended } of list) {
        nowMs += 1_000
        const before = world.ledger().length
        const { answer, whole } = world.move(request, nowMs, appended)
        const news = world.ledger().slice(before)
        if (!whole) continue
        if (answer.outcome === 'applied')
          assert.deepEqual(
            news.map(({ data }) => data.amountMicros),
            [request.amountMicros],
          )
        if (answer.outcome === 'refused' && answer.refusal.code === 'insufficient_balance')
          assert.equal(news.length, 0)
        const standing = world.read(manualStream(request), manualFold)
        assert.notEqual(standing?.status, 'recorded')
      }
      const moved = world
        .ledger()
        .map(({ type, data }) =>
          'reference' in data
            ? `${type} ${'customerId' in data ? data.customerId : ''} ${data.reference}`
            : '',
        )
      assert.equal(new Set(moved).size, moved.length)
    }),
    { numRuns: 300 },
  )
})

test('a bad debt is written off to the micro-dollar, and no more than is owed', () => {
  const world = createAccount(createWorld())
  const writeOff = (reference: string, amountMicros: number): ManualMovement => ({
    kind: 'adjustment',
    accountId: account,
    reference,
    reason: 'bad_debt',
    gateway: null,
    amountMicros,
  })
  const dispute = { kind: 'adjustment', accountId: account, reference: 'dp_1', reason: 'chargeback' } as const
  world.move({ ...dispute, gateway: 'stripe', amountMicros: -35_831_000 }, startMs)
  assert.deepEqual(world.move(writeOff('more', 35_831_001), startMs).answer, {
    outcome: 'refused',
    refusal: { code: 'not_owed', owedMicros: 35_831_000 },
  })
  world.move(writeOff('all', 35_831_000), startMs)
  const { availableMicros, receivableMicros } = world.read(ledgerStream(account), ledgerFold)
  assert.deepEqual([availableMicros, receivableMicros], [0, 0])
  const [, event] = world.ledger()
  assert.deepEqual(
    postingsOf(event!, { accountId: account, reseller: false }).map((posting) => [
      posting.account,
      posting.debitMicros,
      posting.creditMicros,
    ]),
    [
      ['expenses:bad-debts', 35_831_000, 0],
      [`assets:receivable:${account}`, 0, 35_831_000],
    ],
  )
})
