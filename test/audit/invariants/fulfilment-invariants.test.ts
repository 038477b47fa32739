import { describe, test } from 'node:test'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { type Cases, changed, type Deed, dataOf, type Facts, invariantsFindEach, type Log } from '../deeds.ts'

const of =
  (orderId: string) =>
  (data: Facts): boolean =>
    data.orderId === orderId || data.order?.orderId === orderId

const allocated = (log: Log): StoredEvent => log.first('AddressesAllocated', of('ord_golden_addresses'))
const extended = (log: Log): StoredEvent => log.first('AddressesExtended')
const opened = (log: Log): StoredEvent => log.first('PlanActivated', of('ord_golden_plan'))
const timed = (log: Log): StoredEvent => log.first('PlanActivated', of('ord_golden_time'))
const toppedUp = (log: Log): StoredEvent => log.first('PlanToppedUp', of('ord_golden_topup'))
const completed = (log: Log): StoredEvent => log.first('OrderCompleted', of('ord_golden_addresses'))

const later = (time: string, days: number): string =>
  new Date(Date.parse(time) + days * 86_400_000).toISOString()
/** Its allocations, each with some of its data replaced. */
const handedOut = (log: Log, more: Facts): Deed => {
  const { allocations } = dataOf(allocated(log))
  return changed(allocated(log), { allocations: allocations.map((one: Facts) => ({ ...one, ...more })) })
}

const cases: Cases = {
  'one address more than was paid for': [
    (log) => {
      const { allocations } = dataOf(allocated(log))
      const more = { ...allocations[0], ip: '198.18.0.3', proxyId: 'prx_more' }
      return changed(allocated(log), { allocations: [...allocations, more] })
    },
    /it differs from the paid order ord_golden_addresses: allocations/,
  ],
  'one address less': [
    (log) => changed(allocated(log), { allocations: dataOf(allocated(log)).allocations.slice(1) }),
    /order ord_golden_addresses paid for nothing that could be given/,
  ],
  'a longer time than was paid for': [
    (log) => changed(allocated(log), { expiresAt: later(dataOf(allocated(log)).expiresAt, 300) }),
    /the paid order ord_golden_addresses: expiresAt/,
  ],
  'another period': [
    (log) => changed(allocated(log), { periodDays: 365 }),
    /the paid order ord_golden_addresses: periodDays 365, not 30/,
  ],
  'addresses for another account': [
    (log) => changed(allocated(log), { accountId: 'acc_golden_reseller' }),
    /the paid order ord_golden_addresses: accountId "acc_golden_reseller", not "acc_golden_buyer"/,
  ],
  'another rotation': [
    (log) => handedOut(log, { rotationMinutes: 5 }),
    /the paid order ord_golden_addresses: allocations/,
  ],
  'a rental of another id': [
    (log) => handedOut(log, { proxyId: 'prx_other' }),
    /the paid order ord_golden_addresses: allocations/,
  ],
  'addresses that are given later than it says': [
    (log) => {
      const { allocatedAt, expiresAt } = dataOf(allocated(log))
      return changed(allocated(log), {
        allocatedAt: later(allocatedAt, 30),
        expiresAt: later(expiresAt, 30),
      })
    },
    /it says \S+ and was recorded at/,
  ],
  'fulfilment without a payment': [
    (log) => ({ remove: log.first('WalletDebited', of('ord_golden_addresses')) }),
    /no order ord_golden_addresses that was paid waits for this fulfilment/,
  ],
  'fulfilment that happens twice': [
    (log) => ({ add: opened(log), data: dataOf(opened(log)) }),
    /no order ord_golden_plan that was paid waits for this fulfilment/,
  ],
  'an extension by more days than were paid for': [
    (log) => {
      const extensions = dataOf(extended(log)).extensions.map((one: Facts) => ({
        ...one,
        expiresAt: later(one.expiresAt, 30),
      }))
      return changed(extended(log), { extensions })
    },
    /it differs from the paid order ord_golden_extension: extensions/,
  ],
  'an extension of another rental': [
    (log) => {
      const [, other] = dataOf(allocated(log)).allocations
      const [one] = dataOf(extended(log)).extensions
      return changed(extended(log), { extensions: [{ ...one, proxyId: other.proxyId }] })
    },
    /it differs from the paid order ord_golden_extension: extensions/,
  ],
  'more bytes than were paid for': [
    (log) => changed(opened(log), { bytes: 50_000_000_000 }),
    /it differs from the paid order ord_golden_plan: bytes 50000000000, not 5000000000/,
  ],
  'a top-up of more bytes': [
    (log) => changed(toppedUp(log), { bytes: 50_000_000_000 }),
    /it differs from the paid order ord_golden_topup: bytes 50000000000, not 5000000000/,
  ],
  'more speed': [
    (log) => changed(timed(log), { speedUnits: 50 }),
    /it differs from the paid order ord_golden_time: speedUnits 50, not 5/,
  ],
  'a plan that runs longer': [
    (log) => changed(timed(log), { expiresAt: later(dataOf(timed(log)).expiresAt, 1) }),
    /it differs from the paid order ord_golden_time: expiresAt/,
  ],
  'a plan for another account': [
    (log) => changed(opened(log), { accountId: 'acc_golden_reseller' }),
    /it differs from the paid order ord_golden_plan: accountId/,
  ],
  'a plan without traffic bounds': [
    (log) => changed(opened(log), { bytes: null }),
    /it differs from the paid order ord_golden_plan: bytes null, not 5000000000/,
  ],
  'a rental that is over before its time': [
    (log) => {
      const over = log.first('AddressesReleased', ({ reason }) => reason === 'refunded')
      return changed(over, { reason: 'expired' })
    },
    /rental prx_\w+ runs until \S+, and expired at/,
  ],
  'an order that names other rentals than it got': [
    (log) => changed(completed(log), { proxyIds: ['prx_other'] }),
    /order ord_golden_addresses got \["prx_\w+","prx_\w+"\], not \["prx_other"\]/,
  ],
  'an order that is not the one that was paid': [
    (log) => {
      const { order } = dataOf(completed(log))
      return changed(completed(log), { order: { ...order, method: 'card', quantity: 9 } })
    },
    /it is not the order that was paid: quantity 9, not 2; method "card", not "wallet"/,
  ],
}

describe('fulfilment matches payment', () => {
  test('fulfilment without payment is reported', (t) => invariantsFindEach(t, cases))
})
