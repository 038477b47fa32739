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
import { applyDecided } from '../../../src/kernel/decider.ts'
import { decider } from '../../support/decider.ts'
import fc from '../../support/fast-check.ts'

const accountId = 'acc_one'
const place = (n: number) => ({ accountId, endpointId: `whs_${n}` })

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
        if (decision.outcome === 'decided') state = applyDecided(endpointsFold, state, decision.events, 0)
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

const endpoints = decider(endpointsFold)
const register = (state: EndpointsState) =>
  decideRegistration(state, { ...place(1), events: ['ping'], urlId: 'u', secretId: 'old' })
const registered = endpoints.given(register)

test('an unchanged value adds no event', () => {
  for (const change of [{}, { events: ['ping'] as WebhookEventName[] }, { status: 'active' as const }])
    registered.when((state) => decideChange(state, place(1), change)).thenEvents()
  const disable = (n: number) => (state: EndpointsState) =>
    decideDisabling(state, place(n), { reason: 'gone' })
  const disabled = registered.given(disable(1))
  assert.equal(disabled.state.get('whs_1')?.status, 'disabled')
  disabled.when(disable(1)).thenEvents()
  disabled.when(disable(2)).thenEvents()
})

test('a rotation names the former secret and how long it stays valid', () => {
  const nowMs = Date.parse('2026-11-21T00:00:00.000Z')
  const rotated = registered
    .at(nowMs)
    .when((state, atMs) => decideRotation(state, { ...place(1), secretId: 'new' }, atMs))
    .thenEvents({
      type: 'SecretRotated',
      data: {
        ...place(1),
        secretId: 'new',
        previousSecretId: 'old',
        previousUntil: new Date(nowMs + previousSecretMs).toISOString(),
      },
    })
  assert.equal(rotated.state.get('whs_1')?.secretId, 'new')
})

test('a delivery is enqueued once, and sent again only after its round is over', () => {
  const enqueue = {
    ...place(1),
    deliveryId: 'dlv_1',
    event: 'ping' as const,
    resource: 'ping_1',
    data: { message: 'x' },
  }
  const of = { deliveryId: 'dlv_1', endpointId: 'whs_1' }
  const ends: readonly DeliveryEvent[] = [
    { type: 'DeliverySucceeded', data: { ...of, attempts: 1, status: 200 } },
    { type: 'DeliveryAbandoned', data: { ...of, attempts: 10, reason: 'gone' } },
  ]
  const add = (state: DeliveryState) => decideEnqueue(state, enqueue)
  let delivery = decider(deliveryFold).given(add)
  for (const [index, end] of ends.entries()) {
    delivery.when(add).thenEvents()
    // It is on its way.
    delivery.when(decideRedelivery).thenEvents()
    const requeued = { type: 'WebhookRequeued', data: { ...enqueue, round: index + 2 } } as const
    delivery = delivery.given(end).when(decideRedelivery).thenEvents(requeued)
  }
  assert.throws(() => decideRedelivery(null))
})
