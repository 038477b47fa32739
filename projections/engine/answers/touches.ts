import type pg from 'pg'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { createGathered } from '../../../src/platform/postgres/gathered.ts'

/** How often the rows of an account outside the log were changed by any process: labels, counters, its customers' ids. */
export type TouchesOf = (account: AccountId) => Promise<number>

export const createTouches = (pool: pg.Pool): TouchesOf => {
  const find = createGathered<AccountId, number>(async (accounts) => {
    const { rows } = await pool.query<[AccountId, number]>({
      name: 'account-touches',
      text: 'select account_id, touches from work.account_touches where account_id = any ($1::text[])',
      values: [accounts],
      rowMode: 'array',
    })
    return new Map(rows)
  })
  return async (account) => (await find(account)) ?? 0
}
