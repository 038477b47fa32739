import type pg from 'pg'
import { listAnnouncements } from '../../../projections/notices.ts'
import { audiencesOf } from '../../domain/notices/events.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { NoticeId } from '../../kernel/ids.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  type ShownAccount,
  show,
} from '../../platform/ui/page.ts'
import { stateText, timeText } from '../../platform/ui/text.ts'
import { markNoticeRead } from './read-marks.ts'

type NoticeReads = { readonly pool: pg.Pool; readonly db: Db }

/** The current notices of an account, as `GET /announcements` returns them. */
export const noticesOf = async (
  { pool, db }: NoticeReads,
  { accountId, reseller }: ShownAccount,
  nowMs: number,
) => {
  const { rows } = await pool.query<{ has: boolean }>(
    'select exists (select from read.keys where account_id = $1::text and not revoked) as has',
    [accountId],
  )
  const audiences = audiencesOf({ reseller, hasActiveKey: rows[0]?.has ?? false })
  return listAnnouncements(db, accountId, { audiences, kind: undefined }, isoTime(nowMs))
}

const list = async (services: NoticeReads, { account, nowMs }: AccountVisit) => {
  const notices = await noticesOf(services, account, nowMs)
  const unread = notices.filter((notice) => notice.unread).length
  return show({
    title: 'Notices',
    acts:
      unread === 0
        ? nothing
        : html`<form method="post" action="/console/notices"><button name="read" value="all">Mark all as read</button></form>`,
    body:
      notices.length === 0
        ? html`<div class="empty"><p>The service has nothing to say to you now.</p></div>`
        : html`${notices.map(
            (notice) => html`<article class="card" id="${notice.noticeId}">
<h2>${notice.title}</h2>
<p>${notice.unread ? stateText('unread', 'warn') : stateText('read', 'off')} <small>${notice.kind.toLowerCase().replaceAll('_', ' ')} · ${timeText(notice.publishedAt)}</small></p>
${notice.body.split('\n').map((line) => html`<p>${line}</p>`)}
${notice.linkHref === null ? null : html`<p><a href="${notice.linkHref}" rel="noreferrer">${notice.linkLabel ?? notice.linkHref}</a></p>`}
${notice.unread ? html`<form method="post" action="/console/notices"><button name="read" value="${notice.noticeId}">Mark as read</button></form>` : null}
</article>\n`,
          )}`,
    same: ['curl $API/announcements -H "X-API-Key: $KEY"   # unread is set here alone'],
  })
}

/** The notices of the service. Only these pages set an account's read marks. */
export const noticePages = ({
  pool,
  db,
  reads,
}: NoticeReads & { readonly reads: Pick<Reads, 'settledHere'> }): readonly ConsolePage[] => [
  accountPage({
    path: '/console/notices',
    name: 'showNotices',
    summary: 'What the service has to say to the account',
    nav: { label: 'Notices' },
    show: async (visit) => {
      await reads.settledHere(visit.account.accountId)
      return list({ pool, db }, visit)
    },
    act: {
      whenBlocked: true,
      run: async ({ account, nowMs }, typed) => {
        const selection = typed.text('read')
        const notices = await noticesOf({ pool, db }, account, nowMs)
        // Marks are stored only for notices that the account can see.
        const read = notices.filter(
          ({ noticeId, unread }) => unread && (selection === 'all' || noticeId === selection),
        )
        for (const { noticeId } of read)
          await markNoticeRead(pool, account.accountId, noticeId as NoticeId, isoTime(nowMs))
        return goTo('/console/notices')
      },
    },
  }),
]
