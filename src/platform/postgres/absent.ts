import type pg from 'pg'

/** Where the settings point to is no Farebox. The message says what to do. */
export class FareboxAbsent extends Error {
  override readonly name = 'FareboxAbsent'
}

const makers = 'A new one is made by "npm start", "farebox backup restore" and "farebox ledger import"'

/** The refusal of a directory. */
export const absentIn = (dataDir: string): FareboxAbsent =>
  new FareboxAbsent(
    `${dataDir} holds no Farebox. Set FAREBOX_DATA to the directory that holds yours. ${makers}; nothing was made.`,
  )

/**
 * Refuses a database that was never migrated, such as another program's.
 * @param url Of the database; only its host, port and name are told
 * @throws FareboxAbsent
 */
export const refuseAbsent = async (pool: pg.Pool, url: string): Promise<void> => {
  const { rows } = await pool.query<{ made: boolean }>(
    "select to_regclass('public.farebox_migration') is not null as made",
  )
  if (rows[0]?.made === true) return
  const { host, pathname } = new URL(url)
  throw new FareboxAbsent(
    `the database ${pathname.slice(1)} on ${host} holds no Farebox. Is DATABASE_URL right? ${makers}; nothing was made.`,
  )
}
