import type pg from 'pg'
import type { ProxyRow } from '../../../projections/proxies.ts'

/** The rentals that hold an address now, of whatever account, up to 50: a shared address has several. For the operator. */
export const rentalsAt = async (pool: pg.Pool, ip: string): Promise<readonly ProxyRow[]> => {
  const { rows } = await pool.query<ProxyRow>(
    'select * from read.proxies where ip = $1::text and released_at is null order by created_at desc limit 50',
    [ip],
  )
  return rows
}
