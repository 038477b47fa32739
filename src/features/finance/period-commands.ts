import { type Command, InvalidArgumentError } from 'commander'
import { type Period, parsePeriod } from '../../kernel/months.ts'
import { type Cli, groupCommand } from '../../platform/cli/cli-context.ts'
import { formatOption, withExamples } from '../../platform/cli/options.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-period-commands.ts')

const periodOption = (text: string): Period => {
  const period = parsePeriod(text)
  if (period === null) throw new InvalidArgumentError('It must be a month such as 2026-11.')
  return period
}

/** `ledger close|periods` */
export const registerPeriods = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  const close = ledger
    .command('close')
    .description('close the books of a month, and of every month before it, for ever; again it does nothing')
    .requiredOption(
      '--period <month>',
      'a month that ended at least five minutes ago, e.g. 2026-11',
      periodOption,
    )
    .action(cli.action(async () => (await runs()).runClose))
  withExamples(close, ['npx farebox ledger close --period 2026-11'])
  const periods = ledger
    .command('periods')
    .description('list the months of the log, or show the report of one: opening, movements, closing')
    .argument('[month]', 'e.g. 2026-11', periodOption)
    .addOption(formatOption())
    .action(cli.action(async () => (await runs()).runPeriods))
  withExamples(periods, [
    'npx farebox ledger periods',
    'npx farebox ledger periods 2026-11',
    `npx farebox ledger periods 2026-11 --format csv | tail -c +4 | tr -d '\\r' | sha256sum  # the digest in the log`,
  ])
}
