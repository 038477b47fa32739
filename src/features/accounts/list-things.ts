import type { AccountId } from '../../kernel/ids.ts'
import { allAccounts, type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type CliOutput, type Columns, cellsOf, fields, notFound, table } from '../../platform/cli/output.ts'
import { createAccounts } from './account-service.ts'

export type Page = {
  readonly limit: number
  readonly offset: number
  /** Left out: any status. */
  readonly status: string | undefined
}

/** A row with the account that owns it. */
export type Owned<Row> = Row & { readonly accountId: AccountId }

/** Lists rows of accounts for the command line. `--json` prints a `Row`, so it never has a secret. */
type ListReads<Row> = {
  /** A page of an account's rows, or of all accounts' rows, newest first, and their total. */
  list(
    scope: ListScope,
    page: Page,
  ): Promise<{ readonly rows: readonly Owned<Row>[]; readonly total: number }>
}

/** Lists rows of accounts and finds one by its id. */
type ListedReads<Row> = ListReads<Row> & { find(account: AccountId, id: string): Promise<Row | null> }

/** The input of a command that lists rows of accounts. */
export type Listing<Row extends object> = {
  /** The listed table; it may not exist yet. */
  readonly owner: { readonly table: `read.${string}` | `vault.${string}` }
  reads(context: CliContext): ListReads<Row>
  /** Names and values of one row, for people. */
  readonly fields: Columns<Row>
  /** The fields that a list shows; left out: all. */
  readonly columns?: readonly string[]
}

/** The input of commands that list and show rows of accounts. */
export type ListedResource<Row extends object> = Omit<Listing<Row>, 'owner' | 'reads'> & {
  /** The table that has the owner of a row, and its id column. */
  readonly owner: { readonly table: `read.${string}` | `vault.${string}`; readonly id: string }
  reads(context: CliContext): ListedReads<Row>
  /** Additional fields of one row. */
  more?(row: Row): Readonly<Record<string, string>>
}

type ListInput = Omit<Page, 'status'> & { readonly account?: AccountId; readonly status?: string }

/** @throws CliMisuse not_found */
const requireAccount = async (context: CliContext, account: AccountId): Promise<void> => {
  if (!(await createAccounts(context).read(account, context)))
    throw notFound(`no account has the id ${account}; "accounts list" shows them`)
}

/** Runs `list`. @param name of the command, and of the list in `--json` */
export const listThings =
  <Row extends object>(name: string, listing: Listing<Row>) =>
  async (context: CliContext, { account, limit, offset, status }: ListInput): Promise<CliOutput> => {
    if (account !== undefined) await requireAccount(context, account)
    const scope = account === undefined ? allAccounts : wholeAccount(account)
    const { rows, total } = await listing.reads(context).list(scope, { limit, offset, status })
    const [first, ...others] = Object.entries<Columns<Owned<Row>>[string]>(listing.fields).filter(
      ([title]) => listing.columns?.includes(title) ?? true,
    )
    const columns = Object.fromEntries([
      first!,
      ...(account === undefined ? [['account', 'accountId'] as const] : []),
      ...others,
    ])
    const text = table(rows, columns, total === 0 ? `no ${name}` : 'none on this page')
    return {
      json: { accountId: account ?? null, [name]: rows, total, limit, offset },
      text: `${text}\n\n${rows.length} of ${total}`,
    }
  }

/** Runs `show`. */
export const showThing =
  <Row extends object>(
    { name, one }: { readonly name: string; readonly one: string },
    listing: ListedResource<Row>,
  ) =>
  async (context: CliContext, { id }: { readonly id: string }): Promise<CliOutput> => {
    const { table: owners, id: column } = listing.owner
    const { rows } = await context.pool.query<{ account_id: AccountId }>(
      `select account_id from ${owners} where ${column} = $1::text`,
      [id],
    )
    const accountId = rows[0]?.account_id
    const row = accountId === undefined ? null : await listing.reads(context).find(accountId, id)
    if (accountId === undefined || row === null)
      throw notFound(`no ${one} has the id ${id}; "${name} list" shows them`)
    return {
      json: { accountId, ...row },
      text: fields({ account: accountId, ...cellsOf(row, listing.fields), ...listing.more?.(row) }),
    }
  }
