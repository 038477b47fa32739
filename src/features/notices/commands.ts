import { type Command, InvalidArgumentError, Option } from 'commander'
import type { NoticeRow } from '../../../projections/notices.ts'
import { type Audience, audiences, type NoticeKind, noticeKinds } from '../../domain/notices/events.ts'
import { instantOf } from '../../domain/notices/notice-dates.ts'
import { isoTime } from '../../kernel/clock.ts'
import { deriveId, type NoticeId, newId } from '../../kernel/ids.ts'
import type { Cli, CliContext } from '../../platform/cli/cli-context.ts'
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

const instant = (text: string): string => {
  const found = instantOf(text)
  if (found === null)
    throw new InvalidArgumentError('It must be a date or an instant in UTC, e.g. 2026-12-01T18:00:00Z.')
  return found
}

const bodyOf = async ({ body, bodyFile }: PublishOptions): Promise<string> => {
  if ((body === undefined) === (bodyFile === undefined))
    throw new CliMisuse('give either --body or --body-file')
  return bodyFile === undefined ? (body ?? '') : (await readText(bodyFile)).trimEnd()
}

const output = (result: NoticeResult, done: string, before: string): CliOutput => {
  if (result.outcome === 'done') {
    const { notice, expiredAt, changed } = result
    const { noticeId, title, kind, audience, publishedAt } = notice
    const expiresAt = expiredAt ?? notice.expiresAt
    return {
      json: { ...notice, expiresAt, changed },
      text: `${changed ? done : before} ${noticeId}\n\n${fields({
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

const publish = async (context: CliContext, options: PublishOptions): Promise<CliOutput> => {
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

const list = async ({ pool, clock }: CliContext, options: { readonly all?: boolean }): Promise<CliOutput> => {
  await requireReadTable(pool, 'read.notices')
  const { rows } = await pool.query<NoticeRow>(
    `select * from read.notices where $1::boolean or expires_at is null or expires_at > $2::timestamptz
      order by published_at desc, notice_id desc`,
    [options.all === true, isoTime(clock())],
  )
  return {
    json: {
      notices: rows.map((row) => ({
        noticeId: row.notice_id,
        accountId: row.account_id,
        ...noticeFields(row),
      })),
    },
    text: table(
      rows,
      [
        { title: 'notice', value: (row) => row.notice_id },
        { title: 'published', value: (row) => row.published_at },
        { title: 'expires', value: (row) => row.expires_at ?? '-' },
        { title: 'kind', value: (row) => row.kind },
        { title: 'audience', value: (row) => row.account_id ?? row.audience },
        { title: 'title', value: (row) => row.title },
      ],
      'no notice stands; --all shows the expired ones too',
    ),
  }
}

/** `notices publish|expire|list` */
export const registerNotices = (program: Command, cli: Cli): void => {
  const notices = program.command('notices')
  notices
    .command('publish')
    .description('publish a notice to an audience')
    .requiredOption('--title <text>', 'one line')
    .option('--body <text>', 'the text; it stands in the log for ever: name no person')
    .option('--body-file <path>', 'a file with the text')
    .addOption(
      new Option(
        '--kind <kind>',
        'what it is about; the body of ACTION_REQUIRED must name a date, e.g. 2026-12-01',
      )
        .choices(noticeKinds)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option(
        '--audience <audience>',
        'DEVELOPERS have an active key, PARTNERS are resellers, CUSTOMERS are not',
      )
        .choices(audiences)
        .default('ALL'),
    )
    .option('--expires-at <instant>', 'when it drops out of the feed by itself; left out: never', instant)
    .option('--link-href <href>', 'a path of the site, or an http address')
    .option('--link-label <text>', 'the words of the link')
    .option('--reference <text>', 'names the notice; the same reference is published once')
    .addHelpText(
      'after',
      `
Examples:
  npx farebox notices publish --kind MAINTENANCE --title "Gateway restart" \\
    --body "On 2026-12-01 from 02:00 to 02:10 UTC." --expires-at 2026-12-01T02:10:00Z
  npx farebox notices publish --kind ACTION_REQUIRED --audience DEVELOPERS --reference strict-bodies \\
    --title "Strict bodies" --body "From 2026-12-01 on unknown fields are refused." --json`,
    )
    .action(cli.action(publish))
  notices
    .command('expire')
    .description('take a notice out of the feed now')
    .argument('<notice>', 'the id of a notice; "notices list" shows them')
    .addHelpText(
      'after',
      `
Examples:
  npx farebox notices expire ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b
  npx farebox notices expire ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json

Doing it again changes nothing. Webhooks that were queued for it are still sent.`,
    )
    .action(
      cli.action(async (context, noticeId: NoticeId) =>
        output(await createNotices(context).expire(noticeId, context), 'expired', 'had expired before:'),
      ),
    )
  notices
    .command('list')
    .description('list the notices that stand, newest first, as the read tables have them')
    .option('--all', 'the expired ones too')
    .addHelpText(
      'after',
      `
Examples:
  npx farebox notices list
  npx farebox notices list --all --json`,
    )
    .action(cli.action(list))
}

export const commands = [registerNotices] as const
