import { InvalidArgumentError } from 'commander'
import { isEmail } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { command, type Register } from '../../platform/cli/command.ts'
import { argument, id, oneOf, option, pageInput } from '../../platform/cli/input.ts'
import type { ListedResource, Listing } from './list-things.ts'

export const emailText = (text: string): string => {
  if (isEmail(text)) return text
  throw new InvalidArgumentError('It must be an e-mail address.')
}

/** A resource of accounts that a command lists. */
type ListedNames = {
  /** The name of the command and of the list in `--json`, e.g. `deposits`. */
  readonly name: string
  /** The values of `--status`; left out: there is no such option. */
  readonly statuses?: readonly string[]
}

const account = option('<id>', 'only of this account; default: all accounts', id<AccountId>)

/** `NAME list [--account ID] [--status STATUS] [--limit N] [--offset N]` */
export const listCommand = <Row extends object>(
  { name, statuses }: ListedNames,
  load: () => Promise<Listing<Row>>,
): Register => {
  const input = {
    account,
    status: option('<status>', 'only with this status', oneOf(statuses ?? [])),
    ...pageInput,
  }
  const { status: _, ...withoutStatus } = input
  return command({
    name: `${name} list`,
    about: `list ${name}, newest first`,
    input: statuses ? input : (withoutStatus as typeof input),
    examples: [
      `bin/farebox ${name} list --limit 20`,
      `bin/farebox ${name} list --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json`,
    ],
    run: async () => (await import('./list-things.ts')).listThings(name, await load()),
  })
}

/**
 * `NAME list` and `NAME show ID`.
 *
 * @example
 * ```ts
 * resourceCommands(
 *   { name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: depositStatuses },
 *   async () => (await import('./run-commands.ts')).deposits,
 * )
 *
 * // run-commands.ts
 * export const deposits: ListedResource<DepositRecord> = {
 *   owner: { table: 'read.deposits', id: 'deposit_id' },
 *   reads: ({ pool }) => ({ list: …, find: … }),
 *   fields: { deposit: 'deposit_id', amount: (row) => dollars(row.amount_cents), … },
 *   columns: ['deposit', 'amount'],
 * }
 * ```
 */
export const resourceCommands = <Row extends object>(
  names: ListedNames & { readonly one: string; readonly exampleId: string },
  load: () => Promise<ListedResource<Row>>,
): readonly Register[] => [
  listCommand(names, load),
  command({
    name: `${names.name} show`,
    about: `show one ${names.one}`,
    input: { id: argument('<id>', `the id, ${names.exampleId}`) },
    examples: [
      `bin/farebox ${names.name} show ${names.exampleId.replace('…', '0199f3b2c1d07a3e9b1f2c4d5e6f7a8b')}`,
    ],
    run: async () => (await import('./list-things.ts')).showThing(names, await load()),
  }),
]
