import { isoTime } from '../../kernel/clock.ts'
import { deriveId, type NoticeId, newId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type InputOf, readText } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields, notFound } from '../../platform/cli/output.ts'
import type { publishInput } from './commands.ts'
import { createNotices, type NoticeResult } from './notice-service.ts'
import { noticeFields } from './routes.ts'

type PublishInput = InputOf<typeof publishInput>

const bodyOf = async ({ body, bodyFile }: PublishInput): Promise<string> => {
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
      throw notFound('no notice has this id; "notices list" shows them')
    default:
      return refusal satisfies never
  }
}

export const publish = async (context: CliContext, input: PublishInput): Promise<CliOutput> => {
  const { title, kind, audience, expiresAt, linkHref, linkLabel, reference } = input
  const noticeId =
    reference === undefined
      ? newId<NoticeId>('ntc')
      : deriveId<NoticeId>('ntc', ['notice', 'operator', reference])
  const draft = {
    noticeId,
    title,
    body: await bodyOf(input),
    kind,
    audience,
    expiresAt: expiresAt ?? null,
    linkHref: linkHref ?? null,
    linkLabel: linkLabel ?? null,
  }
  return output(await createNotices(context).publish(draft, context), 'published', 'was published before:')
}

export const list = async ({ db, clock }: CliContext, { all = false }: { readonly all?: boolean }) => {
  const every = db
    .selectFrom('read.notices')
    .selectAll()
    .orderBy('publishedAt', 'desc')
    .orderBy('noticeId', 'desc')
  const now = isoTime(clock())
  const rows = await (all
    ? every
    : every.where((eb) => eb.or([eb('expiresAt', 'is', null), eb('expiresAt', '>', now)]))
  ).execute()
  return {
    json: {
      notices: rows.map((row) => ({
        noticeId: row.noticeId,
        accountId: row.accountId,
        ...noticeFields(row),
      })),
    },
    rows,
  }
}

export const expire = async (context: CliContext, { notice }: { readonly notice: NoticeId }) =>
  output(await createNotices(context).expire(notice, context), 'expired', 'had expired before:')
