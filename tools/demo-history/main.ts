import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../../src/app/config.ts'
import { type Cli, wholeNumber } from '../../src/platform/cli/cli-context.ts'

const help = `
It makes the demo itself, at a clock that begins so many days ago, and lives through them by the services that the server
calls: accounts, deposits by the sandbox, orders of all families, traffic, scrapes, subscriptions, a reseller's customers,
refunds, chargebacks, notices, seals and closed months. Nothing is sent to anybody. The same seed tells the same story.

The past comes before the present: times in the log never go back, so it wants an empty log, and the demo that "npm start"
made is not one. It wants FAREBOX_DEMO=on and no credentials of real providers, and nothing else may work on that database
meanwhile. "npm start" goes on where it ends.

Examples:
  FAREBOX_DATA=.farebox-year npx farebox demo history
  FAREBOX_DATA=.farebox-year npm start
  FAREBOX_DATA=.farebox-month npx farebox demo history --days 30 --customers 20 --seed spring`

const seedOption = (text: string): string => {
  if (!/^[\w.-]{1,64}$/.test(text))
    throw new InvalidArgumentError('It must be 1 to 64 letters, digits, dots, dashes or underscores.')
  return text
}

/** Registers `demo history`, which creates the demo with a history. */
export const registerDemo = (program: Command, cli: Cli<Config>): void => {
  const demo = program.command('demo').description('the demo world of "npm start"')
  demo
    .command('history')
    .description('make the demo with a past: a year of customers, orders, traffic and payments, in minutes')
    .option('--days <n>', 'so many days until now', wholeNumber(1, 1_000), 365)
    .option(
      '--customers <n>',
      'accounts that come in that time, beside those of the demo',
      wholeNumber(0, 1_000),
      120,
    )
    .option('--seed <text>', 'another one tells another story', seedOption, 'farebox')
    .addHelpText('after', help)
    .action(cli.openingAction(async () => (await import('./run-main.ts')).makeHistory))
}
