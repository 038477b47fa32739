import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../../src/app/config.ts'
import { type Cli, wholeNumber } from '../../src/platform/cli/cli-context.ts'
import { CliMisuse, CliRefusal, fields } from '../../src/platform/cli/output.ts'
import { createProgressBar, stepsOf } from '../../src/platform/cli/progress-bar.ts'
import type { HistoryAsked } from './fill.ts'

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

/** @throws CliMisuse when these settings are not those of a demo */
const assertDemo = (config: Config): void => {
  if (!config.demo)
    throw new CliMisuse('FAREBOX_DEMO is off: a history is only made for the demo', {}, 'no_demo')
  if (config.payments.sandbox === null || config.payments.sandbox.url !== null)
    throw new CliMisuse(
      'payments of a history go to a sandbox of its own: leave out the credentials of payment providers, FAREBOX_SANDBOX and FAREBOX_SANDBOX_URL',
      {},
      'no_demo',
    )
  if (config.scrapers.providers.length > 0)
    throw new CliMisuse(
      'scrapers of a history call the sandbox: leave out the keys of real providers',
      {},
      'no_demo',
    )
  if (config.eventStoreUrl !== null)
    throw new CliMisuse(
      'a history is written into the log in Postgres: leave out EVENTSTORE_URL',
      {},
      'no_demo',
    )
  if (config.clockOffsetMs !== 0)
    throw new CliMisuse('a history has a clock of its own: leave out FAREBOX_CLOCK_OFFSET_MS', {}, 'no_demo')
}

/** `demo history`: the demo with a past. */
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
    .action(
      cli.openingAction(async (config, open, asked: HistoryAsked) => {
        assertDemo(config)
        const { context, close } = await open({ makes: true })
        try {
          const events = await context.log.head()
          if (events > 0)
            throw new CliRefusal(
              'has_history',
              `the log here holds ${events} events already, and a past cannot come after them: name an empty place, such as FAREBOX_DATA=.farebox-year`,
              { events },
            )
        } finally {
          await close()
        }
        const { tellHistory } = await import('./run.ts')
        const bar = createProgressBar(process.stderr)
        let show: ReturnType<typeof stepsOf> | null = null
        try {
          const told = await tellHistory(config, context.clock, asked, {
            onStep: ({ done, total, events }) => {
              show ??= stepsOf(bar, 'history', total)
              show(done, events)
            },
          })
          return { json: told, text: `${fields(told)}\n\nnpm start with the same settings goes on from here` }
        } finally {
          bar.end()
        }
      }),
    )
}
