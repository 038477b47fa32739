import { type Command, Option } from 'commander'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'
import type { ListedResource, Listing } from './list-things.ts'

/** A resource of accounts that a command lists. */
export type ListedNames = {
  /** The name of the command and of the list in `--json`, e.g. `deposits`. */
  readonly name: string
  /** The values of `--status`; left out: there is no such option. */
  readonly statuses?: readonly string[]
}

/** A resource of accounts that commands list and show. */
export type ResourceNames = ListedNames & {
  /** The singular, e.g. `deposit`. */
  readonly one: string
  /** For help, e.g. `dep_…`. */
  readonly exampleId: string
}

const listThings = () => import('./list-things.ts')

/** Adds `list [--account ID] [--status STATUS] [--limit N] [--offset N]` to a command. */
export const registerList = <Row extends object>(
  command: Command,
  cli: Cli,
  { name, statuses }: ListedNames,
  load: () => Promise<Listing<Row>>,
): void => {
  const listing = command
    .command('list')
    .description(`list ${name}, newest first`)
    .option('--account <id>', "only this account's; left out: of all accounts")
    .option('--limit <n>', 'at most this many', wholeNumber(1, 1_000), 50)
    .option('--offset <n>', 'leave out the first ones', wholeNumber(0), 0)
    .addHelpText(
      'after',
      `
Examples:
  npx farebox ${name} list --limit 20
  npx farebox ${name} list --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json`,
    )
    .action(cli.action(async () => (await listThings()).listThings(name, await load())))
  if (statuses)
    listing.addOption(new Option('--status <status>', 'only those in this status').choices(statuses))
}

/**
 * Adds `list` as `registerList` does, and `show ID`.
 *
 * @example
 * ```ts
 * registerListCommands(
 *   program.command('deposits'),
 *   cli,
 *   { name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: depositStatuses },
 *   async () => (await import('./run-commands.ts')).deposits,
 * )
 *
 * // run-commands.ts
 * export const deposits: ListedResource<DepositRecord> = {
 *   owner: { table: 'read.deposits', id: 'deposit_id' },
 *   reads: ({ pool }) => ({ list: …, find: … }),
 *   columns: [{ title: 'deposit', value: (row) => row.deposit_id }, …],
 *   show: (row) => ({ deposit: row.deposit_id, amount: dollars(row.amount_cents), … }),
 * }
 * ```
 */
export const registerListCommands = <Row extends object>(
  command: Command,
  cli: Cli,
  names: ResourceNames,
  load: () => Promise<ListedResource<Row>>,
): void => {
  const { one, name, exampleId } = names
  const exampleThing = exampleId.replace('…', '0199f3b2c1d07a3e9b1f2c4d5e6f7a8b')
  registerList(command, cli, names, load)
  command
    .command('show')
    .description(`show one ${one}, by its id`)
    .argument('<id>', `the id, ${exampleId}`)
    .addHelpText('after', `\nExample:\n  npx farebox ${name} show ${exampleThing}`)
    .action(cli.action(async () => (await listThings()).showThing(names, await load())))
}
