import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Clock } from '../../clock.ts'
import type { EventLog } from '../../eventstore/port.ts'
import type { Audience } from '../../notices/notice.ts'
import type { WebhookEventName } from '../event-names.ts'
import { enqueue } from './enqueue.ts'
import type { Barrier } from './step.ts'

type Db = Pick<pg.ClientBase, 'query'>

/** The accounts of an audience (decisions.md, "Webhooks and notices"). */
const members: Readonly<Record<Audience, string>> = {
  ALL: 'true',
  CUSTOMERS: 'not a.reseller',
  PARTNERS: 'a.reseller',
  DEVELOPERS: 'a.active_keys > 0',
}

/**
 * Keeps who is to be told: the endpoints as of the fact, which is what the tables hold just now. From here on it is a
 * list to be worked off, and the reactor goes on with the log.
 */
export const openFanOut = async (
  db: Db,
  { event, cause, audience }: Extract<Barrier, { kind: 'fan-out' }>,
): Promise<void> => {
  if (cause.data.kind !== 'ready') throw new Error(`${cause.event} tells many, and its data is not there`)
  await db.query(
    `insert into work.webhook_fan_outs (cause_id, event, resource, data, correlation_id)
     values ($1::uuid, $2::text, $3::text, $4::text, $5::text)`,
    [event.id, cause.event, cause.resource, JSON.stringify(cause.data.data), event.metadata.correlationId],
  )
  await db.query(
    `insert into work.webhook_fan_out_targets (cause_id, endpoint_id, account_id)
     select $1::uuid, e.endpoint_id, e.account_id
       from work.webhook_endpoints e join work.webhook_accounts a using (account_id)
      where e.active and (e.events is null or $2::text = any (e.events)) and ${members[audience]}`,
    [event.id, cause.event],
  )
}

type Target = {
  readonly cause_id: string
  readonly endpoint_id: string
  readonly account_id: string
  readonly event: WebhookEventName
  readonly resource: string
  readonly data: string
  readonly correlation_id: string
}

/** Deliveries of one append, so that an order never waits behind more of them. */
const chunk = 50
/** Pauses this many times as long as a chunk took: what is left of the time belongs to orders. */
const restFactor = 2
const idleMs = 500

/**
 * Works lists off until the signal: enqueue a chunk, then forget it. Killed in between, the chunk is enqueued again and
 * changes nothing, since each delivery has a stream of its own.
 */
export const workFanOuts = async (
  deps: {
    readonly pool: pg.Pool
    readonly log: EventLog
    readonly clock: Clock
    /** Resolves when a list was opened. */
    readonly opened: () => Promise<void>
  },
  signal: AbortSignal,
): Promise<void> => {
  const { pool, log, clock, opened } = deps
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined)
  while (!signal.aborted) {
    const startedMs = performance.now()
    const { rows } = await pool.query<Target>({
      name: 'webhooks-fan-out',
      text: `select cause_id, t.endpoint_id, t.account_id, f.event, f.resource, f.data, f.correlation_id
               from work.webhook_fan_out_targets t join work.webhook_fan_outs f using (cause_id)
              order by cause_id, endpoint_id limit ${chunk}`,
    })
    if (rows.length === 0) {
      await Promise.race([opened(), pause(idleMs)])
      continue
    }
    await enqueue(
      log,
      rows.map((row) => ({
        endpointId: row.endpoint_id,
        accountId: row.account_id,
        event: row.event,
        resource: row.resource,
        data: { kind: 'ready', data: JSON.parse(row.data) },
        cause: { id: row.cause_id, correlationId: row.correlation_id, recordedAtMs: 0 },
      })),
      clock(),
    )
    await pool.query({
      name: 'webhooks-fanned-out',
      text: `delete from work.webhook_fan_out_targets t
              using unnest($1::uuid[], $2::text[]) as done (cause_id, endpoint_id)
              where t.cause_id = done.cause_id and t.endpoint_id = done.endpoint_id`,
      values: [rows.map(({ cause_id }) => cause_id), rows.map(({ endpoint_id }) => endpoint_id)],
    })
    await pause(Math.max(1, (performance.now() - startedMs) * restFactor))
  }
}
