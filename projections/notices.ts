import type { NoticeEvent } from '../src/outbound/notices/events.ts'
import type { Audience, NoticeKind } from '../src/outbound/notices/notice.ts'
import type { RecordedEvent } from '../src/platform/eventstore/event.ts'
import type { ReadModel, Table } from './engine/read-model.ts'

/** One notice. It stands while `expires_at` is null or to come. */
export type NoticeRow = {
  readonly notice_id: string
  readonly title: string
  readonly body: string
  readonly kind: NoticeKind
  readonly audience: Audience
  /** Only this account sees it; null: the audience does. */
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
