import type pg from 'pg'
import {
  countAudience,
  listAnnouncements,
  type NoticeRow,
  noticesAfter,
} from '../../../projections/notices.ts'
import { type Audience, audiences, type NoticeKind, noticeKinds } from '../../domain/notices/audiences.ts'
import { type NoticeDraft, noticeProblems } from '../../domain/notices/decide.ts'
import { audiencesOf } from '../../domain/notices/events.ts'
import { instantOf } from '../../domain/notices/notice-dates.ts'
import { isoTime } from '../../kernel/clock.ts'
import { deriveId, type NoticeId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp, Reads } from '../../platform/projections/read-your-writes.ts'
import {
  type FormInput,
  fieldOf,
  formOf,
  keyField,
  type Problems,
  postButton,
  problemsIn,
  selectOf,
  textAreaOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { listPage } from '../../platform/ui/list.ts'
import {
  accountPage,
  type ConsolePage,
  goTo,
  operatorPage,
  type PersonVisit,
  refused,
  type ShownAccount,
} from '../../platform/ui/page.ts'
import { nameColumn, textColumn, timeColumn } from '../../platform/ui/table.ts'
import {
  afterText,
  buttonLink,
  countText,
  idText,
  oneOf,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { markNoticeRead, type Notices } from './notice-service.ts'

/** The current notices of an account, as `GET /announcements` returns them. */
export const noticesOf = async (db: Db, { accountId, reseller }: ShownAccount, nowMs: number) => {
  const activeKey = await db
    .selectFrom('read.keys')
    .where('accountId', '=', accountId)
    .where('revoked', '=', false)
    .select('keyId')
    .limit(1)
    .executeTakeFirst()
  const audiences = audiencesOf({ reseller, hasActiveKey: activeKey !== undefined })
  return listAnnouncements(db, accountId, { audiences, kind: undefined }, isoTime(nowMs))
}

/** The text of a notice and its link. */
const contentOf = (notice: {
  readonly body: string
  readonly linkHref: string | null
  readonly linkLabel: string | null
}): Html => html`${notice.body.split('\n').map((line) => html`<p>${line}</p>`)}
${notice.linkHref === null ? null : html`<p><a href="${notice.linkHref}" rel="noreferrer">${notice.linkLabel ?? notice.linkHref}</a></p>`}`

const kindText = (kind: string): string => kind.toLowerCase().replaceAll('_', ' ')

/** The notices of the service. Only these pages set an account's read marks. */
export const noticePages = ({
  pool,
  db,
  reads,
}: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly reads: Pick<Reads, 'settledHere'>
}): readonly ConsolePage[] => [
  accountPage({
    path: '/console/notices',
    name: 'showNotices',
    summary: 'Messages from the service to the account',
    show: async ({ account, nowMs, form }) => {
      await reads.settledHere(account.accountId)
      const notices = await noticesOf(db, account, nowMs)
      const markButton = (value: string, label: string) => postButton(form, { name: 'read', value, label })
      return {
        title: 'Notices',
        actions: notices.some(({ unread }) => unread) ? markButton('all', 'Mark all as read') : nothing,
        body:
          notices.length === 0
            ? html`<div class="empty"><p>There are no notices now.</p></div>`
            : html`${notices.map(
                (notice) => html`<article class="card" id="${notice.noticeId}">
<h2>${notice.title}</h2>
<p>${notice.unread ? stateText('unread', 'warn') : stateText('read', 'off')} <small>${kindText(notice.kind)} · ${timeText(notice.publishedAt)}</small></p>
${contentOf({ body: notice.body, linkHref: notice.linkHref, linkLabel: notice.linkLabel })}
${notice.unread ? markButton(notice.noticeId, 'Mark as read') : null}
</article>\n`,
              )}`,
        cliEquivalents: [
          'curl $API/announcements -H "X-API-Key: $KEY"   # only this page marks them as read',
        ],
      }
    },
    act: {
      whenBlocked: true,
      run: async ({ account, nowMs }, typed) => {
        const selection = typed.text('read')
        const notices = await noticesOf(db, account, nowMs)
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

const root = '/console/operator/notices'

const isActive = ({ expiresAt }: NoticeRow, nowMs: number): boolean =>
  expiresAt === null || Date.parse(expiresAt) > nowMs

/** The typed notice. A repeated submission of the same form is the same notice. */
const draftOf = ({ text, key }: FormInput): NoticeDraft => ({
  noticeId: deriveId<NoticeId>('ntc', ['notice', 'console', key]),
  title: text('title'),
  body: text('body').replaceAll('\r\n', '\n'),
  kind: text('kind') as NoticeKind,
  audience: text('audience') as Audience,
  expiresAt: instantOf(text('expiresAt')),
  linkHref: text('linkHref') || null,
  linkLabel: text('linkLabel') || null,
})

/** A refusal begins with the name of its field. */
const problemsOfRefusal = (refusalProblems: readonly string[]): Problems =>
  Object.fromEntries(
    refusalProblems.map((problem) => {
      const field = /\b(title|body|kind|audience|expiresAt|linkHref|linkLabel)\b/.exec(problem)?.[1] ?? 'form'
      return [field, `${problem.slice(0, 1).toUpperCase()}${problem.slice(1)}.`]
    }),
  )

/** Publishes notices with a preview and the size of their audience, lists them, and ends them. */
export const operatorNoticePages = ({
  db,
  notices,
  caughtUp,
}: {
  readonly db: Db
  readonly notices: Notices
  readonly caughtUp: CaughtUp
}): readonly ConsolePage[] => {
  const previewOf = async (
    draft: NoticeDraft,
  ): Promise<Html> => html`<article class="card" aria-label="Preview"><h2>${draft.title}</h2>
<p><small>${kindText(draft.kind)}</small></p>
${contentOf(draft)}
</article>
<p>${countText(await countAudience(db, draft.audience), 'account')} of the audience ${draft.audience} will see it. Webhook endpoints that subscribe to <code>announcement.published</code> receive it.</p>`

  const newView = ({ form }: PersonVisit, preview: Html | null): View => {
    const isPreviewed = preview !== null
    return {
      title: 'New notice',
      actions: html`<a href="${root}">All notices</a>`,
      body: html`${preview}
<form method="post" class="stack" novalidate>
${keyField(form.key)}
${fieldOf({ name: 'title', label: 'Title', required: true, maxlength: 200 }, form)}
${textAreaOf({ name: 'body', label: 'Text', hint: 'It stays in the log: do not include personal data.' }, form)}
${selectOf({ name: 'kind', label: 'Kind', hint: 'The text of ACTION_REQUIRED must contain a date.', value: 'INFO', choices: noticeKinds.map((value) => ({ value, label: value })) }, form)}
${selectOf({ name: 'audience', label: 'Audience', hint: 'DEVELOPERS have an active key, PARTNERS are resellers, CUSTOMERS are not.', value: 'ALL', choices: audiences.map((value) => ({ value, label: value })) }, form)}
${fieldOf({ name: 'expiresAt', label: 'Until', hint: 'A date or a time in UTC. Empty: until you take it down.', maxlength: 30 }, form)}
${fieldOf({ name: 'linkHref', label: 'Link', hint: 'A path such as /docs, or a URL. Empty: none.', maxlength: 2000 }, form)}
${fieldOf({ name: 'linkLabel', label: 'Link text', maxlength: 64 }, form)}
<div class="actions"><button${isPreviewed ? null : { html: ' class="first"' }} name="do" value="preview">Preview</button>${isPreviewed ? html` <button class="first" name="do" value="publish">Publish notice</button>` : null}</div>
</form>`,
      cliEquivalents: ['bin/farebox notices publish --kind INFO --audience ALL --title "…" --body "…"'],
    }
  }

  return [
    listPage(operatorPage, {
      path: root,
      name: 'listNotices',
      summary: 'Every notice, newest first',
      title: 'All notices',
      actions: buttonLink(`${root}/new`, 'New notice', 'first'),
      caption: 'Notices',
      orderedBy: 'Published',
      file: 'notices',
      load: async (_, page) => {
        await caughtUp()
        return noticesAfter(db, page)
      },
      keyOf: ({ publishedAt, noticeId }) => afterText(publishedAt, noticeId),
      columns: ({ nowMs }) => [
        nameColumn('Title', ({ noticeId, title }) => ({ text: title, href: `/console/trail/${noticeId}` })),
        textColumn('Kind', ({ kind }) => kindText(kind), { place: 'plain' }),
        {
          title: 'Audience',
          value: ({ accountId, audience }) => accountId ?? audience,
          cell: ({ accountId, audience }) =>
            accountId === null ? audience : idText(accountId, `/console/operator/accounts/${accountId}`),
        },
        timeColumn('Published', ({ publishedAt }) => publishedAt),
        {
          title: 'State',
          place: 'plain',
          value: (notice) => (isActive(notice, nowMs) ? 'live' : 'expired'),
          cell: (notice) =>
            isActive(notice, nowMs)
              ? html`${stateText('live', 'good')}${notice.expiresAt === null ? nothing : html` <small>until ${timeText(notice.expiresAt)}</small>`}`
              : html`${stateText('expired', 'off')} <small>since ${timeText(notice.expiresAt)}</small>`,
        },
        {
          title: 'Action',
          place: 'plain',
          cell: (notice) =>
            isActive(notice, nowMs)
              ? html`<a href="${root}/${notice.noticeId}/expire">Take down <span class="skip">${notice.title}</span></a>`
              : '',
        },
      ],
      empty: html`<p>No notice was published yet.</p><p>${buttonLink(`${root}/new`, 'New notice', 'first')}</p>`,
      cliEquivalents: () => ['bin/farebox notices list --all', 'bin/farebox notices expire NOTICE'],
    }),
    operatorPage({
      path: '/console/operator/notices/new',
      name: 'writeNotice',
      summary: 'Publishes a notice, after a preview with the size of its audience',
      confirmed: true,
      show: async (visit) => newView(visit, null),
      act: {
        once: true,
        run: async (visit, typed) => {
          const draft = draftOf(typed)
          const problems = problemsIn({
            expiresAt:
              typed.text('expiresAt') !== '' &&
              draft.expiresAt === null &&
              'Type a date or a time in UTC, such as 2026-12-01T18:00:00Z.',
            kind: !oneOf(noticeKinds, draft.kind) && `Choose one of ${noticeKinds.join(', ')}.`,
            audience: !oneOf(audiences, draft.audience) && `Choose one of ${audiences.join(', ')}.`,
          })
          if (problems) return refused(problems)
          const invalidFields = problemsIn(problemsOfRefusal(noticeProblems(draft, visit.nowMs)))
          if (invalidFields) return refused(invalidFields)
          if (typed.text('do') !== 'publish')
            return newView({ ...visit, form: { ...visit.form, typed } }, await previewOf(draft))
          const published = await notices.publish(draft, visit.cause)
          if (published.outcome === 'done') return goTo(root, 'The notice is published.')
          return refused(
            published.refusal.code === 'invalid_notice'
              ? problemsOfRefusal(published.refusal.problems)
              : { form: 'This form already published another notice. Open it again.' },
            409,
          )
        },
      },
    }),
    operatorPage({
      path: '/console/operator/notices/{id}/expire',
      name: 'expireNotice',
      summary: 'Takes a notice down',
      confirmed: true,
      show: async ({ params, form }) => {
        const [notice] = await db
          .selectFrom('read.notices')
          .selectAll()
          .where('noticeId', '=', params.id ?? '')
          .execute()
        if (notice === undefined) throw refuse('not_found', 'no notice has this id')
        return {
          title: `Take down “${notice.title}”`,
          body: html`<p>The notice disappears from every feed at once. The log keeps it and the name of the operator.</p>
${formOf(form, { submit: 'Take it down', back: root })}`,
          cliEquivalents: [`bin/farebox notices expire ${notice.noticeId}`],
        }
      },
      act: {
        run: async ({ params, cause }) => {
          const expired = await notices.expire((params.id ?? '') as NoticeId, cause)
          if (expired.outcome === 'refused') throw refuse('not_found', 'no notice has this id')
          return goTo(root, expired.changed ? 'The notice is taken down.' : 'The notice had already expired.')
        },
      },
    }),
  ]
}
