import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { deleteOldDeliveries, eraseSuperseded } from '../../../src/features/webhooks/webhook-vault.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { startReceiver } from '../../features/webhooks/receiver.ts'
import { atEnd } from '../../support/cleanup.ts'
import { demoEnv } from '../../support/demo-env.ts'
import { dataDirectory, startFarebox } from '../../support/farebox.ts'
import {
  connected,
  fillTables,
  genericCost,
  type Planned,
  startPlannedServer,
} from '../../support/planned.ts'
import { until } from '../../support/until.ts'

/** A tenth of `jit_above_cost`, from which Postgres compiles a statement before it runs it. */
const limit = 10_000

/** One recognizable piece of each statement that an idle service was seen to run on a timer. */
const timed = [
  'from work.webhook_deliveries d',
  'with dead as materialized',
  'vault.webhook_values v on',
  'work.release_queue_owners',
  'read.webhooks_due',
  'read.webhook_announcements where',
  'work.webhook_cancellations where position',
  'work.message_cursor where single',
  'from work.messages d',
  'from work.gateway_inbox d',
  'read.subscriptions s',
  'from work.deposit_looks d',
  'work.traffic\n',
  'read.order_payments',
  'read.open_orders',
  'read.open_movements',
  'read.open_periods',
  'engine.checkpoints',
  'from log.head',
]

const squeezed = (text: string): string => text.replaceAll(/\s+/g, ' ').trim().slice(0, 120)

const dearest = (plans: readonly Pick<Planned, 'text' | 'cost'>[]): string => {
  const [first] = [...plans].sort((a, b) => b.cost - a.cost)
  return first ? `${Math.round(first.cost)}: ${squeezed(first.text)}` : 'nothing'
}

const dear = (plans: readonly Pick<Planned, 'text' | 'cost'>[]): readonly string[] =>
  plans.filter(({ cost }) => cost >= limit).map(({ text, cost }) => `${Math.round(cost)}: ${squeezed(text)}`)

test('the statements of timers have plans far below the cost at which Postgres compiles them', async (t) => {
  const server = await startPlannedServer(t)
  const receiver = await startReceiver(t)
  const dataDir = await dataDirectory(t)
  const farebox = await startFarebox(t, {
    ...demoEnv(server.url, dataDir),
    FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on',
  })
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  await server.plans() // migrations and the demo may be dear
  const post = (path: string, body: unknown): Promise<Response> =>
    fetch(`${farebox.baseUrl}/api/v1/webhooks${path}`, {
      method: 'POST',
      headers: { 'X-API-Key': buyer.key, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })
  const { id } = (await (await post('', { url: receiver.url })).json()) as { id: string }
  assert.equal((await post(`/${id}/test`, {})).status, 202)
  await until(() => receiver.received.length > 0, { what: 'the ping' })
  const pool = createPool({ url: server.url, applicationName: 'test' })
  atEnd(t, () => pool.end())
  await deleteOldDeliveries(pool, Date.now())
  await eraseSuperseded(pool, Date.now())

  const seen = new Map<string, Planned>()
  const fresh: Planned[] = []
  await until(
    async () => {
      const plans = await server.plans()
      fresh.push(...plans)
      for (const plan of plans) seen.set(JSON.stringify([plan.text, plan.settings]), plan)
      return timed.every((part) => fresh.some(({ text }) => text.includes(part)))
    },
    { timeoutMs: 60_000, everyMs: 500, what: 'a run of every timer' },
  ).catch((error) => {
    const missing = timed.filter((part) => !fresh.some(({ text }) => text.includes(part)))
    throw new Error(`never seen: ${missing.join('; ')}`, { cause: error })
  })
  const check = (plans: readonly Pick<Planned, 'text' | 'cost'>[], when: string): void => {
    t.diagnostic(`${when}, the dearest of ${plans.length}: ${dearest(plans)}`)
    assert.deepEqual(dear(plans), [], when)
  }
  check(fresh, 'with fresh tables')
  await farebox.stop()
  await server.plans()

  const client = await connected(t, server.url)
  await client.query("load 'auto_explain'; set auto_explain.log_min_duration = -1")
  await fillTables(client, 20_000)
  const generic = async (): Promise<readonly Pick<Planned, 'text' | 'cost'>[]> => {
    const found: Pick<Planned, 'text' | 'cost'>[] = []
    for (const plan of seen.values()) {
      const cost = await genericCost(client, plan)
      if (cost !== null) found.push({ text: plan.text, cost })
    }
    return found
  }
  check(await generic(), 'with tables that grew and were never analysed')
  await client.query('analyze')
  check(await generic(), 'with tables that grew and were analysed')
})
