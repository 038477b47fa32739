import type { Command } from 'commander'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import { formatOption, withExamples } from '../../platform/cli/options.ts'
import { bookForms, momentForms, momentOption } from './for-commands.ts'
import { type ReportForm, reportForms } from './input-forms.ts'

const registerReport = (ledger: Command, cli: Cli, { name, takes, command: texts }: ReportForm): void => {
  const command = ledger
    .command(takes.account ? `${name} <account>` : name)
    .description(texts.description)
    .option('--as-of <moment>', `the last position at or before it: ${momentForms}`, momentOption)
    .option('--from <moment>', 'only what came from there on (a position or a time)', momentOption)
    .option('--to <moment>', 'only what came before it (a position or a time)', momentOption)
    .option('--book <name>', bookForms)
    .addOption(formatOption())
  if (texts.summary !== undefined) command.summary(texts.summary)
  if (takes.depth)
    command.option(
      '--depth <n>',
      'cut account names to so many parts, e.g. 2 for liabilities:wallet',
      wholeNumber(1, 10),
    )
  command.action(
    cli.action(async () =>
      (await import('./run-finance-commands.ts')).printReport(name, takes.account === true),
    ),
  )
  withExamples(command, texts.examples)
}

/** `ledger trial-balance|account|statement`: one command for each report. */
export const registerLedger = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  for (const form of Object.values(reportForms)) registerReport(ledger, cli, form)
}
