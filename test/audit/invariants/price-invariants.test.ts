import { describe, test } from 'node:test'
import { catalogDigest } from '../../../src/domain/catalog/catalog-file.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { type Cases, changed, type Deed, dataOf, type Facts, invariantsFindEach, type Log } from '../deeds.ts'

const ofOrder =
  (orderId: string) =>
  ({ order }: Facts): boolean =>
    order.orderId === orderId

const plan = (log: Log): StoredEvent => log.first('WalletDebited', ofOrder('ord_golden_plan'))
const rented = (log: Log): StoredEvent => log.first('WalletDebited', ofOrder('ord_golden_addresses'))
const sold = (log: Log): StoredEvent => log.first('CustomerCharged', ofOrder('ord_golden_sold'))

/** The order of an event with some of its data replaced. */
const reordered = (event: StoredEvent, order: Facts, more: Facts = {}): Deed =>
  changed(event, { order: { ...dataOf(event).order, ...order }, ...more })

const ownMarkup = (log: Log): StoredEvent =>
  log.first('MarkupChanged', ({ markupMillionths }) => markupMillionths === 1_300_000)
const imported = (log: Log): StoredEvent => log.first('CatalogImported')
const cheaper = (log: Log): Facts => {
  const data = dataOf(imported(log))
  const products = data.products.map((product: Facts) =>
    product.tiers ? { ...product, tiers: [{ from: 1, unitPriceMicros: 10_000 }] } : product,
  )
  return { ...data, products }
}
const withDigest = (data: Facts): Facts => ({
  ...data,
  digest: catalogDigest(data.products.map(({ since: _, ...terms }: Facts) => terms)),
})
const back = (log: Log): StoredEvent => log.first('ProductStateChanged', ({ state }) => state === 'active')

