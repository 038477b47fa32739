import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import { statementNamesOf } from './statement-names.ts'

/**
 * Kysely over a pool, each of its statements prepared under a name (Kysely sends them unnamed). Any number of them
 * may share a pool, which stays the caller's to end.
 */
export const createKysely = <Database>(pool: pg.Pool): Kysely<Database> => {
  const connect = async () => {
    const client = await pool.connect()
    const named = statementNamesOf(client)
    return {
      query: (text: string, values: readonly unknown[]) =>
        client.query({ ...named(text), values: [...values] }),
      release: (destroy?: boolean) => client.release(destroy),
    } as unknown as pg.PoolClient
  }
  return new Kysely<Database>({
    dialect: new PostgresDialect({ pool: { connect, options: pool.options, end: async () => undefined } }),
  })
}
