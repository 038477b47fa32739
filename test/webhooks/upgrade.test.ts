import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { reactorTypes, reactorVersion } from '../../src/outbound/webhooks/reactor/step.ts'
import { testDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { buyPlan, caughtUp, enqueued, nowhere } from './causes.ts'
import { hookTo, openHooks, startReactor } from './world.ts'

test('once a newer release is there, the reactor of an older one passes over nothing more', async (t) => {
  const stage = await openHooks(t)
  const { pool } = stage.farebox.core
  const lines: string[] = []
  const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
  startReactor(t, stage, { logger })
  const customer = await stage.customer({ cents: 100_000 })
  const { id } = await hookTo(stage, nowhere, ['order.fulfilled'], customer)
  await caughtUp(stage)
  const placed = async () =>
    (
      await pool.query<{ position: number; epoch: number }>(
        'select position, epoch from work.webhook_reactor',
      )
    ).rows[0]!
  const setVersion = (version: number) =>
    pool.query('update work.webhook_reactor set version = $1::integer', [version])

  // As the migration of a newer release does.
  await setVersion(reactorVersion + 1)
  const before = await placed()
  const { orderId } = await buyPlan(stage, customer)
  await until(() => lines.some((line) => line.includes('a newer version of Farebox enqueues webhooks now')), {
    timeoutMs: 30_000,
    what: 'the older reactor giving way',
  })
  // Neither moved, nor taken from the newer one, whose epoch it is.
  assert.deepEqual(await placed(), before)

  // Whoever knows the version goes on from there.
  await setVersion(reactorVersion)
  await caughtUp(stage)
  assert.deepEqual(
    (await enqueued(stage)).filter(({ endpointId }) => endpointId === id).map(({ resource }) => resource),
    [orderId],
  )
})

const knownToFirst = [
  'AccountCreated',
  'DeliveryAbandoned',
  'DeliveryCanceled',
  'DeliverySucceeded',
  'EndpointChanged',
  'EndpointDisabled',
  'EndpointRegistered',
  'EndpointRemoved',
  'KeyIssued',
  'KeyRevoked',
  'NoticePublished',
  'OrderFailed',
  'OrderFulfilled',
  'OrderRefunded',
  'PlanExpired',
  'PlanRanLow',
  'PlanToppedUp',
  'PlanUnitsWithdrawn',
  'SecretRotated',
  'SubscriptionCanceled',
  'SubscriptionExpired',
  'TrafficMetered',
  'WebhookEnqueued',
  'WebhookRequeued',
]

/** What reactors of each version know. A list that changes, or what is done about a kind, is a new version, in `step.ts` and in a migration. */
const known: Readonly<Record<number, readonly string[]>> = {
  1: knownToFirst,
  2: [...knownToFirst, 'OrderCompleted'].sort(),
  3: [...knownToFirst, 'OrderCompleted'].sort(),
}

test('the version of the reactor says which kinds of events it knows, and the database asks for it', async (t) => {
  assert.deepEqual([...reactorTypes].sort(), known[reactorVersion])
  const { pool } = await testDatabase(t)
  const { rows } = await pool.query(
    `insert into work.webhook_reactor (name, log_id, position, epoch) values ('webhooks', 'log', 0, 0) returning version`,
  )
  assert.deepEqual(rows, [{ version: reactorVersion }])
})
