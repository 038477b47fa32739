import type { Command } from 'commander'
import { type Cli, groupCommand } from '../../platform/cli/cli-context.ts'
import { formatOption, withExamples } from '../../platform/cli/options.ts'
import { bookForms, momentOption } from './for-commands.ts'
import { momentForms } from './input-forms.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-replay-command.ts')

/** `ledger replay [--until …] [--account …]` */
export const registerReplay = (program: Command, cli: Cli): void => {
  const command = groupCommand(program, 'ledger')
    .command('replay')
    .description('balances as they were, folded from the log alone: no table is read or written')
    .option('--until <moment>', `up to the last position at or before it: ${momentForms}`, momentOption)
    .option('--account <name>', 'only this account and those below it; acc_… is a wallet')
    .option('--book <name>', bookForms)
    .addOption(formatOption())
    .action(cli.action(async () => (await runs()).replayLog))
  withExamples(command, [
    'npx farebox ledger replay',
    'npx farebox ledger replay --until 2026-11-01 --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
    'npx farebox ledger replay --until pos_0_1284 --format csv',
  ])
}
