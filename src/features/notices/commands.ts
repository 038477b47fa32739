import { type Command, InvalidArgumentError, Option } from 'commander'
import { audiences, noticeKinds } from '../../domain/notices/audiences.ts'
import { instantOf } from '../../domain/notices/notice-dates.ts'
import type { Cli } from '../../platform/cli/cli-context.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

const instant = (text: string): string => {
  const found = instantOf(text)
  if (found === null)
    throw new InvalidArgumentError('It must be a date or an instant in UTC, e.g. 2026-12-01T18:00:00Z.')
  return found
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
    .action(cli.action(async () => (await runs()).publish))
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
    .action(cli.action(async () => (await runs()).expire))
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
    .action(cli.action(async () => (await runs()).list))
}

export const commands = [registerNotices] as const
