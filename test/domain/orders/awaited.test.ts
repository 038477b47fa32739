import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AccountState, accountFold } from '../../../src/domain/accounts/fold.ts'
import {
  cancelReasonOf,
  creditingOf,
  decideDepositCancellation,
  decideReceipt,
  type ReportedInvoice,
} from '../../../src/domain/deposits/decide.ts'
import type { DepositDetails } from '../../../src/domain/deposits/events.ts'
import { depositFold } from '../../../src/domain/deposits/fold.ts'
import { customerPurse } from '../../../src/domain/ledger/fold.ts'
import { movementKey, recallMovement } from '../../../src/domain/ledger/movements.ts'
import {
  decideAwaitedAlone,
  decideAwaiting,
  decideCancellation,
  decideCancellationOfClosed,
  decideCancellationOfUncovered,
  resellerFundsTimeoutMs,
} from '../../../src/domain/orders/decide-awaited.ts'
import { decideCompletion } from '../../../src/domain/orders/decide-completion.ts'
import { allocationOwnerOf, decidePlacement } from '../../../src/domain/orders/decide-placement.ts'
import type { CancelReason } from '../../../src/domain/orders/events.ts'
import { orderFold } from '../../../src/domain/orders/fold.ts'
import { decideRefund } from '../../../src/domain/orders/refunds.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import type { Appends } from '../../../src/kernel/decider.ts'
import type { DepositId, KeyId } from '../../../src/kernel/ids.ts'
import { accountStream, depositStream, ledgerStream, orderStream } from '../../../src/kernel/streams.ts'
import {
  addressOrder,
  appendTo,
  buyer,
  credit,
  customer,
  emptyWorld,
  forCustomer,
  stateOf,
  statesFor,
  stock,
  type World,
} from '../../support/world.ts'

const start = 1_800_000_000_000
const later = start + 60_000
const depositId = 'dep_1' as DepositId
const ips = ['198.18.0.1', '198.18.0.2']

const own = addressOrder('ord_own', { method: 'card' })
const forAlice = forCustomer(addressOrder('ord_alice', { method: 'card' }))

const detailsOf = (order: OrderDetails, amountCents: number): DepositDetails => ({
  depositId,
  accountId: buyer,
  customerId: order.customerId,
  rail: 'card',
  amountCents,
  gatewayId: 'gateway',
  provider: 'stripe',
  merchantName: 'Shop',
  fingerprint: order.fingerprint,
  pending: { order },
})

const account = (world: World, ...more: { type: string; data: object }[]): World =>
  appendTo(
    world,
    [
      {
        stream: accountStream(buyer),
        events: [
          { type: 'AccountCreated', data: { accountId: buyer, reseller: true } },
          {
            type: 'KeyIssued',
            data: { keyId: 'key_one', scopes: ['buy'], dailyCapCents: null, displayPrefix: 'fbx_' },
          },
          ...more,
        ],
      },
    ],
    start,
  )

/** A world in which the order's invoice is open; `noted`: and its own stream says so. */
const invoiced = (world: World, order: OrderDetails, noted = true): World => {
  const opened = appendTo(
    world,
    [
      {
        stream: depositStream(depositId),
        events: [
          {
            type: 'DepositOpened',
            data: { ...detailsOf(order, 1_000), openedAt: '2026-11-21T00:00:00.000Z' },
          },
        ],
      },
    ],
    start,
  )
  if (!noted) return opened
  return appendTo(opened, decideAwaiting(statesFor(opened, order), { order, depositId }).appends, start)
}

const accountOf = (world: World): AccountState => stateOf(world, accountStream(buyer), accountFold)

const paid = (cents: number, status: ReportedInvoice['status'] = 'paid'): ReportedInvoice => ({
  status,
  payments: [{ paymentId: 'pi_1', amountMicros: cents * 10_000 }],
})

/** One poll of the provider: at most one payment is credited, and places the order. */
const receive = (
  world: World,
  order: OrderDetails,
  reported: ReportedInvoice,
  atMs: number,
  orderable = true,
) => {
  const crediting = creditingOf(detailsOf(order, 1_000), orderable)
  const states = {
    ...statesFor(world, order),
    account: accountOf(world),
    deposit: stateOf(world, depositStream(depositId), depositFold),
  }
  return decideReceipt(states, reported, crediting, atMs)
}

