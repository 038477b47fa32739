import { type Command, InvalidArgumentError } from 'commander'
import { momentForms, momentOption } from '../features/finance/for-commands.ts'
import { type Cli, groupCommand } from '../platform/cli/cli-context.ts'

const reasonOption = (text: string): string => {
  const reason = text.trim()
  if (!/^[^\p{C}]{1,500}$/u.test(reason))
    throw new InvalidArgumentError('It must be 1 to 500 characters on one line.')
  return reason
}

const registerList = (ledger: Command, cli: Cli): void => {
  ledger
    .command('breaches')
    .description('list the events that break a law; exit code 1 when nobody decided about one of them')
    .option('--open', 'only those that nobody decided about')
    .addHelpText(
      'after',
      '\nWhile one is open a running server does what FAREBOX_ON_VIOLATION says; "ledger decide" acknowledges it.',
    )
    .action(cli.action(async () => (await import('./violation-commands.ts')).breaches))
}

const registerDecide = (ledger: Command, cli: Cli): void => {
  ledger
    .command('decide')
    .description('acknowledge violations with a reason; sealing then resumes')
    .argument('[eventId]', 'the event, as "ledger breaches" lists it')
    .option('--all', 'every open violation of events at or after --since')
    .option('--since <moment>', momentForms, momentOption)
    .requiredOption(
      '--reason <text>',
      'why the violation is accepted; the log keeps this text for ever, so name no person',
      reasonOption,
    )
    .addHelpText(
      'after',
      '\nAn account that was blocked stays blocked until "accounts unblock". "ledger verify" still finds the events, with the reason. Only of events that were recorded while the clocks were ahead it says so without a finding.\n\nExample:\n  npx farebox ledger decide --all --since 2027-01-01T00:00:00Z --reason "the old version ran during the upgrade"',
    )
    .action(cli.action(async () => (await import('./violation-commands.ts')).decide))
}

/** `ledger breaches`, `ledger decide` */
export const registerViolations = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  registerList(ledger, cli)
  registerDecide(ledger, cli)
}
