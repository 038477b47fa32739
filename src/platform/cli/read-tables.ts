import type pg from 'pg'
import { CliRefusal } from './output.ts'

/**
 * For commands that show what a server's projections made. What a server wrote a moment ago may be missing.
 * @throws CliRefusal overloaded: no server has made them yet
 */
export const refuseUnmade = async (pool: pg.Pool, table: `read.${string}`): Promise<void> => {
  const { rows } = await pool.query<{ made: boolean }>('select to_regclass($1::text) is not null as made', [
    table,
  ])
  if (rows[0]?.made !== true)
    throw new CliRefusal(
      'overloaded',
      'the read tables are not made yet; start the server, which makes them, and ask again',
    )
}