const tryAgain = (world: World, order: OrderDetails, atMs: number) =>
  decideAwaitedAlone(
    { ...statesFor(world, order), account: accountOf(world) },
    { order, depositId, orderable: true },
    atMs,
  )

const debitOf = (world: World, order: OrderDetails) => {
  const debit = recallMovement(statesFor(world, order).ledger, movementKey.debit(order.orderId))
  return debit === undefined ? null : { order, availableAfterMicros: debit.availableAfterMicros }
}

/**
 * The automatic work of the poller and the completion reactor, one append at a time: the slowest crash of
 * all.
 */
const settled = (world: World, order: OrderDetails, reported: ReportedInvoice): World => {
  let now = world
  for (let step = 0; step < 30; step += 1) {
    const debit = debitOf(now, order)
    const completion = debit ? decideCompletion(statesFor(now, order), debit, later).appends : []
    const receipt = receive(now, order, reported, later).appends
    const next = [...completion, ...(completion.length === 0 ? receipt : [])][0]
    if (!next) return now
    now = appendTo(now, [next], later)
  }
  throw new Error('the order never comes to an end')
}

const ends = (world: World, order: OrderDetails) => {
  const { order: state, ledger } = statesFor(world, order)
  return {
    status: state?.status,
    failureReason: state?.failureReason,
    cancelReason: state?.cancelReason,
    proxyIds: state?.proxyIds,
    availableMicros: ledger.availableMicros,
    creditMicros: customerPurse(ledger, customer).availableMicros,
    deposit: stateOf(world, depositStream(depositId), depositFold)?.status,
  }
}

const prefixesOf = (appends: Appends) =>
  Array.from({ length: appends.length + 1 }, (_, length) => appends.slice(0, length))

const funded = account(stock(credit(emptyWorld, 2_000, start), ips, start))

describe('every prefix of a payment that places an order', () => {
  for (const [name, order] of [
    ['of its own', own],
    ['for a customer', forAlice],
  ] as const)
    for (const noted of [true, false]) {
      const world = invoiced(funded, order, noted)
      const decision = receive(world, order, paid(1_000), start)
      const whole = ends(appendTo(world, decision.appends, start), order)
      for (const prefix of prefixesOf(decision.appends))
        test(`${name}, ${noted ? 'noted' : 'not noted'} before, cut after ${prefix.length} of ${decision.appends.length} appends, ends as the complete one does`, () => {
          assert.deepEqual([whole.status, whole.deposit], ['completed', 'paid'])
          const end = settled(appendTo(world, prefix, start), order, paid(1_000))
          const { proxyIds, ...rest } = ends(end, order)
          const { proxyIds: wholeIds, ...wholeRest } = whole
          assert.deepEqual(rest, wholeRest)
          assert.deepEqual(proxyIds, wholeIds)
        })
    }
})

