import { type Command, Option } from 'commander'
import type { AccountId } from '../../kernel/ids.ts'
import { allAccounts, type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import { type Cli, type CliContext, wholeNumber } from '../../platform/cli/cli-context.ts'
import { requireReadTable } from '../../platform/cli/options.ts'
import { CliMisuse, type CliOutput, type Column, fields, table } from '../../platform/cli/output.ts'
import { createAccounts } from './account-service.ts'

export type Page = {
  readonly limit: number
  readonly offset: number
  /** Left out: in any status. */
  readonly status: string | undefined
}

/** A thing with the account that has it. */
export type Owned<Row> = Row & { readonly accountId: AccountId }

/** How things of accounts are listed for the command line. `Row` is what `--json` prints of one: never a secret. */
export type ListReads<Row> = {
  /** A page of an account's, or of everybody's, newest first, and how many there are in all. */
  list(
    scope: ListScope,
    page: Page,
  ): Promise<{ readonly rows: readonly Owned<Row>[]; readonly total: number }>
}

/** How they are listed and found. */
export type ListedReads<Row> = ListReads<Row> & { find(account: AccountId, id: string): Promise<Row | null> }

/** Things of accounts that a command lists. */
export type Listing<Row extends object> = {
  /** As the command and the list in `--json` are called, e.g. `deposits`. */
  readonly name: string
  /** What `--status` takes; left out: there is no such option. */
  readonly statuses?: readonly string[]
  /** The table that is listed; it may not be made yet. */
  readonly owner: { readonly table: `read.${string}` | `vault.${string}` }
  reads(context: CliContext): ListReads<Row>
  readonly columns: readonly Column<Row>[]
}

/**
 * Things of accounts that commands list and show.
 *
 * @example
 * ```ts
 * registerListCommands(program.command('deposits'), cli, {
 *   name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: depositStatuses,
 *   owner: { table: 'read.deposits', id: 'deposit_id' },
 *   reads: ({ pool }) => ({ list: …, find: … }),
 *   columns: [{ title: 'deposit', value: (row) => row.deposit_id }, …],
 *   show: (row) => ({ deposit: row.deposit_id, amount: dollars(row.amount_cents), … }),
 * })
 * ```
 */
export type ListedResource<Row extends object> = Omit<Listing<Row>, 'owner' | 'reads'> & {
  /** One of them, e.g. `deposit`. */
  readonly one: string
  /** For help, e.g. `dep_…`. */
  readonly exampleId: string
  /** The table that says whose a thing is, and its column of ids. */
  readonly owner: { readonly table: `read.${string}` | `vault.${string}`; readonly id: string }
  reads(context: CliContext): ListedReads<Row>
  /** Names and values of one, for people. */
  show(row: Row): Readonly<Record<string, string | number | boolean | null>>
}

type ListOptions = Page & { readonly account?: AccountId }

/** @throws CliMisuse not_found */
const requireAccount = async (context: CliContext, account: AccountId): Promise<void> => {
  if (!(await createAccounts(context).read(account, context)))
    throw new CliMisuse(`no account has the id ${account}; "accounts list" shows them`, {}, 'not_found')
}

const requireMade = async (
  { pool }: CliContext,
  { owner }: Pick<Listing<object>, 'owner'>,
): Promise<void> => {
  if (owner.table.startsWith('read.')) await requireReadTable(pool, owner.table as `read.${string}`)
}

const list = async <Row extends object>(
  context: CliContext,
  things: Listing<Row>,
  { account, limit, offset, status }: ListOptions,
): Promise<CliOutput> => {
  if (account !== undefined) await requireAccount(context, account)
  await requireMade(context, things)
  const scope = account === undefined ? allAccounts : wholeAccount(account)
  const { rows, total } = await things.reads(context).list(scope, { limit, offset, status })
  const columns: readonly Column<Owned<Row>>[] = things.columns
  const withAccount = columns.toSpliced(1, 0, { title: 'account', value: (row) => row.accountId })
  const shown = account === undefined ? withAccount : columns
  const text = table(rows, shown, total === 0 ? `no ${things.name}` : 'none on this page')
  return {
    json: { accountId: account ?? null, [things.name]: rows, total, limit, offset },
    text: `${text}\n\n${rows.length} of ${total}`,
  }
}

const show = async <Row extends object>(
  context: CliContext,
  things: ListedResource<Row>,
  id: string,
): Promise<CliOutput> => {
  await requireMade(context, things)
  const { table: owners, id: column } = things.owner
  const { rows } = await context.pool.query<{ account_id: AccountId }>(
    `select account_id from ${owners} where ${column} = $1::text`,
    [id],
  )
  const accountId = rows[0]?.account_id
  const row = accountId === undefined ? null : await things.reads(context).find(accountId, id)
  if (accountId === undefined || row === null)
    throw new CliMisuse(
      `no ${things.one} has the id ${id}; "${things.name} list" shows them`,
      {},
      'not_found',
    )
  return { json: { accountId, ...row }, text: fields({ account: accountId, ...things.show(row) }) }
}

/** Adds `list [--account ID] [--status STATUS] [--limit N] [--offset N]` to a command. */
export const registerList = <Row extends object>(command: Command, cli: Cli, things: Listing<Row>): void => {
  const { name, statuses } = things
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
    .action(cli.action((context, options: ListOptions) => list(context, things, options)))
  if (statuses)
    listing.addOption(new Option('--status <status>', 'only those in this status').choices(statuses))
}

/** Adds `list` as `registerList` does, and `show ID`. */
export const registerListCommands = <Row extends object>(
  command: Command,
  cli: Cli,
  things: ListedResource<Row>,
): void => {
  const { one, name, exampleId } = things
  const exampleThing = exampleId.replace('…', '0199f3b2c1d07a3e9b1f2c4d5e6f7a8b')
  registerList(command, cli, things)
  command
    .command('show')
    .description(`show one ${one}, by its id`)
    .argument('<id>', `the id, ${exampleId}`)
    .addHelpText('after', `\nExample:\n  npx farebox ${name} show ${exampleThing}`)
    .action(cli.action((context, id: string) => show(context, things, id)))
}
