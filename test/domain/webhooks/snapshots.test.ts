import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decideChange,
  decideRegistration,
  type EndpointDecision,
} from '../../../src/domain/webhooks/decide.ts'
import type { EndpointEvent } from '../../../src/domain/webhooks/events.ts'
import { type EndpointsState, endpointsFold } from '../../../src/domain/webhooks/fold.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { webhooksStream } from '../../../src/kernel/streams.ts'
import {
  beginningsOfReads,
  postgresWorld,
  runnerOver,
  signAgain,
  snapshotFrom,
  snapshotsIn,
} from '../../platform/commands/world.ts'

const accountId = 'acc_one' as AccountId
const place = { accountId, endpointId: 'whs_1' }
const stream = webhooksStream(accountId)

const decide = (runner: ReturnType<typeof runnerOver>, what: (state: EndpointsState) => EndpointDecision) =>
  runner.run({
    name: 'change-webhook',
    streams: { endpoints: { stream, fold: endpointsFold } },
    decide: ({ endpoints }) => {
      const decision = what(endpoints)
      const events = decision.outcome === 'decided' ? decision.events : []
      return { appends: events.length === 0 ? [] : [{ stream, events }], answer: endpoints }
    },
    actor: { kind: 'operator', name: 'ann' },
    correlationId: 'test',
  })

const nothing: EndpointDecision = { outcome: 'decided', events: [] }

test('frequently changed endpoints are read from a snapshot and the last changes', async (t) => {
  const { wire, elsewhere, pool } = await postgresWorld(t)
  const options = {
    snapshots: snapshotsIn(pool),
    limits: { snapshotMinEvents: 10, snapshotEveryMs: 0 },
  }
  const runner = runnerOver(wire, options)
  const registered = { ...place, events: ['order.fulfilled'], urlId: 'url_0', secretId: 'secret_0' } as const
  await decide(runner, (state) => decideRegistration(state, registered))
  for (let n = 1; n <= 40; n += 1)
    await decide(runner, (state) => decideChange(state, place, { urlId: `url_${n}` }))
  await snapshotFrom(pool, 20)
  await runner.close()
  const begun = beginningsOfReads(wire, elsewhere)
  const read = async () => {
    begun.length = 0
    const cold = runnerOver(wire, options)
    const { answer } = await decide(cold, () => nothing)
    await cold.close()
    return answer.toObject()
  }
  const found = await read()
  assert.ok(begun[0]! >= 20, `read from revision ${begun[0]}`)
  const asItIs = { whs_1: { ...found.whs_1, urlId: 'url_40', status: 'active', secretId: 'secret_0' } }
  assert.deepEqual(found, asItIs)
  await pool.query(`update engine.snapshots set state = replace(state, 'url_', 'other_')`)
  await signAgain(pool)
  assert.deepEqual(await read(), asItIs)
  assert.equal(begun.length, 2, 'a snapshot that its event does not bear out is not decided on')
})

test('a snapshot of endpoints is compared with the event that it ends with', () => {
  const agrees = endpointsFold.snapshot?.agrees
  assert.ok(agrees)
  const until = '2026-11-25T00:00:00.000Z'
  const state: EndpointsState = endpointsFold.initial.set('whs_1', {
    status: 'active',
    events: null,
    urlId: 'url_1',
    secretId: 'secret_1',
    previous: { secretId: 'secret_0', until },
  })
  const previous = { previousSecretId: 'secret_0', previousUntil: until }
  const facts: readonly (readonly [EndpointEvent, boolean])[] = [
    [
      { type: 'EndpointRegistered', data: { ...place, events: null, urlId: 'url_1', secretId: 'secret_1' } },
      true,
    ],
    [
      { type: 'EndpointRegistered', data: { ...place, events: null, urlId: 'url_1', secretId: 'secret_2' } },
      false,
    ],
    [{ type: 'EndpointChanged', data: { ...place, urlId: 'url_1' } }, true],
    [{ type: 'EndpointChanged', data: { ...place, status: 'disabled' } }, false],
    [{ type: 'EndpointDisabled', data: { ...place, reason: 'gone' } }, false],
    [{ type: 'SecretRotated', data: { ...place, secretId: 'secret_1', ...previous } }, true],
    [{ type: 'SecretRotated', data: { ...place, secretId: 'secret_2', ...previous } }, false],
    [
      { type: 'SecretRotated', data: { ...place, secretId: 'secret_1', ...previous, previousSecretId: 'x' } },
      false,
    ],
    [{ type: 'EndpointRemoved', data: place }, false],
    [{ type: 'EndpointRemoved', data: { ...place, endpointId: 'whs_2' } }, true],
    [{ type: 'EndpointChanged', data: { ...place, endpointId: 'whs_2' } }, false],
  ]
  for (const [event, expected] of facts) assert.equal(agrees(state, event), expected, JSON.stringify(event))
})
