import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideChange,
  decideDisabling,
  decideEnqueue,
  decideRedelivery,
  decideRegistration,
  decideRemoval,
  decideRotation,
  type EndpointDecision,
  maxActiveEndpoints,
  maxEndpoints,
  previousSecretMs,
} from '../../../src/domain/webhooks/decide.ts'
import type { DeliveryEvent } from '../../../src/domain/webhooks/events.ts'
import { type WebhookEventName, webhookEvents } from '../../../src/domain/webhooks/events.ts'
import {
  type DeliveryState,
  deliveryFold,
  type EndpointsState,
  endpointsFold,
} from '../../../src/domain/webhooks/fold.ts'
import fc from '../../support/fast-check.ts'

const accountId = 'acc_one'
const place = (n: number) => ({ accountId, endpointId: `whs_${n}` })
const at = { revision: 0, recordedAtMs: 0 }

const after = (state: EndpointsState, decision: EndpointDecision): EndpointsState =>
  decision.outcome === 'refused'
    ? state
    : decision.events.reduce((before, event) => endpointsFold.evolve(before, { ...event, ...at }), state)

const subscription = fc.option(fc.subarray([...webhookEvents], { minLength: 1 }))
const step = fc.oneof(
  fc.record({ kind: fc.constant('register' as const), events: subscription }),
  fc.record({
    kind: fc.constant('change' as const),
    n: fc.nat(30),
    events: fc.option(subscription, { nil: undefined }),
    status: fc.constantFrom(undefined, 'active' as const, 'disabled' as const),
  }),
  fc.record({ kind: fc.constantFrom('remove' as const, 'gone' as const, 'rotate' as const), n: fc.nat(30) }),
)

test('an account never has more than ten active endpoints, for any commands in any order', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      let state = endpointsFold.initial
      let made = 0
      for (const one of steps) {
        const before = state
        const decide = (): EndpointDecision => {
          if (one.kind === 'register') {
            made += 1
            const values = { urlId: `u${made}`, secretId: `s${made}` }
            return decideRegistration(state, { ...place(made), events: one.events, ...values })
          }
          const ref = place(one.n)
          if (one.kind === 'change') return decideChange(state, ref, one)
          if (one.kind === 'remove') return decideRemoval(state, ref)
          if (one.kind === 'gone') return decideDisabling(state, ref, { reason: 'gone' })
          return decideRotation(state, { ...ref, secretId: `r${made}` }, 0)
        }
        const decision = decide()
        state = after(state, decision)
        const active = state.count(({ status }) => status === 'active')
        assert.ok(active <= maxActiveEndpoints)
        assert.ok(state.size <= maxEndpoints)
        if (decision.outcome === 'refused') {
          assert.equal(state, before)
          if (decision.refusal === 'webhook_limit_reached')
            assert.ok(active === maxActiveEndpoints || state.size === maxEndpoints)
          else assert.ok(one.kind !== 'register' && !before.has(place(one.n).endpointId))
        }
      }
    }),
  )
})

test('an unchanged value adds no event', () => {
  const values = { urlId: 'u', secretId: 's' }
  const state = after(
    endpointsFold.initial,
    decideRegistration(endpointsFold.initial, { ...place(1), events: ['ping'], ...values }),
  )
  for (const change of [{}, { events: ['ping'] as WebhookEventName[] }, { status: 'active' as const }])
    assert.deepEqual(decideChange(state, place(1), change), { outcome: 'decided', events: [] })
  const disabled = after(state, decideDisabling(state, place(1), { reason: 'gone' }))
  assert.equal(disabled.get('whs_1')?.status, 'disabled')
  assert.deepEqual(decideDisabling(disabled, place(1), { reason: 'gone' }), {
    outcome: 'decided',
    events: [],
  })
  assert.deepEqual(decideDisabling(disabled, place(2), { reason: 'gone' }), {
    outcome: 'decided',
    events: [],
  })
})

test('a rotation names the former secret and how long it stays valid', () => {
  const values = { urlId: 'u', secretId: 'old' }
  const state = after(
    endpointsFold.initial,
    decideRegistration(endpointsFold.initial, { ...place(1), events: null, ...values }),
  )
  const nowMs = Date.parse('2026-11-21T00:00:00.000Z')
  const decision = decideRotation(state, { ...place(1), secretId: 'new' }, nowMs)
  assert.deepEqual(decision, {
    outcome: 'decided',
    events: [
      {
        type: 'SecretRotated',
        data: {
          ...place(1),
          secretId: 'new',
          previousSecretId: 'old',
          previousUntil: new Date(nowMs + previousSecretMs).toISOString(),
        },
      },
    ],
  })
  assert.equal(after(state, decision).get('whs_1')?.secretId, 'new')
})

test('a delivery is enqueued once, and sent again only after its round is over', () => {
  const enqueue = {
    ...place(1),
    deliveryId: 'dlv_1',
    event: 'ping' as const,
    resource: 'ping_1',
    data: { message: 'x' },
  }
  const fold = (state: DeliveryState, events: readonly DeliveryEvent[]): DeliveryState =>
    events.reduce((before, event) => deliveryFold.evolve(before, { ...event, ...at }), state)
  const ends: readonly DeliveryEvent[] = [
    {
      type: 'DeliverySucceeded',
      data: { deliveryId: 'dlv_1', endpointId: 'whs_1', attempts: 1, status: 200 },
    },
    {
      type: 'DeliveryAbandoned',
      data: { deliveryId: 'dlv_1', endpointId: 'whs_1', attempts: 10, reason: 'gone' },
    },
  ]
  let state = fold(null, decideEnqueue(null, enqueue))
  for (const [index, end] of ends.entries()) {
    assert.deepEqual(decideEnqueue(state, enqueue), [])
    assert.deepEqual(decideRedelivery(state), [], 'it is on its way')
    state = fold(state, [end])
    const again = decideRedelivery(state)
    assert.deepEqual(again, [{ type: 'WebhookRequeued', data: { ...enqueue, round: index + 2 } }])
    state = fold(state, again)
  }
  assert.throws(() => decideRedelivery(null))
})
