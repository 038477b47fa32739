import { createRequire } from 'node:module'
import type { Kysely, SelectQueryBuilder, Sql } from 'kysely'
import type pg from 'pg'
import { statementNamesOf } from './pipeline.ts'

const require = createRequire(import.meta.url)

/** Loaded with the first query: its 255 modules are a third of the modules that a command loads to start. */
const kysely = (): typeof import('kysely') => require('kysely')

/** `sql` of Kysely. Use it in functions only: at the top of a module it would load Kysely with the module. */
export const sql: Sql = new Proxy((() => undefined) as unknown as Sql, {
  apply: (_, __, [strings, ...values]) => kysely().sql(strings, ...values),
  get: (_, name: keyof Sql) => kysely().sql[name],
})

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

/**
 * Kysely over a pool. Each statement is prepared under a name (Kysely sends them unnamed). Any number of them may
 * share a pool. The caller ends the pool.
 */
export const createKysely = <Database>(pool: pg.Pool): Kysely<Database> => {
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
  const { Kysely: Connected, PostgresDialect } = kysely()
  return new Connected<Database>({
    dialect: new PostgresDialect({ pool: { connect, options: pool.options, end: async () => undefined } }),
  })
}
