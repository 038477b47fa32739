import type { Audience, NoticeKind } from '../src/domain/notices/audiences.ts'
import type { NoticeEvent } from '../src/domain/notices/events.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import { type Db, sql, type TimePage, timePage } from '../src/platform/postgres/kysely.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** One notice. It is shown while `expires_at` is null or in the future. */
export const noticesTable = readTable({
  name: 'notices',
  columns: {
    noticeId: column.text(),
    title: column.text(),
    body: column.text(),
    kind: column.text<NoticeKind>(),
    audience: column.text<Audience>(),
    /** Only this account sees it; null: the whole audience does. */
    accountId: nullable(column.text()),
    publishedAt: column.timestamptz(),
    expiresAt: nullable(column.timestamptz()),
    linkHref: nullable(column.text()),
    linkLabel: nullable(column.text()),
  },
  key: ['noticeId'],
  indexes: ['published_at desc, notice_id desc'],
})

export type NoticeRow = RowOf<typeof noticesTable>

/** The notices of the service: `GET /api/v1/announcements`. */
export const notices = readModel({
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
          noticeId: data.noticeId,
          title: data.title,
          body: data.body,
          kind: data.kind,
          audience: data.audience,
          accountId: data.accountId ?? null,
          publishedAt: data.publishedAt,
          expiresAt: data.expiresAt,
          linkHref: data.linkHref,
          linkLabel: data.linkLabel,
        })
      }
      case 'NoticeExpired': {
        const { noticeId, expiredAt } = event.data
        const notice = rows.get(noticesTable, [noticeId])
        if (!notice) throw new Error(`notice ${noticeId} expired and was never published`)
        return rows.put(noticesTable, { ...notice, expiresAt: expiredAt })
      }
    }
  },
})

/** The feed is not an archive (docs/reference/api.md, "Webhooks and notices"). */
export const maxAnnouncements = 50

/**
 * The notices that are shown at a time to these audiences or to the account alone, newest first. `unread`: the
 * account has not opened it.
 */
export const listAnnouncements = async (
  db: Db,
  account: AccountId,
  filter: { readonly audiences: readonly Audience[]; readonly kind: NoticeKind | undefined },
  now: string,
): Promise<readonly (NoticeRow & { readonly unread: boolean })[]> => {
  if (filter.audiences.length === 0) return []
  let visibleNotices = db
    .selectFrom('read.notices as notice')
    .leftJoin('vault.notice_reads as mark', (join) =>
      join.onRef('mark.noticeId', '=', 'notice.noticeId').on('mark.accountId', '=', account),
    )
    .where('notice.audience', 'in', [...filter.audiences])
    .where((eb) => eb.or([eb('notice.accountId', 'is', null), eb('notice.accountId', '=', account)]))
    .where((eb) => eb.or([eb('notice.expiresAt', 'is', null), eb('notice.expiresAt', '>', now)]))
  if (filter.kind !== undefined) visibleNotices = visibleNotices.where('notice.kind', '=', filter.kind)
  const rows = await visibleNotices
    .selectAll('notice')
    .select('mark.readAt')
    .orderBy('notice.publishedAt', 'desc')
    .orderBy('notice.noticeId', 'desc')
    .limit(maxAnnouncements)
    .execute()
  return rows.map(({ readAt, ...notice }) => ({ ...notice, unread: readAt === null }))
}

/** Up to `limit` notices after a given one, newest first, including expired ones; null: from the newest. */
export const noticesAfter = async (db: Db, page: TimePage): Promise<readonly NoticeRow[]> =>
  timePage(db.selectFrom('read.notices').selectAll(), { time: 'publishedAt', id: 'noticeId' }, page).execute()

/** The present number of accounts in an audience. */
export const countAudience = async (db: Db, audience: Audience): Promise<number> => {
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
