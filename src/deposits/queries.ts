import type pg from 'pg'
import type { DepositRow } from '../../projections/deposits.ts'
import type { AccountId } from '../ids.ts'
import type { DepositStatus } from './fold.ts'

/** A deposit's row with what the vault knows of it. */
export type FoundDeposit = DepositRow & {
  readonly return_url: string | null
  readonly pay_url: string | null
  /** The reseller's own id of its customer; null without one, or once it was erased. */
  readonly customer_ref: string | null
}

const found = `select d.*, p.return_url, p.pay_url, c.ref as customer_ref
  from read.deposits d
  left join vault.deposit_pages p using (deposit_id)
  left join vault.customers c on c.customer_id = d.customer_id`

/** A deposit of the account, or undefined: absent and foreign read alike. */
export const findDeposit = async (
  pool: pg.Pool,
  account: AccountId,
  depositId: string,
): Promise<FoundDeposit | undefined> => {
  const { rows } = await pool.query<FoundDeposit>({
    name: 'find-deposit',
    text: `${found} where d.deposit_id = $1::text and d.account_id = $2::text`,
    values: [depositId, account],
  })
  return rows[0]
}

/** A page of the account's deposits, newest first, and how many there are in all. */
export const listDeposits = async (
  pool: pg.Pool,
  account: AccountId,
  filter: { readonly limit: number; readonly offset: number; readonly status: DepositStatus | undefined },
): Promise<{ readonly deposits: readonly FoundDeposit[]; readonly total: number }> => {
  const status = filter.status ?? null
  const [page, counted] = await Promise.all([
    pool.query<FoundDeposit>({
      name: 'list-deposits',
      text: `${found} where d.account_id = $1::text and ($2::text is null or d.status = $2::text)
             order by d.opened_at desc, d.deposit_id desc limit $3::bigint offset $4::bigint`,
      values: [account, status, filter.limit, filter.offset],
    }),
    pool.query<{ total: number }>({
      name: 'count-deposits',
      text: `select coalesce(sum(total), 0)::bigint as total from read.deposit_counts
              where account_id = $1::text and ($2::text is null or status = $2::text)`,
      values: [account, status],
    }),
  ])
  return { deposits: page.rows, total: counted.rows[0]?.total ?? 0 }
}
