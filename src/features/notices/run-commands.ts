import type { Audience, NoticeKind } from '../../domain/notices/audiences.ts'
import { isoTime } from '../../kernel/clock.ts'
import { deriveId, type NoticeId, newId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { readText, requireReadTable } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields, table } from '../../platform/cli/output.ts'
import { createNotices, type NoticeResult } from './notice-service.ts'
import { noticeFields } from './routes.ts'

type PublishOptions = {
  readonly title: string
  readonly body?: string
  readonly bodyFile?: string
  readonly kind: NoticeKind
  readonly audience: Audience
  readonly expiresAt?: string
  readonly linkHref?: string
  readonly linkLabel?: string
  readonly reference?: string
}

const bodyOf = async ({ body, bodyFile }: PublishOptions): Promise<string> => {
  if ((body === undefined) === (bodyFile === undefined))
    throw new CliMisuse('give either --body or --body-file')
  return bodyFile === undefined ? (body ?? '') : (await readText(bodyFile)).trimEnd()
}

const output = (result: NoticeResult, doneText: string, unchangedText: string): CliOutput => {
  if (result.outcome === 'done') {
    const { notice, expiredAt, changed } = result
    const { noticeId, title, kind, audience, publishedAt } = notice
    const expiresAt = expiredAt ?? notice.expiresAt
    return {
      json: { ...notice, expiresAt, changed },
      text: `${changed ? doneText : unchangedText} ${noticeId}\n\n${fields({
        title,
        kind,
        audience,
        'published at': publishedAt,
        'expires at': expiresAt,
      })}`,
    }
  }
  const { refusal } = result
  switch (refusal.code) {
    case 'invalid_notice':
      throw new CliMisuse(`nothing was published: ${refusal.problems.join('; ')}`, {
        problems: refusal.problems,
      })
    case 'already_published':
      throw new CliRefusal(
        'already_applied',
        'this reference published another notice before; use another reference for another notice',
      )
    case 'not_found':
      throw new CliMisuse('no notice has this id; "notices list" shows them', {}, 'not_found')
    default:
      return refusal satisfies never
  }
}

export const publish = async (context: CliContext, options: PublishOptions): Promise<CliOutput> => {
  const { reference } = options
  const noticeId =
    reference === undefined
      ? newId<NoticeId>('ntc')
      : deriveId<NoticeId>('ntc', ['notice', 'operator', reference])
  const draft = {
    noticeId,
    title: options.title,
    body: await bodyOf(options),
    kind: options.kind,
    audience: options.audience,
    expiresAt: options.expiresAt ?? null,
    linkHref: options.linkHref ?? null,
    linkLabel: options.linkLabel ?? null,
  }
  return output(await createNotices(context).publish(draft, context), 'published', 'was published before:')
}

export const list = async (
  { pool, db, clock }: CliContext,
  options: { readonly all?: boolean },
): Promise<CliOutput> => {
  await requireReadTable(pool, 'read.notices')
  const all = db
    .selectFrom('read.notices')
    .selectAll()
    .orderBy('publishedAt', 'desc')
    .orderBy('noticeId', 'desc')
  const now = isoTime(clock())
  const rows = await (options.all === true
    ? all
    : all.where((eb) => eb.or([eb('expiresAt', 'is', null), eb('expiresAt', '>', now)]))
  ).execute()
  return {
    json: {
      notices: rows.map((row) => ({
        noticeId: row.noticeId,
        accountId: row.accountId,
        ...noticeFields(row),
      })),
    },
    text: table(
      rows,
      [
        { title: 'notice', value: (row) => row.noticeId },
        { title: 'published', value: (row) => row.publishedAt },
        { title: 'expires', value: (row) => row.expiresAt ?? '-' },
        { title: 'kind', value: (row) => row.kind },
        { title: 'audience', value: (row) => row.accountId ?? row.audience },
        { title: 'title', value: (row) => row.title },
      ],
      'no notice stands; --all shows the expired ones too',
    ),
  }
}

export const expire = async (context: CliContext, noticeId: NoticeId) =>
  output(await createNotices(context).expire(noticeId, context), 'expired', 'had expired before:')
