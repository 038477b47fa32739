import { type Command, Option } from 'commander'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import { instantOption, nameOption, withExamples } from '../../platform/cli/options.ts'
import type { IssueOptions } from './run-token-commands.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-token-commands.ts')

const registerIssue = (token: Command, cli: Cli): void => {
  const command = token
    .command('create')
    .description(
      'issue a token that reads the books over HTTP, for as long as you say; it is shown this once',
    )
    .requiredOption(
      '--name <text>',
      'what it is for: it stands in the log for ever, name no person',
      nameOption,
    )
    .option('--expires-at <instant>', 'when it stops to work', instantOption)
    .option('--expires-in-days <n>', 'how long it works', wholeNumber(1, 3650))
    .addOption(
      new Option('--never-expires', 'it works until it is revoked').conflicts(['expiresAt', 'expiresInDays']),
    )
    .hook('preAction', (command) => {
      const { expiresAt, expiresInDays, neverExpires } = command.opts<IssueOptions>()
      if (expiresAt === undefined && expiresInDays === undefined && !neverExpires)
        command.error(
          'error: say how long it works: --expires-in-days (e.g. 90), --expires-at or --never-expires',
        )
    })
    .action(cli.action(async () => (await runs()).create))
  withExamples(command, ['npx farebox finance token create --name "monthly close" --expires-in-days 90'])
}

/** `finance token create|revoke|list` */
export const registerFinanceTokens = (program: Command, cli: Cli): void => {
  const finance = groupCommand(program, 'finance')
  const token = groupCommand(finance, 'token').description('issue, revoke and list finance tokens')
  registerIssue(token, cli)
  const revoke = token
    .command('revoke <tokenId>')
    .description('end a token for good, at once on every process')
    .action(cli.action(async () => (await runs()).revoke))
  withExamples(revoke, ['npx farebox finance token revoke fin_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b'])
  token
    .command('list')
    .description('list tokens; the tokens themselves are not kept')
    .action(cli.action(async () => (await runs()).list))
}
