import { createRequire } from 'node:module'
import type { Kysely, RawBuilder, SelectQueryBuilder, Sql } from 'kysely'
import type pg from 'pg'
import type { ListScope } from '../../kernel/scopes.ts'
import { statementNamesOf } from './pipeline.ts'

const require = createRequire(import.meta.url)

/** Loaded with the first query: its 255 modules are a third of the modules that a command loads to start. */
const kysely = (): typeof import('kysely') => require('kysely')

/** `sql` of Kysely. Use it in functions only: at the top of a module it would load Kysely with the module. */
export const sql: Sql = new Proxy((() => undefined) as unknown as Sql, {
  apply: (_, __, [strings, ...values]) => kysely().sql(strings, ...values),
  get: (_, name: keyof Sql) => kysely().sql[name],
})

/** Whether the row of a table alias belongs to the account and the customer of a scope. */
export const inScope = (alias: string, { accountId, customerId }: ListScope): RawBuilder<boolean> => {
  if (accountId === null) return sql`true`
  const ofAccount = sql<boolean>`${sql.ref(`${alias}.accountId`)} = ${accountId}`
  return customerId === null
    ? ofAccount
    : sql`${ofAccount} and ${sql.ref(`${alias}.customerId`)} = ${customerId}`
}

/**
 * A page of rows and the total number of rows, in one round trip and as of one time. A page after the last row is
 * empty: then the total takes a second statement.
 * @param countQuery returns the total in one row; no row counts as 0
 */
export const countedPage = async <Database, Tables extends keyof Database, Row>(
  matching: SelectQueryBuilder<Database, Tables, Row>,
  // biome-ignore lint/suspicious/noExplicitAny: it may count in other tables, under other names
  countQuery: SelectQueryBuilder<any, any, { total: number }>,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly rows: readonly Row[]; readonly total: number }> => {
  const page = matching.limit(limit).offset(offset).select(countQuery.as('total'))
  const rows = (await page.execute()) as (Row & { readonly total: number | null })[]
  const [first] = rows
  if (first !== undefined) return { rows, total: first.total ?? 0 }
  if (offset === 0) return { rows, total: 0 }
  return { rows, total: (await countQuery.executeTakeFirst())?.total ?? 0 }
}

/** A page of a list that is ordered by a time and an id. Times are ISO texts. */
export type TimePage = {
  /** After the row with this time and id; null: from the start. */
  readonly after: { readonly at: string; readonly id: string } | null
  readonly limit: number
  /** From this time on. */
  readonly from?: string | null
  /** Before this time. */
  readonly until?: string | null
  /** Default: newest first. */
  readonly oldestFirst?: boolean
}

/** The rows of a page. An index on the time makes it read only as many rows as it returns. */
export const timePage = <Database, Tables extends keyof Database, Row>(
  matching: SelectQueryBuilder<Database, Tables, Row>,
  /** The columns, e.g. `o.createdAt`. */
  columns: { readonly time: string; readonly id: string },
  { after, limit, from, until, oldestFirst = false }: TimePage,
): SelectQueryBuilder<Database, Tables, Row> => {
  const [time, id] = [sql.ref(columns.time), sql.ref(columns.id)]
  const [order, comparison] = oldestFirst ? (['asc', '>'] as const) : (['desc', '<'] as const)
  let rows = matching
  if (from) rows = rows.where(sql<boolean>`${time} >= ${from}::timestamptz`)
  if (until) rows = rows.where(sql<boolean>`${time} < ${until}::timestamptz`)
  if (after !== null)
    // The first condition uses the index. The second excludes rows of the same millisecond.
    rows = rows
      .where(sql<boolean>`${time} ${sql.raw(comparison)}= ${after.at}::timestamptz`)
      .where(
        sql<boolean>`(${time}, ${id}) ${sql.raw(comparison)} (${after.at}::timestamptz, ${after.id}::text)`,
      )
  return rows.orderBy(time, order).orderBy(id, order).limit(limit)
}

/** Whether a text column contains a text, in any case. */
export const contains = (column: string, text: string): RawBuilder<boolean> =>
  sql`${sql.ref(column)} ilike ${`%${text.replaceAll(/[\\%_]/g, '\\$&')}%`}`

/** Whether an id column begins with a text. */
export const beginsWith = (column: string, text: string): RawBuilder<boolean> =>
  sql`starts_with(${sql.ref(column)}, ${text})`

/** The tables of the queries: `projections/database.ts` declares them. */
// biome-ignore lint/suspicious/noEmptyInterface: it is declared in parts
export interface Database {}

/**
 * Typed queries. The column `order_id` is the field `orderId`; the keys in a jsonb value remain as they are. Reads of the
 * read models use it; frequent writes are prepared SQL. `test/architecture/reads.test.ts` lists the exceptions.
 */
export type Db = Kysely<Database>

const openKysely = <Tables>(pool: pg.Pool): Kysely<Tables> => {
  const connect = async () => {
    const client = await pool.connect()
    const statementName = statementNamesOf(client)
    // As in `pool.query`: a session with an error may be its cause, so it is closed.
    let failed = false
    return {
      query: async (text: string, values: readonly unknown[]) => {
        try {
          return await client.query({ ...statementName(text), values: [...values] })
        } catch (error) {
          failed = true
          throw error
        }
      },
      release: () => client.release(failed),
    } as unknown as pg.PoolClient
  }
  const { CamelCasePlugin, Kysely: Connected, PostgresDialect } = kysely()
  return new Connected<Tables>({
    dialect: new PostgresDialect({ pool: { connect, options: pool.options, end: async () => undefined } }),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  })
}

/**
 * Kysely over a pool, which the caller ends. Each statement is prepared under a name (Kysely sends them unnamed).
 * Kysely is loaded with the first query.
 */
export const createKysely = <Tables = Database>(pool: pg.Pool): Kysely<Tables> => {
  let opened: Kysely<Tables> | null = null
  return new Proxy({} as Kysely<Tables>, {
    get: (_, name) => {
      opened ??= openKysely(pool)
      const member: unknown = Reflect.get(opened, name)
      return typeof member === 'function' ? member.bind(opened) : member
    },
  })
}
