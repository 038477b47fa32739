import type pg from 'pg'
import { trafficTable } from './traffic-check.ts'
import { vaultTables } from './vault-check.ts'

/** Tables a verification does not look into, by schema, each list in the order of its names. */
export type Outside = Readonly<Record<'engine' | 'vault' | 'work', readonly string[]>>

/** They are held against the log; everything else in these schemas is not. */
const checked: readonly string[] = ['work.event_digests', 'work.verifications', trafficTable, ...vaultTables]

/** What lies outside of every verification, as this database has it: a table that a migration adds is named without a change here. */
export const readOutside = async (pool: pg.Pool): Promise<Outside> => {
  const { rows } = await pool.query<{ schema: keyof Outside; name: string }>(
    `select n.nspname as schema, c.relname as name
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('engine', 'vault', 'work') and c.relkind in ('r', 'p') and not c.relispartition
        and n.nspname || '.' || c.relname <> all ($1::text[])
      order by c.relname collate "C"`,
    [checked],
  )
  const of = (schema: keyof Outside): readonly string[] =>
    rows.filter((row) => row.schema === schema).map(({ name }) => name)
  return { engine: of('engine'), vault: of('vault'), work: of('work') }
}
