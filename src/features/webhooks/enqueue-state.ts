import type pg from 'pg'
import { webhookDue } from '../../../projections/groups.ts'

/**
 * The last announcement that was enqueued; `endpoint` is the last endpoint that it was enqueued for, null at its end.
 */
export type AnnouncementProgress = { readonly position: number; readonly endpoint: string | null }

/** Where enqueuing resumes in the read tables. */
export type EnqueueProgress = {
  /** Everything due up to this position was enqueued by an older release, which had its own checkpoint. */
  readonly dueAfter: number
  readonly announced: AnnouncementProgress
}

type Db = Pick<pg.Pool, 'query'>

/**
 * SQL: one row. Positions apply to the tables that they were read from. For the tables of another log they restart at
 * 0.
 */
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
