import { countAudience, type NoticeRow, noticesAfter } from '../../../projections/notices.ts'
import { type Audience, audiences, type NoticeKind, noticeKinds } from '../../domain/notices/audiences.ts'
import { type NoticeDraft, noticeProblems } from '../../domain/notices/decide.ts'
import { instantOf } from '../../domain/notices/notice-dates.ts'
import { deriveId, type NoticeId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
  selectOf,
  textAreaOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { afterOf, afterText, countText, stateText, timeText } from '../../platform/ui/text.ts'
import type { Notices } from './notice-service.ts'

const root = '/console/operator/notices'

const isActive = ({ expiresAt }: NoticeRow, nowMs: number): boolean =>
  expiresAt === null || Date.parse(expiresAt) > nowMs

const list = async (db: Db, { query, nowMs }: PersonVisit) => {
  const before = query.get('before')
  const after = afterOf(before)
  const found = await noticesAfter(db, { after, limit: pageRows + 1 })
  const { rows, next } = pagedOf(found, ({ publishedAt, noticeId }) => afterText(publishedAt, noticeId))
  return show({
    title: 'All notices',
    acts: html`<a class="button first" href="${root}/new">Write one</a>`,
    body: html`${tableOf({
      caption: 'Notices, newest first',
      rows,
      empty: html`<p>${after === null ? 'Nothing was published yet.' : 'Nothing is older.'}</p>`,
      columns: [
        {
          title: 'Title',
          head: true,
          cell: ({ noticeId, title }) => html`<a href="/console/trail/${noticeId}">${title}</a>`,
        },
        { title: 'Kind', cell: ({ kind }) => kind },
        {
          title: 'For',
          cell: ({ accountId, audience }) =>
            accountId === null
              ? audience
              : html`<a href="/console/operator/accounts/${accountId}">${accountId}</a>`,
        },
        { title: 'Published', cell: ({ publishedAt }) => timeText(publishedAt) },
        {
          title: 'State',
          cell: (notice) =>
            isActive(notice, nowMs)
              ? html`${stateText('stands', 'good')}${notice.expiresAt === null ? nothing : html` <small>until ${timeText(notice.expiresAt)}</small>`}`
              : html`${stateText('over', 'off')} <small>since ${timeText(notice.expiresAt)}</small>`,
        },
        {
          title: 'Act',
          cell: (notice) =>
            isActive(notice, nowMs)
              ? html`<a href="${root}/${notice.noticeId}/expire">Take down <span class="skip">${notice.title}</span></a>`
              : '',
        },
      ],
    })}
${pagerOf(root, {}, { before: after === null ? null : before, next })}`,
    same: ['npx farebox notices list --all', 'npx farebox notices expire NOTICE'],
  })
}

const oneOf = <const Word extends string>(allowed: readonly Word[], text: string): Word | undefined =>
  allowed.find((word) => word === text)

/** The typed notice; `problems` are the invalid fields. */
const draftOf = (typed: FormInput): { readonly draft: NoticeDraft; readonly problems: Problems } => {
  const { text } = typed
  const orNull = (name: string): string | null => (text(name) === '' ? null : text(name))
  const expiresAt = instantOf(text('expiresAt'))
  return {
    draft: {
      // A repeated submission of the same form is the same notice.
      noticeId: deriveId<NoticeId>('ntc', ['notice', 'console', typed.key]),
      title: text('title'),
      body: text('body').replaceAll('\r\n', '\n'),
      kind: text('kind') as NoticeKind,
      audience: text('audience') as Audience,
      expiresAt,
      linkHref: orNull('linkHref'),
      linkLabel: orNull('linkLabel'),
    },
    problems:
      text('expiresAt') !== '' && expiresAt === null
        ? { expiresAt: 'Type a date or an instant in UTC, such as 2026-12-01T18:00:00Z.' }
        : {},
  }
}

/** A refusal begins with the name of its field. */
const problemsOfRefusal = (refusalProblems: readonly string[]): Problems =>
  Object.fromEntries(
    refusalProblems.map((problem) => {
      const field = /\b(title|body|kind|audience|expiresAt|linkHref|linkLabel)\b/.exec(problem)?.[1] ?? 'form'
      return [field, `${problem.slice(0, 1).toUpperCase()}${problem.slice(1)}.`]
    }),
  )

const previewOf = async (db: Db, draft: NoticeDraft): Promise<Html> => {
  const count = await countAudience(db, draft.audience)
  return html`<article class="card" aria-label="Preview"><h2>${draft.title}</h2>
<p><small>${draft.kind.toLowerCase().replaceAll('_', ' ')}</small></p>
${draft.body.split('\n').map((line) => html`<p>${line}</p>`)}
${draft.linkHref === null ? nothing : html`<p><a href="${draft.linkHref}" rel="noreferrer">${draft.linkLabel ?? draft.linkHref}</a></p>`}
</article>
<p>${countText(count, 'account')} of the audience ${draft.audience} will see it, and endpoints that listen for <code>announcement.published</code> are told.</p>`
}

const newView = async (
  visit: PersonVisit,
  typed: FormInput,
  problems: Problems,
  preview: Html | null,
): Promise<View> => ({
  title: 'Write a notice',
  acts: html`<a href="${root}">All notices</a>`,
  body: html`${problemsOf(problems)}${preview}
<form method="post" action="${root}/new" class="stack" novalidate>
${keyField(visit.formKey)}
${fieldOf({ name: 'title', label: 'Title', required: true, maxlength: 200 }, typed, problems)}
${textAreaOf({ name: 'body', label: 'Text', hint: 'It stands in the log for ever: name no person.' }, typed, problems)}
${selectOf({ name: 'kind', label: 'Kind', hint: 'The text of ACTION_REQUIRED must name a date.', value: typed.text('kind') || 'INFO', choices: noticeKinds.map((value) => ({ value, label: value })) }, problems)}
${selectOf({ name: 'audience', label: 'For', hint: 'DEVELOPERS have an active key, PARTNERS are resellers, CUSTOMERS are not.', value: typed.text('audience') || 'ALL', choices: audiences.map((value) => ({ value, label: value })) }, problems)}
${fieldOf({ name: 'expiresAt', label: 'Until', hint: 'A date or an instant in UTC. Empty: until it is taken down.', maxlength: 30 }, typed, problems)}
${fieldOf({ name: 'linkHref', label: 'Link', hint: 'A path such as /docs, or an address. Empty: none.', maxlength: 2000 }, typed, problems)}
${fieldOf({ name: 'linkLabel', label: 'Words of the link', maxlength: 64 }, typed, problems)}
<div class="acts"><button${preview === null ? { html: ' class="first"' } : null} name="do" value="preview">Preview</button>${preview === null ? null : html` <button class="first" name="do" value="publish">Publish it</button>`}</div>
</form>`,
  same: ['npx farebox notices publish --kind INFO --audience ALL --title "…" --body "…"'],
})

const write = async (
  { db, notices }: { readonly db: Db; readonly notices: Pick<Notices, 'publish'> },
  visit: PersonVisit,
  typed: FormInput,
) => {
  const { draft, problems: inputProblems } = draftOf(typed)
  const problems: Problems = {
    ...inputProblems,
    ...(oneOf(noticeKinds, draft.kind) === undefined && {
      kind: `Choose one of ${noticeKinds.join(', ')}.`,
    }),
    ...(oneOf(audiences, draft.audience) === undefined && {
      audience: `Choose one of ${audiences.join(', ')}.`,
    }),
  }
  if (Object.keys(problems).length > 0) return refusedView(await newView(visit, typed, problems, null))
  const noticeErrors = problemsOfRefusal(noticeProblems(draft, visit.nowMs))
  if (Object.keys(noticeErrors).length > 0)
    return refusedView(await newView(visit, typed, noticeErrors, null))
  if (typed.text('do') !== 'publish') return show(await newView(visit, typed, {}, await previewOf(db, draft)))
  const published = await notices.publish(draft, visit.cause)
  if (published.outcome === 'done') return goTo(root, 'The notice is published.')
  const refusalProblems =
    published.refusal.code === 'invalid_notice'
      ? problemsOfRefusal(published.refusal.problems)
      : { form: 'This form published another notice before. Begin anew.' }
  return refusedView(await newView(visit, typed, refusalProblems, null), 409)
}

const expireView = async (db: Db, { params }: PersonVisit): Promise<View> => {
  const [notice] = await db
    .selectFrom('read.notices')
    .selectAll()
    .where('noticeId', '=', params.id ?? '')
    .execute()
  if (notice === undefined) throw refuse('not_found', 'no notice has this id')
  return {
    title: `Take down “${notice.title}”`,
    body: html`<p>It drops out of every feed at once. The log keeps it, and who took it down.</p>
<form method="post" action="${root}/${notice.noticeId}/expire"><div class="acts"><button class="first">Take it down</button> <a href="${root}">Back</a></div></form>`,
    same: [`npx farebox notices expire ${notice.noticeId}`],
  }
}

const expire = async (notices: Pick<Notices, 'expire'>, { params, cause }: PersonVisit) => {
  const expired = await notices.expire((params.id ?? '') as NoticeId, cause)
  if (expired.outcome === 'refused') throw refuse('not_found', 'no notice has this id')
  return goTo(root, expired.changed ? 'The notice is taken down.' : 'It was over before.')
}

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
  const operator = { for: ['operator'] } as const
  return [
    personPage({
      ...operator,
      path: root,
      name: 'listNotices',
      summary: 'Every notice, newest first',
      nav: { label: 'All notices', group: 'Operator' },
      show: async (visit) => {
        await caughtUp()
        return list(db, visit)
      },
    }),
    personPage({
      ...operator,
      path: '/console/operator/notices/new',
      name: 'writeNotice',
      summary: 'Writes a notice, with a preview and how many will see it',
      confirmed: true,
      show: async (visit) => show(await newView(visit, emptyFormInput, {}, null)),
      act: { once: true, run: (visit, typed) => write({ db, notices }, visit, typed) },
    }),
    personPage({
      ...operator,
      path: '/console/operator/notices/{id}/expire',
      name: 'expireNotice',
      summary: 'Takes a notice down',
      confirmed: true,
      show: async (visit) => show(await expireView(db, visit)),
      act: { run: (visit) => expire(notices, visit) },
    }),
  ]
}
