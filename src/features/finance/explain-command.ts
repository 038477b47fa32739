import type { Command } from 'commander'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import { withExamples } from '../../platform/cli/options.ts'
import { bookForms, momentOption } from './for-commands.ts'
import { momentForms, resourceIds } from './input-forms.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-explain-command.ts')

/** `ledger explain <account|id|position>` */
export const registerExplain = (program: Command, cli: Cli): void => {
  const command = groupCommand(program, 'ledger')
    .command('explain <account|id|position>')
    .description(
      'the events behind a balance, a thing or an entry: who caused each, through which request, on which terms',
    )
    .option('--as-of <moment>', `of an account: as of ${momentForms}`, momentOption)
    .option('--book <name>', `of an account: ${bookForms}`)
    .option(
      '--limit <n>',
      'at most so many events: the last ones, of a position those nearest to it',
      wholeNumber(1, 1000),
      20,
    )
    .addHelpText(
      'after',
      `
An account is named as in the trial balance; acc_… is its wallet, cus_… the credit of a customer. The ids of things begin
with ${resourceIds}. A position is an event's place in the log, such as pos_0_1284.`,
    )
    .action(cli.action(async () => (await runs()).explain))
  withExamples(command, [
    'npx farebox ledger explain ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
    'npx farebox ledger explain dep_0190d0a2c1d27f0e8f6e5c4b3a291807 --limit 100',
    'npx farebox ledger explain acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --as-of 2026-11-01',
    'npx farebox ledger explain revenue:orders:isp --limit 5',
    'npx farebox ledger explain pos_0_1284',
  ])
}