const cases: Cases = {
  'an order that is charged less, wherever it says so': [
    (log) => reordered(plan(log), { amountCents: 100, unitPriceCents: 20 }, { amountMicros: 1_000_000 }),
    /order ord_golden_plan is not what its catalogue gives: unitPriceCents 20, not 300; amountCents 100, not 1500/,
  ],
  'another list price': [
    (log) => reordered(plan(log), { listCents: 100 }),
    /ord_golden_plan is not .*listCents 100, not 1500/,
  ],
  'more of it for the same money': [
    (log) => reordered(plan(log), { quantity: 50, bytes: 50_000_000_000 }),
    /ord_golden_plan is not .*amountCents 1500, not 13000/,
  ],
  'more bytes than the quantity comes to': [
    (log) => reordered(plan(log), { bytes: 6_000_000_000 }),
    /ord_golden_plan is not .*bytes 6000000000, not 5000000000/,
  ],
  'a longer time for the same money': [
    (log) => reordered(rented(log), { target: { ...dataOf(rented(log)).order.target, periodDays: 365 } }),
    /ord_golden_addresses is not .*amountCents 500, not 5600/,
  ],
  'a target that is not sold': [
    (log) => reordered(rented(log), { target: { ...dataOf(rented(log)).order.target, periodDays: 31 } }),
    /ord_golden_addresses is not .*not sold together/,
  ],
  'an extension that is charged for nothing': [
    (log) => {
      const debit = log.first('WalletDebited', ofOrder('ord_golden_extension'))
      return reordered(debit, { amountCents: 1, unitPriceCents: 1 })
    },
    /ord_golden_extension is not .*amountCents 1, not 250/,
  ],
  'a period of a subscription at another price': [
    (log) => {
      const debit = log.first('WalletDebited', ({ order }) => order.subscription?.periodStart != null)
      return reordered(debit, { amountCents: 1_000 })
    },
    /order ord_\w+ is not .*amountCents 1000, not 1500/,
  ],
  "another product's price": [
    (log) => reordered(plan(log), { productId: 'residential-unlimited' }),
    /ord_golden_plan is not .*shape gateway_gb, not gateway_time/,
  ],
  'revenue of another family': [
    (log) => reordered(plan(log), { family: 'mobile' }),
    /ord_golden_plan is not .*family mobile, not residential/,
  ],
  'a product that there is not': [
    (log) => reordered(plan(log), { productId: 'gold' }),
    /ord_golden_plan is not .*has no product gold/,
  ],
  'a catalogue that there is not': [
    (log) => reordered(plan(log), { catalogDigest: 'ab'.repeat(32) }),
    /ord_golden_plan is not .*no catalogue (?:ab){32} was in force/,
  ],
  'a catalogue that is gone': [
    (log) => ({ remove: imported(log) }),
    /ord_golden_plan is not .*no catalogue \w{64} was in force/,
  ],
  'a catalogue with other prices under the same digest': [
    (log) => ({ change: imported(log), data: cheaper(log) }),
    /it names the digest \w{64}, its products come to \w{64}/,
  ],
  'a catalogue that was replaced long before': [
    (log) => ({ change: back(log), type: 'CatalogImported', data: withDigest(cheaper(log)) }),
    /ord_golden_person is not .*no catalogue \w{64} was in force/,
  ],
  'an order at the prices of a catalogue that came later': [
    (log) => [
      reordered(plan(log), { catalogDigest: withDigest(cheaper(log)).digest }),
      { add: imported(log), data: withDigest(cheaper(log)) },
    ],
    /ord_golden_plan is not .*no catalogue \w{64} was in force/,
  ],
  'a product that was not sold': [
    (log) => ({ remove: back(log) }),
    /order ord_\w+ is not .*residential-premium was not sold at that time/,
  ],
  'a product that changes its state and that there is not': [
    (log) => changed(back(log), { productId: 'gold' }),
    /the catalogue has no product gold/,
  ],
  "a customer's order that costs its reseller less": [
    (log) => reordered(sold(log), { costCents: 100 }, { costMicros: 1_000_000 }),
    /ord_golden_sold is not .*costCents 100, not 1313/,
  ],
  'terms that were never set': [
    (log) => {
      const { termsRevision: _, ...order } = dataOf(sold(log)).order
      return changed(sold(log), { order })
    },
    /ord_golden_sold is not .*amountCents 1950, not 1500; costCents 1313, not 1500/,
  ],
  'terms of another revision': [
    (log) => reordered(sold(log), { termsRevision: 0 }),
    /ord_golden_sold is not .*amountCents 1950, not 1500/,
  ],
  'terms that come later': [
    (log) => reordered(sold(log), { termsRevision: 90 }),
    /ord_golden_sold is not .*terms 90 of acc_golden_shop were not in force/,
  ],
  'a discount that is gone': [
    (log) => ({ remove: log.first('DiscountChanged') }),
    /ord_golden_sold is not .*costCents 1313, not 1500/,
  ],
  'another markup': [
    (log) => changed(ownMarkup(log), { markupMillionths: 1_500_000 }),
    /ord_golden_sold is not .*amountCents 1950, not 2250/,
  ],
  "a reseller's own markup above its limits": [
    (log) => changed(ownMarkup(log), { markupMillionths: 1_500_001 }),
    /acc_golden_shop set a markup outside the limits of the service/,
  ],
  "a reseller's own markup without limits": [
    (log) => changed(log.first('PriceLimitsChanged'), { limits: null }),
    /acc_golden_shop changed its prices, which only operators may do/,
  ],
  'a product that customers may not order': [
    (log) => changed(log.first('SellableChanged'), { productIds: ['isp-static'] }),
    /ord_golden_sold is not .*nothing that customers of acc_golden_shop may order/,
  ],
  'terms of who is no reseller': [
    (log) => reordered(plan(log), { termsRevision: 0 }),
    /ord_golden_plan is not .*acc_golden_buyer is no reseller and has no terms/,
  ],
  'an invoice for an order at another price': [
    (log) => {
      const opened = log.first('DepositOpened', ({ pending }) => pending?.order.orderId === 'ord_golden_paid')
      const { pending } = dataOf(opened)
      return changed(opened, { pending: { order: { ...pending.order, amountCents: 1 } } })
    },
    /DepositOpened.*ord_golden_paid is not .*amountCents 1, not 1500/,
  ],
  'an order that is paid at another price than its invoice was opened for': [
    (log) => reordered(log.first('WalletDebited', ofOrder('ord_golden_paid')), { amountCents: 1 }),
    /WalletDebited.*ord_golden_paid is not .*amountCents 1, not 1500/,
  ],
}

describe('charges follow from the catalogue and the terms in the log', () => {
  test('other charges are reported', (t) => invariantsFindEach(t, cases))
})