describe('a payment that places an order', () => {
  test('credits and debits in one ledger append, so that no other order can spend the money between', () => {
    const world = invoiced(account(stock(emptyWorld, ips, start)), own)
    const { appends } = receive(world, own, paid(1_000), start)
    const ledger = appends.filter(({ stream }) => stream === ledgerStream(buyer))
    assert.deepEqual(
      ledger.map(({ events }) => events.map(({ type }) => type)),
      [['WalletCredited', 'WalletDebited']],
    )
    assert.equal(ends(appendTo(world, appends, start), own).availableMicros, 500 * 10_000)
  })

  test('is received once: a second poll and a second callback change nothing', () => {
    const world = invoiced(funded, forAlice)
    const once = appendTo(world, receive(world, forAlice, paid(1_000), start).appends, start)
    assert.deepEqual(receive(once, forAlice, paid(1_000), later).appends, [])
    assert.deepEqual(tryAgain(once, forAlice, later).appends, [])
    const { createdAt: _, ...draft } = forAlice
    const retry = decidePlacement(statesFor(once, forAlice), { draft, cap: null, payAwaited: true }, later)
    assert.deepEqual([retry.appends, retry.answer.kind], [[], 'known'])
  })

  test('that is short is credited, and the order keeps waiting', () => {
    const world = invoiced(funded, forAlice)
    const after = appendTo(world, receive(world, forAlice, paid(300, 'open'), start).appends, start)
    const end = ends(after, forAlice)
    assert.deepEqual([end.status, end.creditMicros], ['awaiting_payment', 300 * 10_000])
  })

  test('that arrives after the invoice closed is only credited', () => {
    for (const order of [own, forAlice]) {
      const world = invoiced(funded, order)
      const { appends } = receive(world, order, { status: 'expired', payments: [] }, start)
      const expired = appendTo(world, appends, start)
      const late = appendTo(expired, receive(expired, order, paid(1_000, 'expired'), later).appends, later)
      const end = ends(late, order)
      assert.equal(end.status, 'awaiting_payment')
      const micros = order === own ? end.availableMicros - 2_000 * 10_000 : end.creditMicros
      assert.equal(micros, 1_000 * 10_000)
    }
  })

  for (const says of ['open', 'processing', 'paid'] as const)
    test(`that arrives after the invoice closed is only credited, even if its provider reports ${says} again`, () => {
      for (const order of [own, forAlice]) {
        const world = invoiced(funded, order)
        const { appends } = receive(world, order, { status: 'expired', payments: [] }, start)
        const expired = appendTo(world, appends, start)
        const late = appendTo(expired, receive(expired, order, paid(1_000, says), later).appends, later)
        const end = ends(late, order)
        assert.deepEqual([end.status, end.deposit], ['awaiting_payment', 'paid'])
        const micros = order === own ? end.availableMicros - 2_000 * 10_000 : end.creditMicros
        assert.equal(micros, 1_000 * 10_000)
      }
    })

  test('in parts that are reported together is credited part by part, and the completing part places the order', () => {
    const parts = [400, 600].map((cents, n) => ({ paymentId: `pi_${n}`, amountMicros: cents * 10_000 }))
    const reported: ReportedInvoice = { status: 'paid', payments: parts }
    let world = invoiced(funded, forAlice)
    const seen: unknown[] = []
    for (let more = true; more; ) {
      const { appends, answer } = receive(world, forAlice, reported, start)
      world = appendTo(world, appends, start)
      more = answer.more
      const { status, creditMicros, deposit } = ends(world, forAlice)
      seen.push([status, creditMicros / 10_000, deposit])
    }
    assert.deepEqual(seen, [
      ['awaiting_payment', 400, 'awaiting_payment'],
      ['completed', 350, 'paid'],
    ])
  })

  for (const status of ['expired', 'failed'] as const)
    for (const order of [own, forAlice])
      test(`of ${order === own ? 'its own' : 'a customer'} that is first reported together with the closing, ${status}, is only credited`, () => {
        const open = invoiced(funded, order)
        const after = appendTo(open, receive(open, order, paid(1_000, status), start).appends, start)
        const end = ends(after, order)
        assert.deepEqual([end.status, end.proxyIds ?? [], end.deposit], ['awaiting_payment', [], 'paid'])
        const micros = order === own ? end.availableMicros - 2_000 * 10_000 : end.creditMicros
        assert.equal(micros, 1_000 * 10_000)
        assert.equal(debitOf(after, order), null, 'the order was paid for')
        const { deposit: _, ...whole } = ends(settled(open, order, paid(1_000, status)), order)
        const { deposit: __, ...same } = end
        assert.deepEqual(whole, same, 'looked at again, it stays so')
      })
})

