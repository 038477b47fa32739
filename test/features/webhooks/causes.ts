import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import type { TestApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { eventsOf } from './deliveries.ts'

/** An address without a listener: for endpoints to which nothing is sent. */
export const nowhere = 'http://127.0.0.1:9/hook'
export const gb = 1_000_000_000

export const buyPlan = async (app: TestApp, customer: Customer, quantity = 1) =>
  (
    await done(
      app.client.post('/api/v1/orders', { product_id: 'residential-basic', quantity }, { key: customer.key }),
    )
  ).body as { orderId: string; planId: string; amountCents: number }

/** Reports traffic through the port that gateways use for plans. */
export const meter = async (app: TestApp, planId: string, bytes: number): Promise<void> => {
  const reported = await createMeter(app.core).reportOnce({
    planId: planId as PlanId,
    reportId: randomUUID(),
    bytes,
  })
  assert.ok(reported.metered)
}

export type Enqueued = { readonly endpointId: string; readonly event: string; readonly resource: string }

export const enqueued = async (app: TestApp): Promise<readonly Enqueued[]> =>
  (await eventsOf(app.core.log, 'delivery-'))
    .filter(({ type }) => type === 'WebhookEnqueued')
    .map(({ data }) => data as Enqueued)

/** Waits until every delivery due from the present log is enqueued, queued or canceled. */
export const caughtUp = async ({ farebox: { core } }: Pick<TestApp, 'farebox'>): Promise<void> => {
  const head = await core.log.head()
  await until(
    async () => {
      const { rows } = await core.pool.query<{ done: boolean }>(
        `select (select min(position) from engine.checkpoints where name in ('webhooks', 'webhook-queue')) >= $1::bigint
            and not exists (select from read.webhooks_due where not enqueued and position <= $1::bigint)
            and not exists (select from read.webhooks_stale where position <= $1::bigint)
            and not exists (select from work.webhook_cancellations where position <= $1::bigint) as done`,
        [head],
      )
      return rows[0]?.done
    },
    { timeoutMs: 60_000, what: 'what webhooks are to tell' },
  )
}
