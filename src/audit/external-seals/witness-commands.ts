import { type Command, InvalidArgumentError } from 'commander'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import {
  locationExpected,
  parseStoreLocation,
  type StoreLocation,
} from '../../platform/outgoing/object-store.ts'

/** Loads the implementation of the commands when one runs. */
const loadCommands = () => import('./run-witness-commands.ts')

/** `ledger seals deliver [--again]` */
export const registerDeliver = (program: Command, cli: Cli): void => {
  groupCommand(groupCommand(program, 'ledger'), 'seals')
    .command('deliver')
    .description(
      'bring the seals that it has not to FAREBOX_SEAL_TARGET now; a running server does so by itself',
    )
    .option('--again', 'bring all of them, from the first on: for a place that lost some')
    .action(cli.action(async () => (await loadCommands()).deliver(cli.clock)))
}

const fromExpected = `${locationExpected}, or - for standard input`

const locationOption = (text: string): StoreLocation | '-' => {
  const location = text === '-' ? '-' : parseStoreLocation(text)
  if (location === null) throw new InvalidArgumentError(`It must be ${fromExpected}.`)
  return location
}

/** `ledger witness --state … --key … [--from …]`. Runs on another machine, without a database. */
export const registerWitness = (program: Command, cli: Cli): void => {
  groupCommand(program, 'ledger')
    .command('witness')
    .description(
      'on another machine: look at the seals where they are brought to, pin and co-sign the newest; exit code 1 when they are not what was pinned',
    )
    .requiredOption(
      '--state <file>',
      'what this witness keeps, for "ledger verify --witness"; made by the first look',
    )
    .requiredOption('--key <file>', 'its own key, 32 bytes in base64; made by the first look')
    .option(
      '--from <place>',
      `where the seals are: ${fromExpected}; left out: FAREBOX_SEAL_TARGET`,
      locationOption,
    )
    .option('--public-key <file>', 'the key of the service, PEM or hex: needed once, and pinned')
    .option('--all', 'read everything from the first seal again, and not the last hundred alone')
    .option(
      '--max-age-hours <n>',
      'end with exit code 1 when the newest seal is older',
      wholeNumber(1, 100_000),
    )
    .addHelpText(
      'after',
      `
What opens the place comes from FAREBOX_SEAL_TARGET_TOKEN, FAREBOX_SEAL_S3_… and FAREBOX_SEAL_TARGET_PRIVATE (docs/seals.md).

Examples:
  npx farebox ledger witness --state shop.json --key witness.key --from file:/seals --public-key seal-public.pem
  cat /seals/*.json | npx farebox ledger witness --state shop.json --key witness.key --from - --public-key seal-public.pem`,
    )
    .action(cli.bareAction(async () => (await loadCommands()).witness(cli.clock)))
}
