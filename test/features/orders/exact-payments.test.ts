import { test } from 'node:test'
import fc, { runs } from '../../support/fast-check.ts'
import { testApp } from '../../support/test-app.ts'
import { methods, openShop, type SmallShop } from './small-shop.ts'

const customers = ['alice', 'bob'] as const
const customer = fc.constantFrom(...customers)
const method = fc.constantFrom(...methods)
/** Which of the orders so far, counted from the last one. */
const back = fc.nat({ max: 2 })
const cents = fc.integer({ min: 1, max: 4_000 })

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('open'),
      customer,
      method,
      quantity: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('pay'), back }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('send'), back, method }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('cancel', 'expire', 'pay-all', 'pay-and-cancel', 'pay-and-expire'),
      back,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('dispute', 'cash'), customer, cents }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('debt'), back, cents }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('drain'), leftCents: fc.integer({ min: 0, max: 1_500 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fill') }) },
)
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

const take = async (shop: SmallShop, one: Step): Promise<void> => {
  switch (one.kind) {
    case 'open':
      await shop.open(one.customer, one.quantity, one.method)
      return
    case 'dispute':
      return shop.dispute(one.customer, one.cents)
    case 'cash':
      return shop.cash(one.customer, one.cents)
    case 'drain':
      return shop.drain(one.leftCents)
    case 'fill':
      return shop.fill(10_000)
  }
  const paged = shop.orders.filter(({ pages }) => pages.length > 0)
  const waiting = paged.filter(({ isOver }) => !isOver)
  // Payments of orders that are over are part of it.
  const order = (one.kind === 'pay' || waiting.length === 0 ? paged : waiting).at(-1 - one.back)
  if (order === undefined) return
  switch (one.kind) {
    case 'pay':
      return shop.pay(order)
    case 'send':
      await shop.send(order, one.method)
      return
    case 'debt':
      // The page of the next answer has the debt.
      await shop.dispute(order.customer, one.cents)
      await shop.send(order)
      return shop.pay(order)
    case 'expire':
      return shop.expire(order)
    case 'cancel':
      await shop.cancel(order)
      return
    case 'pay-all':
      return shop.race(order, order.pages)
    case 'pay-and-cancel':
      return shop.race(order, order.pages.slice(-1), () => shop.cancel(order))
    case 'pay-and-expire':
      return shop.race(order, order.pages.slice(-1), () => shop.expire(order))
  }
}

test('who pays the amount of the page gets the order, or a reason and the money as credit', async (t) => {
  const app = await testApp(t)
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 25 }), async (steps) => {
      const shop = await openShop(app)
      await shop.fill(20_000)
      for (const one of steps) await take(shop, one)
      await shop.close()
    }),
    { numRuns: runs(4) },
  )
})

test('the log of all these orders passes verification', async (t) => {
  await (await testApp(t)).verified()
})
