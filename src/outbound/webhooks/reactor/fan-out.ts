import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Clock } from '../../../kernel/clock.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
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

/** Targets that are read, and forgotten, at once. */
const page = 400
/**
 * Deliveries of one append: so few that an order which shares its commit does not notice them. Pieces are at least
 * `pieceEveryMs` apart, and further when an append takes long: the log belongs to orders first. A list grows no faster
 * than it is sent, so that what orders tell is never behind a hundred thousand announcements.
 */
const piece = 10
const pieceEveryMs = 25
const restFactor = 4
/** The reactor that opens lists is in this process and says so: this is for what none of it explains. */
const idleMs = 5_000

/** Before every target. */
const start = { cause_id: '00000000-0000-0000-0000-000000000000', endpoint_id: '' }

/**
 * Works lists off until the signal: enqueue a page, piece by piece, then forget it. Killed in between, what was enqueued
 * is enqueued again and changes nothing, since each delivery has a stream of its own.
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

  const enqueuePiece = (targets: readonly Target[], data: (text: string) => object): Promise<void> =>
    enqueue(
      log,
      targets.map((target) => ({
        endpointId: target.endpoint_id,
        accountId: target.account_id,
        event: target.event,
        resource: target.resource,
        data: { kind: 'ready', data: data(target.data) as Readonly<Record<string, unknown>> },
        cause: { id: target.cause_id, correlationId: target.correlation_id, recordedAtMs: 0 },
      })),
      clock(),
    )

  const forget = (targets: readonly Target[]): Promise<unknown> =>
    pool.query({
      name: 'webhooks-fanned-out',
      text: `delete from work.webhook_fan_out_targets t
              using unnest($1::uuid[], $2::text[]) as done (cause_id, endpoint_id)
              where t.cause_id = done.cause_id and t.endpoint_id = done.endpoint_id`,
      values: [targets.map(({ cause_id }) => cause_id), targets.map(({ endpoint_id }) => endpoint_id)],
    })

  /** Forgets the targets that it came to, also when it fails, so that starting over begins behind them. */
  const enqueuePage = async (targets: readonly Target[]): Promise<void> => {
    const data = memoized()
    let done = 0
    try {
      while (done < targets.length && !signal.aborted) {
        const startedMs = performance.now()
        await enqueuePiece(targets.slice(done, done + piece), data)
        done += piece
        const tookMs = performance.now() - startedMs
        await pause(Math.max(pieceEveryMs - tookMs, tookMs * restFactor))
      }
    } finally {
      if (done > 0) await forget(targets.slice(0, done))
    }
  }

  let after: Pick<Target, 'cause_id' | 'endpoint_id'> = start
  while (!signal.aborted) {
    // From where the last page ended: what was forgotten before it is still in the way of a scan from the start.
    const { rows } = await pool.query<Target>({
      name: 'webhooks-fan-out',
      text: `select t.cause_id, t.endpoint_id, t.account_id, f.event, f.resource, f.data, f.correlation_id
               from work.webhook_fan_out_targets t join work.webhook_fan_outs f using (cause_id)
              where (t.cause_id, t.endpoint_id) > ($1::uuid, $2::text)
              order by t.cause_id, t.endpoint_id limit ${page}`,
      values: [after.cause_id, after.endpoint_id],
    })
    if (rows.length === 0) {
      // A list that was opened meanwhile may have targets that sort before this place.
      if (after === start) await Promise.race([opened(), pause(idleMs)])
      after = start
      continue
    }
    await enqueuePage(rows)
    after = rows.at(-1) ?? start
  }
}

/** The payload of a list is one text for all of its targets. */
const memoized = (): ((text: string) => object) => {
  const parsed = new Map<string, object>()
  return (text) => {
    const known = parsed.get(text)
    if (known) return known
    const data = JSON.parse(text) as object
    parsed.set(text, data)
    return data
  }
}
