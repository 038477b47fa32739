import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import {
  cooldownMs,
  decideAllocation,
  decideExpiry,
  decideExtension,
  decideRelease,
  decideReplacement,
  extensionsOf,
  maxDaysAhead,
  recordRefusal,
  replacedCooldownMs,
  stillRunning,
} from '../../../src/domain/stock/decide.ts'
import type { StockEvent } from '../../../src/domain/stock/events.ts'
import { type StockState, stockFold } from '../../../src/domain/stock/fold.ts'
import { applyDecided } from '../../../src/kernel/decider.ts'
import type { ProxyId } from '../../../src/kernel/ids.ts'
import { decider, eventsOf } from '../../support/decider.ts'
import fc from '../../support/fast-check.ts'
import { addressesStocked, addressOrder, plainAddress } from '../../support/world.ts'

const dayMs = 24 * 60 * 60 * 1000
const start = 1_800_000_000_000

const empty = decider(stockFold).at(start)
type Stock = typeof empty
const stocked = (...ips: readonly string[]): Stock => empty.given(addressesStocked(ips))
const allocate =
  (orderId: string, over: Partial<OrderDetails> = { quantity: 1 }) =>
  (state: StockState, nowMs: number) =>
    decideAllocation(state, addressOrder(orderId, over), nowMs)
const extend =
  (orderId: string, proxyIds: readonly ProxyId[], over: Partial<OrderDetails> = {}) =>
  (state: StockState, nowMs: number) =>
    decideExtension(
      state,
      addressOrder(orderId, { kind: 'extension', quantity: 1, proxyIds, ...over }),
      nowMs,
    )
const release = (proxyIds: readonly string[]) => (state: StockState, nowMs: number) =>
  decideRelease(state, proxyIds, 'refunded', nowMs)
const replace =
  (proxyId: string, requestId: string | null = null) =>
  (state: StockState, nowMs: number) => {
    const { accountId } = addressOrder('ord_any')
    return decideReplacement(state, { proxyId, accountId, reason: 'not_working', requestId }, nowMs)
  }
/** The rentals of an order, in the order of its answer. */
const rent = (stock: Stock, orderId = 'ord_1', over: Partial<OrderDetails> = { quantity: 1 }) => {
  const rented = stock.given(allocate(orderId, over))
  const { answer } = rented.when(allocate(orderId, over)).result
  assert.ok(answer.outcome === 'fulfilled')
  return { rented, proxyIds: answer.proxyIds }
}
/** The addresses that an order gets. */
const soldTo = (stock: Stock, orderId: string, over?: Partial<OrderDetails>) => {
  const [event] = eventsOf<StockEvent>(stock.when(allocate(orderId, over)).result)
  assert.ok(event?.type === 'AddressesAllocated')
  return event.data.allocations.map(({ ip }) => ip)
}

const asJson = (state: StockState) => stockFold.snapshot!.toText(state)

type Step =
  | { readonly do: 'allocate'; readonly order: number; readonly quantity: number }
  | { readonly do: 'extend'; readonly order: number; readonly of: number }
  | { readonly do: 'release'; readonly of: number }
  | { readonly do: 'replace'; readonly of: number; readonly network: boolean }
  | { readonly do: 'expire' }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'restart' }

const orderNumber = fc.integer({ min: 0, max: 12 })
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('allocate' as const),
    order: orderNumber,
    quantity: fc.integer({ min: 1, max: 5 }),
  }),
  fc.record({ do: fc.constant('extend' as const), order: fc.integer({ min: 20, max: 25 }), of: orderNumber }),
  fc.record({ do: fc.constant('release' as const), of: orderNumber }),
  fc.record({ do: fc.constant('replace' as const), of: orderNumber, network: fc.boolean() }),
  fc.record({ do: fc.constant('expire' as const) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(60_000, cooldownMs, dayMs, 30 * dayMs) }),
  fc.record({ do: fc.constant('restart' as const) }),
)

