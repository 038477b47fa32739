import { InvalidArgumentError } from 'commander'
import type { Config } from '../../src/app/config.ts'
import { bareCommand, commandGroup, type Register } from '../../src/platform/cli/command.ts'
import { defaulted, wholeNumber } from '../../src/platform/cli/input.ts'

const seedText = (text: string): string => {
  if (!/^[\w.-]{1,64}$/.test(text))
    throw new InvalidArgumentError('It must be 1 to 64 letters, digits, dots, dashes or underscores.')
  return text
}

/** `demo history` creates the demo with a history. */
export const demoCommands: readonly Register<Config>[] = [
  commandGroup('demo', 'the demo world of "npm start"'),
  bareCommand({
    name: 'demo history',
    about: 'make the demo with a past: a year of customers, orders, traffic and payments, in minutes',
    input: {
      days: defaulted('<n>', 'this many days until now', 365, wholeNumber(1, 1_000)),
      customers: defaulted(
        '<n>',
        'new accounts in that time, besides those of the demo',
        120,
        wholeNumber(0, 1_000),
      ),
      seed: defaulted('<text>', 'another seed gives another history', 'farebox', seedText),
    },
    details: `It makes the demo itself, at a clock that begins so many days ago, and lives through them by the services that the server
calls: accounts, deposits by the sandbox, orders of all families, traffic, scrapes, subscriptions, a reseller's customers,
refunds, chargebacks, notices, seals and closed months. Nothing is sent to anybody. The same seed tells the same story.

The past comes before the present: times in the log never go back, so it wants an empty log, and the demo that "npm start"
made is not one. It wants FAREBOX_DEMO=on and no credentials of real providers, and nothing else may work on that database
meanwhile. "npm start" goes on where it ends.`,
    examples: [
      'FAREBOX_DATA=.farebox-year bin/farebox demo history',
      'FAREBOX_DATA=.farebox-year npm start',
      'FAREBOX_DATA=.farebox-month bin/farebox demo history --days 30 --customers 20 --seed spring',
    ],
    run: async () => (await import('./run-main.ts')).makeHistory,
  }),
]
