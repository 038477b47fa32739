import type { Kysely } from 'kysely'
import type { Audience, NoticeKind } from '../src/domain/notices/audiences.ts'
import type { NoticeEvent } from '../src/domain/notices/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import { sql } from '../src/platform/postgres/kysely.ts'
import type { ReadModel, Table } from '../src/platform/projections/read-model.ts'
import type { AccountRow } from './accounts.ts'
import type { ReadMarkDatabase } from './other-tables.ts'

/** The read tables of the queries in this file. */
type QueriedTables = {
  'read.notices': NoticeRow
  'read.accounts': AccountRow
}

/** One notice. It is shown while `expires_at` is null or in the future. */
export type NoticeRow = {
  readonly notice_id: string
  readonly title: string
  readonly body: string
  readonly kind: NoticeKind
  readonly audience: Audience
  /** Only this account sees it; null: the whole audience does. */
  readonly account_id: string | null
  readonly published_at: string
  readonly expires_at: string | null
  readonly link_href: string | null
  readonly link_label: string | null
}

export const noticesTable: Table<NoticeRow> = {
  name: 'notices',
  columns: {
    notice_id: { type: 'text' },
    title: { type: 'text' },
    body: { type: 'text' },
    kind: { type: 'text' },
    audience: { type: 'text' },
    account_id: { type: 'text', nullable: true },
    published_at: { type: 'timestamptz' },
    expires_at: { type: 'timestamptz', nullable: true },
    link_href: { type: 'text', nullable: true },
    link_label: { type: 'text', nullable: true },
  },
  key: ['notice_id'],
  indexes: ['published_at desc, notice_id desc'],
}

/** The notices of the service: `GET /api/v1/announcements`. */
export const notices: ReadModel = {
  name: 'notices',
  version: 2,
  tables: [noticesTable],
  reads: (event) =>
    event.type === 'NoticeExpired'
      ? [{ table: noticesTable.name, key: [(event as RecordedEvent<NoticeEvent>).data.noticeId] }]
      : [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<NoticeEvent>
    switch (event.type) {
      case 'NoticePublished': {
        const { data } = event
        return rows.put(noticesTable, {
          notice_id: data.noticeId,
          title: data.title,
          body: data.body,
          kind: data.kind,
          audience: data.audience,
          account_id: data.accountId ?? null,
          published_at: data.publishedAt,
          expires_at: data.expiresAt,
          link_href: data.linkHref,
          link_label: data.linkLabel,
        })
      }
      case 'NoticeExpired': {
        const { noticeId, expiredAt } = event.data
        const notice = rows.get(noticesTable, [noticeId])
        if (!notice) throw new Error(`notice ${noticeId} expired and was never published`)
        return rows.put(noticesTable, { ...notice, expires_at: expiredAt })
      }
    }
  },
}

export type NoticeQueries = Kysely<QueriedTables & ReadMarkDatabase>

/** The feed is not an archive (docs/http-api.md, "Webhooks and notices"). */
export const maxAnnouncements = 50

/**
 * The notices that are shown at a time to these audiences or to the account alone, newest first. `unread`: the
 * account has not opened it.
 */
export const listAnnouncements = async (
  db: NoticeQueries,
  account: AccountId,
  filter: { readonly audiences: readonly Audience[]; readonly kind: NoticeKind | undefined },
  now: string,
): Promise<readonly (NoticeRow & { readonly unread: boolean })[]> => {
  if (filter.audiences.length === 0) return []
  let visibleNotices = db
    .selectFrom('read.notices as notice')
    .leftJoin('vault.notice_reads as mark', (join) =>
      join.onRef('mark.notice_id', '=', 'notice.notice_id').on('mark.account_id', '=', account),
    )
    .where('notice.audience', 'in', [...filter.audiences])
    .where((eb) => eb.or([eb('notice.account_id', 'is', null), eb('notice.account_id', '=', account)]))
    .where((eb) => eb.or([eb('notice.expires_at', 'is', null), eb('notice.expires_at', '>', now)]))
  if (filter.kind !== undefined) visibleNotices = visibleNotices.where('notice.kind', '=', filter.kind)
  const rows = await visibleNotices
    .selectAll('notice')
    .select('mark.read_at')
    .orderBy('notice.published_at', 'desc')
    .orderBy('notice.notice_id', 'desc')
    .limit(maxAnnouncements)
    .execute()
  return rows.map(({ read_at: readAt, ...notice }) => ({ ...notice, unread: readAt === null }))
}

/** Up to `limit` notices after a given one, newest first, including expired ones; null: from the newest. */
export const noticesAfter = async (
  db: Kysely<QueriedTables>,
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

/** The present number of accounts in an audience. */
export const countAudience = async (db: Kysely<QueriedTables>, audience: Audience): Promise<number> => {
  const all = db.selectFrom('read.accounts as account').select((eb) => eb.fn.countAll().as('count'))
  const matching =
    audience === 'ALL'
      ? all
      : audience === 'DEVELOPERS'
        ? all.where(
            sql<boolean>`exists (select from read.keys key where key.account_id = account.account_id and not key.revoked)`,
          )
        : all.where('account.reseller', '=', audience === 'PARTNERS')
  return Number((await matching.executeTakeFirstOrThrow()).count)
}
