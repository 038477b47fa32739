import { type Command, Option } from 'commander'
import type { AccountId } from '../../kernel/ids.ts'
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

/** How things of accounts are read for the command line. `Row` is what `--json` prints of one: never a secret. */
export type ListedReads<Row> = {
  /** A page of an account's, newest first, and how many there are in all. */
  list(account: AccountId, page: Page): Promise<{ readonly rows: readonly Row[]; readonly total: number }>
  find(account: AccountId, id: string): Promise<Row | null>
}

/**
 * Things of accounts that commands list and show.
 *
 * @example
 * ```ts
 * registerListCommands(program.command('deposits').description('list and show deposits'), cli, {
 *   name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: depositStatuses,
 *   owner: { table: 'read.deposits', id: 'deposit_id' },
 *   reads: ({ pool }) => ({ list: …, find: … }),
 *   columns: [{ title: 'deposit', value: (row) => row.deposit_id }, …],
 *   show: (row) => ({ deposit: row.deposit_id, amount: dollars(row.amount_cents), … }),
 * })
 * ```
 */
export type ListedResource<Row extends object> = {
  /** As the command and the list in `--json` are called, e.g. `deposits`. */
  readonly name: string
  /** One of them, e.g. `deposit`. */
  readonly one: string
  /** For help, e.g. `dep_…`. */
  readonly exampleId: string
  /** What `--status` takes; left out: there is no such option. */
  readonly statuses?: readonly string[]
  /** The table that says whose a thing is, and its column of ids. */
  readonly owner: { readonly table: `read.${string}` | `vault.${string}`; readonly id: string }
  reads(context: CliContext): ListedReads<Row>
  readonly columns: readonly Column<Row>[]
  /** Names and values of one, for people. */
  show(row: Row): Readonly<Record<string, string | number | boolean | null>>
}

type ListOptions = Page & { readonly account: AccountId }

/** @throws CliMisuse not_found */
const requireAccount = async (context: CliContext, account: AccountId): Promise<void> => {
  if (!(await createAccounts(context).read(account, context)))
    throw new CliMisuse(`no account has the id ${account}; "accounts list" shows them`, {}, 'not_found')
}

const requireMade = async (
  { pool }: CliContext,
  { owner }: Pick<ListedResource<object>, 'owner'>,
): Promise<void> => {
  if (owner.table.startsWith('read.')) await requireReadTable(pool, owner.table as `read.${string}`)
}

const list = async <Row extends object>(
  context: CliContext,
  things: ListedResource<Row>,
  { account, limit, offset, status }: ListOptions,
): Promise<CliOutput> => {
  await requireAccount(context, account)
  await requireMade(context, things)
  const { rows, total } = await things.reads(context).list(account, { limit, offset, status })
  const text = table(rows, things.columns, total === 0 ? `no ${things.name}` : 'none on this page')
  return {
    json: { accountId: account, [things.name]: rows, total, limit, offset },
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
      `no ${things.one} has the id ${id}; "${things.name} list --account acc_…" shows those of an account`,
      {},
      'not_found',
    )
  return { json: { accountId, ...row }, text: fields({ account: accountId, ...things.show(row) }) }
}

/** Adds `list --account ID [--status STATUS] [--limit N] [--offset N]` and `show ID` to a command. */
export const registerListCommands = <Row extends object>(
  command: Command,
  cli: Cli,
  things: ListedResource<Row>,
): void => {
  const { name, one, exampleId, statuses } = things
  const exampleThing = exampleId.replace('…', '0199f3b2c1d07a3e9b1f2c4d5e6f7a8b')
  const listing = command
    .command('list')
    .description(`list an account's ${name}, newest first`)
    .requiredOption('--account <id>', 'whose')
    .option('--limit <n>', 'at most this many', wholeNumber(1, 1_000), 50)
    .option('--offset <n>', 'leave out the first ones', wholeNumber(0), 0)
    .addHelpText(
      'after',
      `\nExample:\n  npx farebox ${name} list --account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b`,
    )
    .action(cli.action((context, options: ListOptions) => list(context, things, options)))
  if (statuses)
    listing.addOption(new Option('--status <status>', 'only those in this status').choices(statuses))
  command
    .command('show')
    .description(`show one ${one}, by its id`)
    .argument('<id>', `the id, ${exampleId}`)
    .addHelpText('after', `\nExample:\n  npx farebox ${name} show ${exampleThing}`)
    .action(cli.action((context, id: string) => show(context, things, id)))
}
