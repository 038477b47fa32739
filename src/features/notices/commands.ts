import { InvalidArgumentError } from 'commander'
import { audiences, noticeKinds } from '../../domain/notices/audiences.ts'
import { instantOf } from '../../domain/notices/notice-dates.ts'
import type { NoticeId } from '../../kernel/ids.ts'
import { command } from '../../platform/cli/command.ts'
import { argument, defaulted, flag, id, oneOf, option, required } from '../../platform/cli/input.ts'

const runs = () => import('./run-commands.ts')

const instant = (text: string): string => {
  const found = instantOf(text)
  if (found !== null) return found
  throw new InvalidArgumentError('It must be a date or an instant in UTC, e.g. 2026-12-01T18:00:00Z.')
}

export const publishInput = {
  title: required('<text>', 'one line'),
  body: option('<text>', 'the text; stored in the log permanently: name no person'),
  bodyFile: option('<path>', 'a file with the text'),
  kind: required(
    '<kind>',
    'the subject; the body of ACTION_REQUIRED must name a date, e.g. 2026-12-01',
    oneOf(noticeKinds),
  ),
  audience: defaulted(
    '<audience>',
    'DEVELOPERS have an active key, PARTNERS are resellers, CUSTOMERS are not',
    'ALL',
    oneOf(audiences),
  ),
  expiresAt: option('<instant>', 'when it leaves the feed; default: never', instant),
  linkHref: option('<href>', 'a path of the site, or an http address'),
  linkLabel: option('<text>', 'the text of the link'),
  reference: option('<text>', 'names the notice; the same reference is published once'),
}

export const commands = [
  command({
    name: 'notices publish',
    about: 'publish a notice to an audience',
    input: publishInput,
    examples: [
      `bin/farebox notices publish --kind MAINTENANCE --title "Gateway restart" \\
    --body "On 2026-12-01 from 02:00 to 02:10 UTC." --expires-at 2026-12-01T02:10:00Z`,
      `bin/farebox notices publish --kind ACTION_REQUIRED --audience DEVELOPERS --reference strict-bodies \\
    --title "Strict bodies" --body "From 2026-12-01 on unknown fields are refused." --json`,
    ],
    run: async () => (await runs()).publish,
  }),
  command({
    name: 'notices expire',
    about: 'remove a notice from the feed now',
    input: { notice: argument('<notice>', 'the id of a notice; "notices list" shows them', id<NoticeId>) },
    details:
      'A second call changes nothing. Webhooks that were already queued for the notice are still sent.',
    examples: [
      'bin/farebox notices expire ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
      'bin/farebox notices expire ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json',
    ],
    run: async () => (await runs()).expire,
  }),
  command({
    name: 'notices list',
    about: 'list the current notices, newest first, from the read tables',
    input: { all: flag('include expired notices') },
    examples: ['bin/farebox notices list', 'bin/farebox notices list --all --json'],
    columns: {
      notice: 'noticeId',
      published: 'publishedAt',
      expires: 'expiresAt',
      kind: 'kind',
      audience: (row) => row.accountId ?? row.audience,
      title: 'title',
    },
    empty: 'no current notices; --all includes expired ones',
    run: async () => (await runs()).list,
  }),
]