describe('after the payment', () => {
  const broken: readonly (readonly [string, World, boolean])[] = [
    ['out_of_stock', account(credit(emptyWorld, 2_000, start)), true],
    ['product_unavailable', funded, false],
    [
      'account_blocked',
      account(stock(credit(emptyWorld, 2_000, start), ips, start), {
        type: 'AccountBlocked',
        data: { reason: 'r' },
      }),
      true,
    ],
    [
      'spend_cap_reached',
      account(stock(credit(emptyWorld, 2_000, start), ips, start), {
        type: 'KeyCapped',
        data: { keyId: 'key_one' as KeyId, dailyCapCents: 499 },
      }),
      true,
    ],
  ]
  for (const [reason, world, orderable] of broken)
    for (const order of [own, forAlice])
      test(`${reason} fails the order ${order === own ? 'of its own' : 'of a customer'} at once, and the money stays in the wallet`, () => {
        const before = invoiced(world, order)
        const decision = receive(before, order, paid(1_000), start, orderable)
        const whole = ends(appendTo(before, decision.appends, start), order)
        assert.deepEqual([whole.status, whole.failureReason], ['failed', reason])
        assert.equal(whole.availableMicros, (order === own ? 3_000 : 2_000) * 10_000)
        assert.equal(whole.creditMicros, (order === own ? 0 : 1_000) * 10_000)
        const refund = decideRefund(
          statesFor(appendTo(before, decision.appends, start), order),
          'r',
          { kind: 'whole' },
          later,
        )
        assert.equal(refund.answer.kind, 'refused', 'nothing was paid for it')
      })

  const poor = account(stock(credit(emptyWorld, 499, start), ips, start))

  test('a short reseller wallet delays the order until its next credit', () => {
    const world = invoiced(poor, forAlice)
    const held = appendTo(world, receive(world, forAlice, paid(1_000), start).appends, start)
    assert.equal(ends(held, forAlice).status, 'awaiting_payment')
    assert.equal(statesFor(held, forAlice).order?.awaiting?.missingCents, 1)
    assert.equal(
      statesFor(held, forAlice).order?.awaiting?.heldUntil,
      new Date(start + resellerFundsTimeoutMs).toISOString(),
    )
    assert.deepEqual(tryAgain(held, forAlice, later).appends, [])
    const rich = credit(held, 1, later)
    const placed = ends(appendTo(rich, tryAgain(rich, forAlice, later).appends, later), forAlice)
    assert.deepEqual(
      [placed.status, placed.availableMicros, placed.creditMicros],
      ['completed', 0, 350 * 10_000],
    )
  })

  test('the order fails after a day, and the customer keeps the credit', () => {
    const world = invoiced(poor, forAlice)
    const held = appendTo(world, receive(world, forAlice, paid(1_000), start).appends, start)
    assert.deepEqual(tryAgain(held, forAlice, start + resellerFundsTimeoutMs - 1).appends, [])
    const over = appendTo(
      held,
      tryAgain(held, forAlice, start + resellerFundsTimeoutMs).appends,
      start + resellerFundsTimeoutMs,
    )
    const end = ends(over, forAlice)
    assert.deepEqual([end.status, end.failureReason], ['failed', 'insufficient_balance'])
    assert.equal(end.creditMicros, 1_000 * 10_000)
  })

  test('the order is canceled as soon as the credit no longer covers it, because it was spent on another order', () => {
    const world = invoiced(poor, forAlice)
    const held = appendTo(world, receive(world, forAlice, paid(1_000), start).appends, start)
    const rich = credit(held, 1_000, start)
    const other = forCustomer(addressOrder('ord_other'))
    const placed = decidePlacement(statesFor(rich, other), { draft: other, cap: null }, start)
    assert.equal(placed.answer.kind, 'placed')
    const spent = appendTo(rich, placed.appends, start)
    assert.equal(decideCancellationOfUncovered(statesFor(held, forAlice), later).answer.canceled, false)
    assert.equal(decideCancellationOfUncovered(statesFor(spent, forAlice), later).answer.canceled, true)
    const end = ends(appendTo(spent, tryAgain(spent, forAlice, later).appends, later), forAlice)
    assert.deepEqual([end.status, end.cancelReason], ['canceled', 'insufficient_balance'])
    assert.equal(end.creditMicros, 350 * 10_000)
  })
})

