import { type Command, InvalidArgumentError } from 'commander'
import { type Cli, listOf, wholeNumber } from '../../platform/cli/cli-context.ts'
import { instantOption, nameOption } from '../../platform/cli/options.ts'
import { parseNetworks } from './api-key.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-key-commands.ts')

const capOption = wholeNumber(0, 1_000_000_000)

/** Parses addresses and networks with commas between. */
const networksOption = (text: string): readonly string[] => {
  const parsed = parseNetworks(text)
  if ('problem' in parsed) throw new InvalidArgumentError(parsed.problem)
  return parsed.networks
}

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const

const maxOverlapMs = 90 * unitMs.d

/** Parses a time such as `24h` into milliseconds. */
const overlapOption = (text: string): number => {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const ms = Number(count) * unitMs[unit as keyof typeof unitMs]
  if (!(ms <= maxOverlapMs))
    throw new InvalidArgumentError('It must be minutes, hours or days, such as 30m, 24h or 7d, at most 90d.')
  return ms
}

const createHelp = `
A key with --networks works from those addresses alone; behind a proxy of yours, FAREBOX_TRUSTED_PROXY says whose
X-Forwarded-For is believed. A key that does not work, for whatever reason, is answered 401 unauthorized.

Examples:
  npx farebox keys create --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --scopes buy --name "web shop"
  npx farebox keys create --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --scopes buy --daily-cap-cents 50000 --networks 203.0.113.0/24,2001:db8::/32 --expires-in-days 90`

const rollHelp = `
The new key has the name, scopes, cap and networks of the former one, which ends by itself after the overlap. Both spend
under one daily cap. A former key that was to expire is followed by one that lives as long, unless an expiry is given.

Examples:
  npx farebox keys roll key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --overlap 24h
  npx farebox keys roll key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --overlap 7d --expires-in-days 90`

/** `keys create|cap|roll|revoke|list` */
export const registerKeys = (program: Command, cli: Cli): void => {
  const keys = program.command('keys')
  keys
    .command('create')
    .description('issue a key; it is shown this once')
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--scopes <list>', 'buy, scrape or both with a comma between', listOf(['buy', 'scrape']))
    .option('--name <text>', 'what it is for: it stays in the log for good, name no person', nameOption)
    .option('--daily-cap-cents <n>', 'what its orders may cost in any 24 hours, whole cents', capOption)
    .option(
      '--networks <list>',
      'the only addresses and networks that it works from, such as 203.0.113.0/24',
      networksOption,
    )
    .option('--expires-at <instant>', 'when it stops to work', instantOption)
    .option('--expires-in-days <n>', 'how long it works', wholeNumber(1, 3650))
    .addHelpText('after', createHelp)
    .action(cli.action(async () => (await runs()).create))
  keys
    .command('roll <keyId>')
    .description('issue a key in the place of another one, which ends by itself; it is shown this once')
    .requiredOption('--overlap <time>', 'how long the former one still works, such as 24h', overlapOption)
    .option('--expires-at <instant>', 'when the new one stops to work', instantOption)
    .option('--expires-in-days <n>', 'how long the new one works', wholeNumber(1, 3650))
    .addHelpText('after', rollHelp)
    .action(cli.action(async () => (await runs()).roll))
  keys
    .command('cap <keyId>')
    .description('set what the orders of a key may cost in any 24 hours; without an amount the cap is lifted')
    .option('--daily-cap-cents <n>', 'whole cents', capOption)
    .action(cli.action(async () => (await runs()).cap))
  keys
    .command('revoke <keyId>')
    .description('end a key for good, within a second on every process')
    .action(cli.action(async () => (await runs()).revoke))
  keys
    .command('list')
    .description('list keys; the keys themselves are not kept')
    .option('--account <id>', 'of this account only')
    .action(cli.action(async () => (await runs()).listKeys))
}