describe('stock', () => {
  test('never gives one address to two orders, never sells a resting one, and loses none', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(step, { maxLength: 40, size: 'max' }),
        (size, steps) => {
          const all = Array.from({ length: size }, (_, n) => `198.18.${n % 2}.${n + 1}`)
          let { state } = stocked(...all)
          let now = start
          // The test's own book: who holds what, and until when a free address rests.
          const held = new Map<string, string>()
          const endsAt = new Map<string, number>()
          const restsUntil = new Map<string, number>()
          const proxiesOf = new Map<number, readonly ProxyId[]>()
          for (const current of steps) {
            let events: readonly StockEvent[] = []
            switch (current.do) {
              case 'wait':
                now += current.ms
                break
              case 'restart':
                state = stockFold.snapshot!.fromText(asJson(state))
                break
              case 'allocate': {
                const order = addressOrder(`ord_${current.order}`, { quantity: current.quantity })
                const decision = decideAllocation(state, order, now)
                events = decision.events
                if (decision.answer.outcome === 'fulfilled' && events.length > 0)
                  proxiesOf.set(current.order, decision.answer.proxyIds)
                break
              }
              case 'extend': {
                const proxyIds = proxiesOf.get(current.of) ?? []
                if (proxyIds.length === 0) break
                events = decideExtension(
                  state,
                  addressOrder(`ord_${current.order}`, { kind: 'extension', proxyIds }),
                  now,
                ).events
                break
              }
              case 'release':
                events = decideRelease(state, proxiesOf.get(current.of) ?? [], 'refunded', now)
                break
              case 'replace': {
                const request = {
                  proxyId: proxiesOf.get(current.of)?.[0] ?? 'prx_none',
                  accountId: addressOrder('ord_any').accountId,
                  reason: current.network ? 'change_network' : 'low_speed',
                  requestId: null,
                } as const
                const decision = decideReplacement(state, request, now)
                if (decision.outcome === 'decided') events = decision.events
                break
              }
              case 'expire':
                events = decideExpiry(state, state.rentals.keys(), now)
                break
            }
            const ordered = current.do === 'allocate' ? current.quantity : 0
            for (const event of events) {
              if (event.type === 'AddressesAllocated') {
                assert.equal(event.data.allocations.length, ordered)
                for (const { ip } of event.data.allocations) {
                  assert.ok(!held.has(ip), `${ip} went to two orders`)
                  assert.ok((restsUntil.get(ip) ?? 0) <= now, `${ip} was sold while it rested`)
                  held.set(ip, event.data.orderId)
                  endsAt.set(ip, now + 30 * dayMs)
                }
              }
              if (event.type === 'AddressesExtended')
                for (const { proxyId } of event.data.extensions) {
                  const { ip } = state.rentals.get(proxyId)!
                  assert.ok(endsAt.get(ip)! > now, `${ip} was extended after its end`)
                  endsAt.set(ip, endsAt.get(ip)! + 30 * dayMs)
                }
              if (event.type === 'AddressReplaced') {
                const { former, address, reason } = event.data
                assert.ok(!held.has(address.ip), `${address.ip} went to two orders`)
                assert.ok((restsUntil.get(address.ip) ?? 0) <= now, `${address.ip} was given while it rested`)
                if (reason === 'change_network')
                  assert.notEqual(address.ip.split('.')[2], former.ip.split('.')[2])
                held.set(address.ip, held.get(former.ip)!)
                endsAt.set(address.ip, endsAt.get(former.ip)!)
                held.delete(former.ip)
                restsUntil.set(former.ip, now + replacedCooldownMs)
              }
              if (event.type === 'AddressesReleased')
                for (const { ip } of event.data.releases) {
                  assert.ok(held.delete(ip))
                  if (current.do === 'expire') assert.ok(endsAt.get(ip)! <= now, `${ip} ended too early`)
                  restsUntil.set(ip, now + cooldownMs)
                }
            }
            state = applyDecided(stockFold, state, events, now)
            if (current.do === 'expire')
              for (const ip of held.keys()) assert.ok(endsAt.get(ip)! > now, `${ip} did not end`)
            const free = [...state.pools.values()].flatMap(({ ready, resting }) => [
              ...ready.map(({ ip }) => ip),
              ...resting.map(({ address }) => address.ip),
            ])
            const rented = [...state.rentals.values()].map(({ ip }) => ip)
            assert.deepEqual([...free, ...rented].sort(), [...all].sort())
            assert.deepEqual([...rented].sort(), [...held.keys()].sort())
          }
        },
      ),
      // A changed condition of `withoutIps` passes one of six times with 100 runs.
      { numRuns: 400 },
    )
  })

  test('replaces an address once a day and three times in 30 days, and once for each request', () => {
    const ips = Array.from({ length: 9 }, (_, n) => `198.18.0.${n + 1}`)
    let { rented: stock, proxyIds } = rent(stocked(...ips))
    const [proxyId = ''] = proxyIds
    const replaced = (atMs: number, requestId: string | null = null) => {
      stock = stock.at(atMs)
      const { result } = stock.when(replace(proxyId, requestId))
      if (result.outcome === 'refused') return result.refusal
      stock = stock.given(...result.events)
      return result.replacedAt === null ? 'replayed' : result.address.ip
    }
    assert.equal(replaced(start, 'once'), '198.18.0.2')
    assert.equal(replaced(start + 1, 'once'), 'replayed')
    assert.deepEqual(replaced(start + 1, 'again'), { code: 'too_often', retryAtMs: start + dayMs })
    assert.equal(replaced(start + dayMs), '198.18.0.3')
    assert.equal(replaced(start + 2 * dayMs), '198.18.0.4')
    assert.deepEqual(replaced(start + 3 * dayMs), { code: 'too_often', retryAtMs: start + 30 * dayMs })
    assert.deepEqual(replaced(start + 30 * dayMs), { code: 'rental_ended' })
    assert.equal(replaced(start + 4 * dayMs, 'once'), 'replayed')
  })

  test('gives the same answer to a repeated order, without a second event', () => {
    const first = stocked('198.18.0.1', '198.18.0.2').when(allocate('ord_1'))
    const again = first
      .thenEvents('AddressesAllocated')
      .at(start + dayMs)
      .when(allocate('ord_1'))
    assert.deepEqual(again.result, { events: [], answer: first.result.answer })
  })

  test('refuses more than is free with the free count, without an event', () => {
    stocked('198.18.0.1').when(allocate('ord_1', {})).thenRefused({ reason: 'out_of_stock', free: 1 })
  })

  test('keeps a recorded refusal when addresses return', () => {
    const refused = stocked('198.18.0.1').given(recordRefusal('ord_1', 'out_of_stock'))
    refused.when(allocate('ord_1')).thenRefused('out_of_stock')
  })

  test('sells addresses in the order in which they were stocked', () => {
    assert.deepEqual(soldTo(stocked('198.18.0.9', '198.18.0.1'), 'ord_1'), ['198.18.0.9'])
  })

  test('lets a released address rest for exactly 15 minutes, then sells it', () => {
    const { rented, proxyIds } = rent(stocked('198.18.0.1'))
    const released = rented.at(start + dayMs).given(release(proxyIds))
    const restedAt = start + dayMs + 15 * 60_000
    for (const tooEarly of [start + dayMs, restedAt - 1_000, restedAt - 1])
      released.at(tooEarly).when(allocate('ord_2')).thenRefused({ reason: 'out_of_stock', free: 0 })
    assert.deepEqual(soldTo(released.at(restedAt), 'ord_2'), ['198.18.0.1'])
  })

  test('sells a returned address before one that was replaced earlier and rests longer', () => {
    const first = rent(stocked('198.18.0.1', '198.18.0.2', '198.18.0.3'))
    const second = rent(first.rented, 'ord_2')
    const stock = second.rented
      .given(replace(first.proxyIds[0]!))
      .at(start + 1)
      .given(release(second.proxyIds))
    assert.deepEqual(soldTo(stock.at(start + 1 + cooldownMs), 'ord_3'), ['198.18.0.2'])
  })

  test('sells rested addresses, keeps the resting ones, and sells none of an order that is too large', () => {
    const { rented, proxyIds } = rent(stocked('198.18.0.1', '198.18.0.2'), 'ord_1', { quantity: 2 })
    const [first = '', second = ''] = proxyIds
    const released = rented
      .given(release([first]))
      .at(start + 60_000)
      .given(release([second]))
    const between = released.at(start + cooldownMs + 59_999)
    between.when(allocate('ord_2', { quantity: 2 })).thenRefused('out_of_stock')
    assert.equal(soldTo(between, 'ord_2').length, 1)
    assert.equal(soldTo(released.at(start + cooldownMs + 60_000), 'ord_2', { quantity: 2 }).length, 2)
  })

  test('extends a rental from its own end, and refuses one that has ended', () => {
    const { rented, proxyIds } = rent(stocked('198.18.0.1'))
    const { result } = rented.at(start + dayMs).when(extend('ord_2', proxyIds))
    const [event] = eventsOf<StockEvent>(result)
    assert.ok(event?.type === 'AddressesExtended')
    assert.equal(event.data.extensions[0]?.expiresAt, new Date(start + 60 * dayMs).toISOString())
    rented
      .at(start + 30 * dayMs)
      .when(extend('ord_2', proxyIds))
      .thenRefused({ reason: 'rental_ended' })
  })

  test('extends no rental beyond ten years from now, after any earlier extensions', () => {
    let { rented: stock, proxyIds } = rent(stocked('198.18.0.1'))
    for (let periods = 1; periods < Math.floor(maxDaysAhead / 30); periods += 1)
      stock = stock.when(extend(`ord_ext_${periods}`, proxyIds)).thenEvents('AddressesExtended')
    const further = extend('ord_ext_further', proxyIds)
    stock.when(further).thenRefused({ reason: 'too_far_ahead' })
    const later = start + 30 * dayMs
    const refused = stock.given(recordRefusal('ord_ext_further', 'too_far_ahead'))
    refused.at(later).when(further).thenRefused('too_far_ahead')
    stock.at(later).when(further).thenEvents('AddressesExtended')
  })

  test('lists the orders that extended a rental for as long as it runs', () => {
    const { rented, proxyIds } = rent(stocked('198.18.0.1'))
    assert.equal(extensionsOf(rented.state, proxyIds, start).size, 0)
    const { state } = rented.given(extend('ord_2', proxyIds))
    assert.deepEqual([...extensionsOf(state, proxyIds, start + 60 * dayMs - 1)], [[proxyIds[0], ['ord_2']]])
    assert.equal(extensionsOf(state, proxyIds, start + 60 * dayMs).size, 0)
  })

  test("lists as running only rentals that an extension would keep: not ended, released or another account's", () => {
    const { rented, proxyIds } = rent(stocked('198.18.0.1', '198.18.0.2'), 'ord_1', { quantity: 2 })
    const { accountId } = addressOrder('ord_1')
    const running = ({ state }: Stock, atMs: number) => stillRunning(state, { accountId, proxyIds }, atMs)
    assert.deepEqual(running(rented, start + 30 * dayMs - 1), proxyIds)
    assert.deepEqual(running(rented, start + 30 * dayMs), [])
    assert.deepEqual(stillRunning(rented.state, { accountId: 'acc_other', proxyIds }, start), [])
    assert.deepEqual(running(rented.given(release(proxyIds.slice(0, 1))), start), proxyIds.slice(1))
  })

  test("never extends another account's rental", () => {
    const { rented, proxyIds } = rent(stocked('198.18.0.1'))
    rented.when(extend('ord_2', proxyIds, { accountId: 'acc_other' as never })).thenRefused('rental_ended')
  })

  test('allocates a mobile order from its own carrier and service only', () => {
    const [att, verizon] = ['att-us', 'verizon-us'].map((carrierId, n) => ({
      ...plainAddress(`198.18.0.${n + 1}`),
      carrierId,
      service: 'dedicated' as const,
    }))
    const addresses = [att!, verizon!]
    const stock = empty.given({
      type: 'AddressesStocked',
      data: { productId: 'mobile', country: 'USA', addresses },
    })
    const line = { carrierId: 'verizon-us', service: 'dedicated', rotationMinutes: 10 } as const
    const target = { country: 'USA', periodDays: 30, ...line }
    const [event] = eventsOf<StockEvent>(stock.when(allocate('ord_1', { quantity: 1, target })).result)
    assert.ok(event?.type === 'AddressesAllocated')
    assert.deepEqual(
      event.data.allocations.map(({ ip, rotationMinutes }) => [ip, rotationMinutes]),
      [['198.18.0.2', 10]],
    )
  })
})
