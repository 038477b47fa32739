import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
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
import type { FoldedEvent } from '../../../src/kernel/decider.ts'
import type { OrderId, ProxyId } from '../../../src/kernel/ids.ts'
import fc from '../../support/fast-check.ts'
import { addressesStocked, addressOrder, plainAddress } from '../../support/world.ts'

const dayMs = 24 * 60 * 60 * 1000
const start = 1_800_000_000_000

const after = (state: StockState, events: readonly StockEvent[], atMs: number): StockState =>
  events.reduce(
    (now, event) =>
      stockFold.evolve(now, { ...event, revision: 0, recordedAtMs: atMs } as FoldedEvent<StockEvent>),
    state,
  )

const stocked = (ips: readonly string[]): StockState =>
  after(stockFold.initial, [addressesStocked(ips)], start)

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
          let state = stocked(all)
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
            state = after(state, events, now)
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
    )
  })

  test('replaces an address once a day and three times in 30 days, and once for each request', () => {
    const ips = Array.from({ length: 9 }, (_, n) => `198.18.0.${n + 1}`)
    const order = addressOrder('ord_1', { quantity: 1 })
    let state = after(stocked(ips), decideAllocation(stocked(ips), order, start).events, start)
    const [proxyId = ''] = state.rentals.keys()
    const replace = (atMs: number, requestId: string | null = null) => {
      const request = { proxyId, accountId: order.accountId, reason: 'not_working', requestId } as const
      const decision = decideReplacement(state, request, atMs)
      if (decision.outcome === 'refused') return decision.refusal
      state = after(state, decision.events, atMs)
      return decision.replacedAt === null ? 'replayed' : decision.address.ip
    }
    assert.equal(replace(start, 'once'), '198.18.0.2')
    assert.equal(replace(start + 1, 'once'), 'replayed')
    assert.deepEqual(replace(start + 1, 'again'), { code: 'too_often', retryAtMs: start + dayMs })
    assert.equal(replace(start + dayMs), '198.18.0.3')
    assert.equal(replace(start + 2 * dayMs), '198.18.0.4')
    assert.deepEqual(replace(start + 3 * dayMs), { code: 'too_often', retryAtMs: start + 30 * dayMs })
    assert.deepEqual(replace(start + 30 * dayMs), { code: 'rental_ended' })
    assert.equal(replace(start + 4 * dayMs, 'once'), 'replayed')
  })

  test('gives the same answer to a repeated order, without a second event', () => {
    const order = addressOrder('ord_1', { quantity: 1 })
    const first = decideAllocation(stocked(['198.18.0.1', '198.18.0.2']), order, start)
    const state = after(stocked(['198.18.0.1', '198.18.0.2']), first.events, start)
    assert.deepEqual(decideAllocation(state, order, start + dayMs), { events: [], answer: first.answer })
  })

  test('refuses more than is free with the free count, without an event', () => {
    const decision = decideAllocation(stocked(['198.18.0.1']), addressOrder('ord_1'), start)
    const answer = { outcome: 'refused', reason: 'out_of_stock', free: 1 }
    assert.deepEqual(decision, { events: [], answer })
  })

  test('keeps a recorded refusal when addresses return', () => {
    const order = addressOrder('ord_1', { quantity: 1 })
    const state = after(stocked(['198.18.0.1']), [recordRefusal('ord_1', 'out_of_stock')], start)
    assert.equal(decideAllocation(state, order, start).answer.outcome, 'refused')
  })

  test('sells addresses in the order in which they were stocked', () => {
    const decision = decideAllocation(
      stocked(['198.18.0.9', '198.18.0.1']),
      addressOrder('ord_1', { quantity: 1 }),
      start,
    )
    const [event] = decision.events
    assert.equal(event?.type === 'AddressesAllocated' && event.data.allocations[0]?.ip, '198.18.0.9')
  })

  test('lets a released address rest for exactly 15 minutes, then sells it', () => {
    const [first, next] = ['ord_1', 'ord_2'].map((orderId) => addressOrder(orderId, { quantity: 1 }))
    const sold = decideAllocation(stocked(['198.18.0.1']), first!, start)
    const rented = after(stocked(['198.18.0.1']), sold.events, start)
    const proxyIds = sold.answer.outcome === 'fulfilled' ? sold.answer.proxyIds : []
    const released = after(rented, decideRelease(rented, proxyIds, 'refunded', start + dayMs), start + dayMs)
    const restedAt = start + dayMs + 15 * 60_000
    for (const tooEarly of [start + dayMs, restedAt - 1_000, restedAt - 1])
      assert.deepEqual(decideAllocation(released, next!, tooEarly), {
        events: [],
        answer: { outcome: 'refused', reason: 'out_of_stock', free: 0 },
      })
    const [event] = decideAllocation(released, next!, restedAt).events
    assert.deepEqual(event?.type === 'AddressesAllocated' && event.data.allocations.map(({ ip }) => ip), [
      '198.18.0.1',
    ])
  })

  test('sells a returned address before one that was replaced earlier and rests longer', () => {
    const ips = ['198.18.0.1', '198.18.0.2', '198.18.0.3']
    const orders = ['ord_1', 'ord_2', 'ord_3'].map((id) => addressOrder(id, { quantity: 1 }))
    let state = stocked(ips)
    for (const order of orders.slice(0, 2))
      state = after(state, decideAllocation(state, order, start).events, start)
    const [one = '', two = ''] = state.rentals.keys()
    const request = {
      proxyId: one,
      accountId: orders[0]!.accountId,
      reason: 'low_speed',
      requestId: null,
    } as const
    const replaced = decideReplacement(state, request, start)
    assert.ok(replaced.outcome === 'decided')
    state = after(state, replaced.events, start)
    state = after(state, decideRelease(state, [two], 'refunded', start + 1), start + 1)
    const [event] = decideAllocation(state, orders[2]!, start + 1 + cooldownMs).events
    assert.equal(event?.type === 'AddressesAllocated' && event.data.allocations[0]?.ip, '198.18.0.2')
  })

  test('sells rested addresses, keeps the resting ones, and sells none of an order that is too large', () => {
    const ips = ['198.18.0.1', '198.18.0.2']
    const orderOf = (orderId: string, quantity: number) => addressOrder(orderId, { quantity })
    const sold = decideAllocation(stocked(ips), orderOf('ord_1', 2), start)
    const proxyIds = sold.answer.outcome === 'fulfilled' ? sold.answer.proxyIds : []
    let state = after(stocked(ips), sold.events, start)
    for (const [at, proxyId] of proxyIds.entries()) {
      const releasedAt = start + at * 60_000
      state = after(state, decideRelease(state, [proxyId], 'refunded', releasedAt), releasedAt)
    }
    const between = start + cooldownMs + 59_999
    assert.equal(decideAllocation(state, orderOf('ord_2', 2), between).answer.outcome, 'refused')
    assert.equal(decideAllocation(state, orderOf('ord_2', 1), between).answer.outcome, 'fulfilled')
    assert.equal(decideAllocation(state, orderOf('ord_2', 2), between + 1).answer.outcome, 'fulfilled')
  })

  test('extends a rental from its own end, and refuses one that has ended', () => {
    const first = decideAllocation(stocked(['198.18.0.1']), addressOrder('ord_1', { quantity: 1 }), start)
    const state = after(stocked(['198.18.0.1']), first.events, start)
    const proxyIds = first.answer.outcome === 'fulfilled' ? first.answer.proxyIds : []
    const extension = addressOrder('ord_2', { kind: 'extension', quantity: 1, proxyIds })
    const [event] = decideExtension(state, extension, start + dayMs).events
    assert.equal(
      event?.type === 'AddressesExtended' && event.data.extensions[0]?.expiresAt,
      new Date(start + 60 * dayMs).toISOString(),
    )
    const late = decideExtension(state, extension, start + 30 * dayMs)
    assert.deepEqual(late, { events: [], answer: { outcome: 'refused', reason: 'rental_ended' } })
  })

  test('extends no rental beyond ten years from now, after any earlier extensions', () => {
    const first = decideAllocation(stocked(['198.18.0.1']), addressOrder('ord_1', { quantity: 1 }), start)
    let state = after(stocked(['198.18.0.1']), first.events, start)
    const proxyIds = first.answer.outcome === 'fulfilled' ? first.answer.proxyIds : []
    const extension = (orderId: string) => addressOrder(orderId, { kind: 'extension', quantity: 1, proxyIds })
    let periods = 1
    for (; ; periods += 1) {
      const { events, answer } = decideExtension(state, extension(`ord_ext_${periods}`), start)
      if (answer.outcome === 'refused') break
      state = after(state, events, start)
    }
    assert.equal(periods, Math.floor(maxDaysAhead / 30))
    const further = extension(`ord_ext_${periods}`)
    assert.deepEqual(decideExtension(state, further, start), {
      events: [],
      answer: { outcome: 'refused', reason: 'too_far_ahead' },
    })
    const refused = after(state, [recordRefusal(further.orderId, 'too_far_ahead')], start)
    assert.equal(decideExtension(refused, further, start + 30 * dayMs).answer.outcome, 'refused')
    assert.equal(decideExtension(state, further, start + 30 * dayMs).answer.outcome, 'fulfilled')
  })

  test('lists the orders that extended a rental for as long as it runs', () => {
    const first = decideAllocation(stocked(['198.18.0.1']), addressOrder('ord_1', { quantity: 1 }), start)
    const rented = after(stocked(['198.18.0.1']), first.events, start)
    const proxyIds = first.answer.outcome === 'fulfilled' ? first.answer.proxyIds : []
    assert.equal(extensionsOf(rented, proxyIds, start).size, 0)
    const extension = addressOrder('ord_2', { kind: 'extension', quantity: 1, proxyIds })
    const longer = after(rented, decideExtension(rented, extension, start).events, start)
    assert.deepEqual([...extensionsOf(longer, proxyIds, start + 60 * dayMs - 1)], [[proxyIds[0], ['ord_2']]])
    assert.equal(extensionsOf(longer, proxyIds, start + 60 * dayMs).size, 0)
  })

  test("lists as running only rentals that an extension would keep: not ended, released or another account's", () => {
    const pair = addressOrder('ord_1', { quantity: 2 })
    const first = decideAllocation(stocked(['198.18.0.1', '198.18.0.2']), pair, start)
    const rented = after(stocked(['198.18.0.1', '198.18.0.2']), first.events, start)
    const proxyIds = first.answer.outcome === 'fulfilled' ? first.answer.proxyIds : []
    const { accountId } = pair
    assert.deepEqual(stillRunning(rented, { accountId, proxyIds }, start + 30 * dayMs - 1), proxyIds)
    assert.deepEqual(stillRunning(rented, { accountId, proxyIds }, start + 30 * dayMs), [])
    assert.deepEqual(stillRunning(rented, { accountId: 'acc_other', proxyIds }, start), [])
    const released = after(rented, decideRelease(rented, proxyIds.slice(0, 1), 'refunded', start), start)
    assert.deepEqual(stillRunning(released, { accountId, proxyIds }, start), proxyIds.slice(1))
  })

  test("never extends another account's rental", () => {
    const first = decideAllocation(stocked(['198.18.0.1']), addressOrder('ord_1', { quantity: 1 }), start)
    const state = after(stocked(['198.18.0.1']), first.events, start)
    const foreign = addressOrder('ord_2', {
      accountId: 'acc_other' as never,
      kind: 'extension',
      proxyIds: first.answer.outcome === 'fulfilled' ? first.answer.proxyIds : [],
    })
    assert.equal(decideExtension(state, foreign, start).answer.outcome, 'refused')
  })

  test('allocates a mobile order from its own carrier and service only', () => {
    const address = (ip: string, carrierId: string) => ({
      ...plainAddress(ip),
      carrierId,
      service: 'dedicated' as const,
    })
    const state = after(
      stockFold.initial,
      [
        {
          type: 'AddressesStocked',
          data: {
            productId: 'mobile',
            country: 'USA',
            addresses: [address('198.18.0.1', 'att-us'), address('198.18.0.2', 'verizon-us')],
          },
        },
      ],
      start,
    )
    const order = addressOrder('ord_1' satisfies string as OrderId, {
      quantity: 1,
      target: {
        country: 'USA',
        periodDays: 30,
        carrierId: 'verizon-us',
        service: 'dedicated',
        rotationMinutes: 10,
      },
    })
    const [event] = decideAllocation(state, order, start).events
    assert.deepEqual(
      event?.type === 'AddressesAllocated' &&
        event.data.allocations.map(({ ip, rotationMinutes }) => [ip, rotationMinutes]),
      [['198.18.0.2', 10]],
    )
  })
})