describe('an order whose invoice closed', () => {
  const cancel = (world: World, order: OrderDetails, reason: CancelReason | null = 'invoice_expired') =>
    decideCancellationOfClosed(statesFor(world, order), { depositId, reason }, later)

  test('is canceled once, and not before', () => {
    const world = invoiced(funded, own)
    assert.deepEqual(cancel(world, own, null).appends, [])
    const canceled = appendTo(world, cancel(world, own).appends, later)
    assert.equal(ends(canceled, own).status, 'canceled')
    assert.deepEqual(cancel(canceled, own).appends, [])
    const late = appendTo(canceled, receive(canceled, own, paid(1_000), later).appends, later)
    assert.deepEqual([ends(late, own).status, ends(late, own).availableMicros], ['canceled', 3_000 * 10_000])
  })

  test('states the reason by the state of the invoice', () => {
    // Dearer than the wallet and its invoice together.
    const dear = { ...own, amountCents: 9_000 }
    const reasonAfter = (reported: ReportedInvoice | null) => {
      const world = invoiced(funded, dear)
      const end = reported ? appendTo(world, receive(world, dear, reported, start).appends, start) : world
      return cancelReasonOf(stateOf(end, depositStream(depositId), depositFold))
    }
    assert.equal(reasonAfter(null), null)
    assert.equal(reasonAfter({ status: 'expired', payments: [] }), 'invoice_expired')
    assert.equal(reasonAfter({ status: 'failed', payments: [] }), 'payment_failed')
    assert.equal(reasonAfter(paid(300, 'expired')), 'underpaid')
    assert.equal(reasonAfter(paid(1_000)), 'insufficient_balance')
    const world = invoiced(funded, own)
    const canceled = appendTo(world, cancel(world, own, 'underpaid').appends, later)
    const { canceledAt, cancelReason } = stateOf(canceled, orderStream(own.orderId), orderFold)!
    assert.deepEqual([canceledAt, cancelReason], [new Date(later).toISOString(), 'underpaid'])
  })

  test('of a customer is canceled, too, unless it was paid and waits for the wallet', () => {
    const world = invoiced(funded, forAlice)
    assert.equal(ends(appendTo(world, cancel(world, forAlice).appends, later), forAlice).status, 'canceled')
    const poor = invoiced(account(stock(credit(emptyWorld, 499, start), ips, start)), forAlice)
    const held = appendTo(poor, receive(poor, forAlice, paid(1_000), start).appends, start)
    assert.deepEqual(cancel(held, forAlice, 'insufficient_balance').appends, [])
  })

  test('is not canceled if it waits for a later invoice', () => {
    const world = invoiced(funded, own)
    const next = decideAwaiting(statesFor(world, own), { order: own, depositId: 'dep_2' }).appends
    assert.deepEqual(cancel(appendTo(world, next, start), own).appends, [])
  })

  test('returns everything if its debit was appended', () => {
    const world = invoiced(funded, own)
    const { appends } = receive(world, own, paid(1_000), start)
    // A log without atomic items can lose the steps after the ledger, or after the allocation.
    for (const appended of [2, 3]) {
      const cut = appendTo(world, appends.slice(0, appended), start)
      const stream = orderStream(own.orderId)
      const canceledAt = new Date(later).toISOString()
      const data = { orderId: own.orderId, accountId: own.accountId, canceledAt }
      const canceled = appendTo(cut, [{ stream, events: [{ type: 'OrderCanceled', data }] }], later)
      const end = settled(canceled, own, paid(1_000))
      assert.deepEqual([ends(end, own).status, ends(end, own).availableMicros], ['refunded', 3_000 * 10_000])
      const allocationOwner = allocationOwnerOf(own)
      const { rentals } = stateOf(end, allocationOwner.stream, allocationOwner.fold) as {
        rentals: { size: number }
      }
      assert.equal(rentals.size, 0)
      // It releases the allocated stock: nothing if the stock does not know the order.
      const whole = decideCompletion(statesFor(canceled, own), debitOf(canceled, own)!, later)
      assert.ok(whole.answer.kind === 'completed')
      assert.deepEqual(
        whole.answer.order.refunds.map(({ amountCents, proxyIds }) => [amountCents, proxyIds.length]),
        [[500, appended === 3 ? 2 : 0]],
      )
    }
  })
})

