import type { Command } from 'commander'
import { depositStatuses } from '../../domain/deposits/fold.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'
import { registerListCommands } from '../accounts/for-commands.ts'
import { parseReference } from '../wallet/for-commands.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

/** `deposits list|show|changes|review` */
export const registerDeposits = (program: Command, cli: Cli): void => {
  const command = program.command('deposits')
  registerListCommands(
    command,
    cli,
    { name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: depositStatuses },
    async () => (await runs()).deposits,
  )
  command
    .command('changes')
    .description('list what payment providers said and nothing books, as the read tables have it')
    .option('--all', 'what was closed, too')
    .option('--limit <n>', 'so many', wholeNumber(1, 1_000), 100)
    .addHelpText('after', '\nExample:\n  npx farebox deposits changes')
    .action(cli.action(async () => (await runs()).listChanges))
  command
    .command('review')
    .description('close what a payment provider said, once somebody looked at it; it moves no money')
    .argument('<deposit>', 'its id')
    .argument('<number>', 'which of its changes', wholeNumber(1))
    .requiredOption('--note <text>', 'what was done: it stays in the log, name no person', parseReference)
    .addHelpText(
      'after',
      `
Example:
  npx farebox deposits review dep_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b 1 --note "taken back by hand"`,
    )
    .action(cli.action(async () => (await runs()).review))
}

export const commands = [registerDeposits] as const
