import type pg from 'pg'

/** The console's address, as the server that listened last had it: a command hands out links to it. */
export const keepConsoleAddress = async (pool: pg.Pool, origin: string): Promise<void> => {
  await pool.query(
    `insert into work.console_address (origin) values ($1::text)
     on conflict (single) do update set origin = excluded.origin`,
    [origin],
  )
}

/** Null before a server ever listened. */
export const keptConsoleAddress = async (pool: pg.Pool): Promise<string | null> => {
  const { rows } = await pool.query<{ origin: string }>('select origin from work.console_address')
  return rows[0]?.origin ?? null
}
