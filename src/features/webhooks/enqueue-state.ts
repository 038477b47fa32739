import type pg from 'pg'
import { webhookDue } from '../../../projections/groups.ts'

/** How far announcements are told; `endpoint` is the last one that the announcement at `position` was enqueued for. */
export type AnnouncementProgress = { readonly position: number; readonly endpoint: string | null }

/** From where on the read tables say what is to be enqueued. */
export type EnqueueProgress = {
  /** What was due up to here, an older release has enqueued: it kept a place of its own. */
  readonly dueAfter: number
  readonly announced: AnnouncementProgress
}

type Db = Pick<pg.Pool, 'query'>

/** SQL: one row. Positions count for the tables that they were taken from: for those of another log they begin anew. */
export const enqueueProgressSql = `
  select coalesce(e.due_after, 0) as due_after, coalesce(e.announced_position, 0) as position,
         e.announced_endpoint as endpoint
    from engine.checkpoints c left join work.webhook_enqueuing e on e.lineage = c.lineage
   where c.name = '${webhookDue.name}'`

export const readEnqueueProgress = async (db: Db): Promise<EnqueueProgress> => {
  const { rows } = await db.query<{ due_after: number; position: number; endpoint: string | null }>(
    enqueueProgressSql,
  )
  const { due_after: dueAfter = 0, position = 0, endpoint = null } = rows[0] ?? {}
  return { dueAfter, announced: { position, endpoint } }
}

export const saveAnnouncementProgress = async (
  db: Db,
  { position, endpoint }: AnnouncementProgress,
): Promise<void> => {
  await db.query({
    name: 'webhooks-announced',
    text: `insert into work.webhook_enqueuing as e (lineage, due_after, announced_position, announced_endpoint)
           select lineage, 0, $2::bigint, $3::text from engine.checkpoints where name = $1::text
           on conflict (single) do update set lineage = excluded.lineage,
             due_after = case when e.lineage = excluded.lineage then e.due_after else 0 end,
             announced_position = excluded.announced_position, announced_endpoint = excluded.announced_endpoint`,
    values: [webhookDue.name, position, endpoint],
  })
}
