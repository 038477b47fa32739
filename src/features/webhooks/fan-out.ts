import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { webhookDue } from '../../../projections/groups.ts'
import type { WebhookAnnouncementRow } from '../../../projections/webhook-causes.ts'
import type { Audience } from '../../domain/notices/audiences.ts'
import {
  type AnnouncementProgress,
  type DueEvent,
  type EnqueueDependencies,
  enqueue,
  readEnqueueProgress,
  staleSql,
} from './enqueue.ts'

/**
 * SQL conditions on `read.webhook_subscriptions` for each audience (as src/domain/notices/events.ts does for a caller).
 */
const members: Readonly<Record<Audience, string>> = {
  ALL: 'true',
  CUSTOMERS: 'not e.reseller',
  PARTNERS: 'e.reseller',
  DEVELOPERS: 'e.developer',
}

/** SQL: whether a subscription `e` receives an announcement `n`, as of the announcement's position. */
export const isSubscribedSql = `
  e.since_position <= n.position and (e.until_position is null or e.until_position > n.position)
    and (e.events is null or n.event = any (e.events))
    and case n.audience ${Object.entries(members)
      .map(([audience, condition]) => `when '${audience}' then ${condition}`)
      .join(' ')} end`

/** Endpoints in one read. */
const page = 400
/**
 * Deliveries of one append, few enough not to delay an order in the same commit. Pieces are at least `pieceEveryMs`
 * apart, and more if appends are slow, because orders come first. The queue grows no faster than it is sent, so that
 * order webhooks never wait behind a hundred thousand announcements.
 */
const pieceSize = 10
const pieceEveryMs = 25
const pauseFactor = 4

/** SQL: the columns of an announcement `n` for a subscription `e`, without `stale`. */
export const announcedColumnsSql = `
  e.endpoint_id, e.account_id, n.event, n.resource, n.data, null::bigint as order_revision, n.cause_id, n.correlation_id,
  n.caused_at, n.position`

const pageSql = `
  select ${announcedColumnsSql}, ${staleSql} as stale
    from read.webhook_announcements n
    join read.webhook_subscriptions e on e.endpoint_id > $2::text and ${isSubscribedSql}
    left join read.webhook_accounts a on a.account_id = e.account_id
   where n.position = $1::bigint
   order by e.endpoint_id limit ${page}`

type Announcement = Pick<WebhookAnnouncementRow, 'position' | 'causeId'>

const saveAnnouncementProgress = async (
  pool: pg.Pool,
  { position, endpoint }: AnnouncementProgress,
): Promise<void> => {
  await pool.query({
    name: 'webhooks-announced',
    text: `insert into work.webhook_enqueuing as e (lineage, due_after, announced_position, announced_endpoint)
           select lineage, 0, $2::bigint, $3::text from engine.checkpoints where name = $1::text
           on conflict (single) do update set lineage = excluded.lineage,
             due_after = case when e.lineage = excluded.lineage then e.due_after else 0 end,
             announced_position = excluded.announced_position, announced_endpoint = excluded.announced_endpoint`,
    values: [webhookDue.name, position, endpoint],
  })
}

/**
 * Enqueues announcements for the endpoints of their audiences, as of each announcement, one announcement after the
 * other. Endpoints are read in pages by id and enqueued in pieces. After a crash a page is enqueued again, which
 * changes nothing, because each delivery has its own stream. Each call processes one announcement and returns whether
 * there may be more.
 */
export const openFanOuts = async (
  dependencies: EnqueueDependencies,
  signal: AbortSignal,
): Promise<() => Promise<boolean>> => {
  const { pool, clock } = dependencies
  let { announced } = await readEnqueueProgress(pool)

  /** Reports each piece, so that a restart after an error continues after the last piece. */
  const enqueuePage = async (
    dueEvents: readonly DueEvent[],
    onPiece: (last: DueEvent) => void,
  ): Promise<void> => {
    for (let offset = 0; offset < dueEvents.length && !signal.aborted; offset += pieceSize) {
      const startedMs = performance.now()
      const part = dueEvents.slice(offset, offset + pieceSize)
      await enqueue(dependencies, part, clock())
      onPiece(part.at(-1) as DueEvent)
      const tookMs = performance.now() - startedMs
      await sleep(Math.max(pieceEveryMs - tookMs, tookMs * pauseFactor), undefined, { signal }).catch(
        () => undefined,
      )
    }
  }

  /** @param save stores the progress of the announcement after a page or an error; null at its end */
  const announceTo = async (
    { position }: Announcement,
    from: string,
    save: (endpoint: string | null) => Promise<void>,
  ): Promise<void> => {
    let after = from
    let isEnd = false
    while (!isEnd && !signal.aborted) {
      const { rows } = await pool.query<DueEvent>({
        name: 'webhooks-fan-out',
        text: pageSql,
        values: [position, after],
      })
      try {
        await enqueuePage(rows, (last) => {
          after = last.endpoint_id
        })
      } finally {
        isEnd = rows.length < page && after === (rows.at(-1)?.endpoint_id ?? after)
        await save(isEnd ? null : after)
      }
    }
  }

  /** An announcement that an older release did not finish. That release stored its own lists. */
  const findUnfinished = async (): Promise<Announcement | undefined> => {
    const { rows } = await pool.query<Announcement>(
      `select n.position, n.cause_id as "causeId" from work.webhook_fan_outs_left l
         join read.webhook_announcements n on n.cause_id = l.cause_id order by n.position limit 1`,
    )
    return rows[0]
  }
  for (
    let unfinished = await findUnfinished();
    unfinished && !signal.aborted;
    unfinished = await findUnfinished()
  ) {
    const { causeId } = unfinished
    await announceTo(unfinished, '', async (endpoint) => {
      if (endpoint === null)
        await pool.query('delete from work.webhook_fan_outs_left where cause_id = $1::text', [causeId])
    })
  }

  return async () => {
    const { position, endpoint } = announced
    const { rows } = await pool.query<Announcement>({
      name: 'webhooks-announcements',
      text: `select position, cause_id as "causeId" from read.webhook_announcements where position >= $1::bigint
              order by position limit 1`,
      values: [endpoint === null ? position + 1 : position],
    })
    const [next] = rows
    if (!next) return false
    await announceTo(next, next.position === position ? (endpoint ?? '') : '', async (to) => {
      await saveAnnouncementProgress(pool, { position: next.position, endpoint: to })
      announced = { position: next.position, endpoint: to }
    })
    return true
  }
}
