import { type Kysely, sql } from 'kysely'
import type { ReadDatabase } from '../../../projections/database.ts'
import type { NoticeRow } from '../../../projections/notices.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Audience, NoticeKind } from './notice.ts'
import type { ReadMarkDatabase } from './read-marks.ts'

export type NoticeQueries = Kysely<ReadDatabase & ReadMarkDatabase>

/** The feed is no archive (docs/http-api.md, "Webhooks and notices"). */
export const maxAnnouncements = 50

/** What stands at an instant for these audiences or for the account alone, newest first, with whether the account has opened it. */
export const listAnnouncements = async (
  db: NoticeQueries,
  account: AccountId,
  filter: { readonly audiences: readonly Audience[]; readonly kind: NoticeKind | undefined },
  now: string,
): Promise<readonly (NoticeRow & { readonly unread: boolean })[]> => {
  if (filter.audiences.length === 0) return []
  let standing = db
    .selectFrom('read.notices as notice')
    .leftJoin('vault.notice_reads as mark', (join) =>
      join.onRef('mark.notice_id', '=', 'notice.notice_id').on('mark.account_id', '=', account),
    )
    .where('notice.audience', 'in', [...filter.audiences])
    .where((is) => is.or([is('notice.account_id', 'is', null), is('notice.account_id', '=', account)]))
    .where((is) => is.or([is('notice.expires_at', 'is', null), is('notice.expires_at', '>', now)]))
  if (filter.kind !== undefined) standing = standing.where('notice.kind', '=', filter.kind)
  const rows = await standing
    .selectAll('notice')
    .select('mark.read_at')
    .orderBy('notice.published_at', 'desc')
    .orderBy('notice.notice_id', 'desc')
    .limit(maxAnnouncements)
    .execute()
  return rows.map(({ read_at: readAt, ...notice }) => ({ ...notice, unread: readAt === null }))
}

/** Up to `limit` notices, expired ones too, newest first, that come after one; null: from the newest on. */
export const noticesAfter = async (
  db: Kysely<ReadDatabase>,
  {
    after,
    limit,
  }: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
): Promise<readonly NoticeRow[]> => {
  let all = db.selectFrom('read.notices').selectAll()
  if (after !== null)
    all = all.where(sql<boolean>`(published_at, notice_id) < (${after.at}::timestamptz, ${after.id}::text)`)
  return all.orderBy('published_at', 'desc').orderBy('notice_id', 'desc').limit(limit).execute()
}

/** How many accounts an audience has now. */
export const countAudience = async (db: Kysely<ReadDatabase>, audience: Audience): Promise<number> => {
  const all = db.selectFrom('read.accounts as account').select((is) => is.fn.countAll().as('count'))
  const fitting =
    audience === 'ALL'
      ? all
      : audience === 'DEVELOPERS'
        ? all.where(
            sql<boolean>`exists (select from read.keys key where key.account_id = account.account_id and not key.revoked)`,
          )
        : all.where('account.reseller', '=', audience === 'PARTNERS')
  return Number((await fitting.executeTakeFirstOrThrow()).count)
}