describe('an order that waits', () => {
  const request = (world: World, order: OrderDetails) =>
    decideCancellation(statesFor(world, order), 'requested', later)
  const deposit = (world: World) => stateOf(world, depositStream(depositId), depositFold)
  const closeInvoice = (world: World, order: OrderDetails) =>
    decideDepositCancellation({ deposit: deposit(world), order: statesFor(world, order).order }, later)
  const lateOf = (world: World) =>
    (world.get(depositStream(depositId)) ?? []).flatMap(({ event }) =>
      event.type === 'DepositPaymentCredited' ? [(event.data as { late?: object }).late ?? null] : [],
    )

  for (const order of [own, forAlice]) {
    const { customerId, orderId } = order
    test(`${orderId} is canceled on request; its invoice closes, and a late payment is credited and marked`, () => {
      const world = invoiced(funded, order)
      assert.deepEqual(closeInvoice(world, order).appends, [], 'the order needs its invoice')
      const canceled = appendTo(world, request(world, order).appends, later)
      assert.deepEqual([ends(canceled, order).status, request(canceled, order).appends], ['canceled', []])
      const closed = appendTo(canceled, closeInvoice(canceled, order).appends, later)
      assert.equal(deposit(closed)?.status, 'canceled')
      for (const now of [canceled, closed]) {
        const paidLate = appendTo(now, receive(now, order, paid(1_000), later).appends, later)
        const end = ends(paidLate, order)
        assert.deepEqual([end.status, end.deposit], ['canceled', 'paid'])
        const creditedMicros = customerId === null ? end.availableMicros - 2_000 * 10_000 : end.creditMicros
        assert.equal(creditedMicros, 1_000 * 10_000)
        assert.deepEqual(lateOf(paidLate), [{ customerId, orderId }])
      }
    })

    test(`${orderId} that is placed first is not canceled; a payment that places it is not marked as late`, () => {
      const world = invoiced(funded, order)
      const placed = appendTo(world, receive(world, order, paid(1_000), start).appends, start)
      assert.deepEqual(request(placed, order).appends, [])
      assert.deepEqual(lateOf(placed), [null])
      assert.deepEqual(closeInvoice(placed, order).appends, [], 'a closed invoice stays as it is')
    })

    test(`${orderId} with two invoices is placed by the first payment of either; the second one is credited`, () => {
      const details = { ...detailsOf(order, 1_000), depositId: 'dep_2' as DepositId }
      const second = {
        stream: depositStream('dep_2'),
        events: [{ type: 'DepositOpened', data: { ...details, openedAt: '2026-11-21T00:00:00.000Z' } }],
      }
      const world = appendTo(invoiced(funded, order), [second], start)
      const next = decideAwaiting(statesFor(world, order), { order, depositId: 'dep_2' }).appends
      const waits = appendTo(world, next, start)
      const canBeClosed = appendTo(waits, closeInvoice(waits, order).appends, start)
      assert.equal(deposit(canBeClosed)?.status, 'canceled', 'the earlier invoice is needless')
      for (const says of ['paid', 'failed'] as const) {
        const onClosed = receive(canBeClosed, order, paid(1_000, says), later).appends
        const paidAfterwards = appendTo(canBeClosed, onClosed, later)
        assert.equal(ends(paidAfterwards, order).status, 'completed', 'it was paid although it was closed')
        assert.deepEqual(lateOf(paidAfterwards), [null])
      }
      const placed = appendTo(waits, receive(waits, order, paid(1_000), start).appends, start)
      assert.equal(ends(placed, order).status, 'completed')
      const states = {
        ...statesFor(placed, order),
        account: accountOf(placed),
        deposit: stateOf(placed, depositStream('dep_2'), depositFold),
      }
      const { answer } = decideReceipt(
        states,
        { status: 'paid', payments: [{ paymentId: 'pi_2', amountMicros: 10_000_000 }] },
        creditingOf(details, true),
        later,
      )
      assert.equal(answer.deposit?.creditedMicros, 10_000_000)
    })
  }
})
