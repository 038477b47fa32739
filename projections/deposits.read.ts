import type pg from 'pg'
import type { DepositStatus } from '../src/money/deposits/fold.ts'
import type { Scope } from '../src/terms/holder.ts'
import type { DepositRow } from './deposits.ts'

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

/**
 * A statement over the deposits of a scope, whose own values come last. One customer's has a name and so a plan of its
 * own, by the index of that customer.
 */
const ofScope = (
  { accountId, customerId }: Scope,
  name: string,
  text: (within: string) => string,
  values: readonly unknown[],
) => {
  const last = values.length
  const account = `d.account_id = $${last + 1}::text`
  return customerId === null
    ? { name, text: text(account), values: [...values, accountId] }
    : {
        name: `${name}-of-customer`,
        text: text(`${account} and d.customer_id = $${last + 2}::text`),
        values: [...values, accountId, customerId],
      }
}

/** A deposit within the scope, or undefined: absent and foreign read alike. */
export const findDeposit = async (
  pool: pg.Pool,
  scope: Scope,
  depositId: string,
): Promise<FoundDeposit | undefined> => {
  const { rows } = await pool.query<FoundDeposit>(
    ofScope(scope, 'find-deposit', (within) => `${found} where d.deposit_id = $1::text and ${within}`, [
      depositId,
    ]),
  )
  return rows[0]
}

type Filter = { readonly limit: number; readonly offset: number; readonly status: DepositStatus | undefined }

/** Of all of an account's deposits it is known; a customer has few. */
const countOf = (scope: Scope, status: DepositStatus | null) =>
  scope.customerId === null
    ? {
        name: 'count-deposits',
        text: `select coalesce(sum(total), 0)::bigint as total from read.deposit_counts
                where account_id = $1::text and ($2::text is null or status = $2::text)`,
        values: [scope.accountId, status],
      }
    : ofScope(
        scope,
        'count-deposits',
        (within) => `select count(*) as total from read.deposits d
                      where ($1::text is null or d.status = $1::text) and ${within}`,
        [status],
      )

/** A page of the deposits within the scope, newest first, and how many there are in all. */
export const listDeposits = async (
  pool: pg.Pool,
  scope: Scope,
  filter: Filter,
): Promise<{ readonly deposits: readonly FoundDeposit[]; readonly total: number }> => {
  const status = filter.status ?? null
  const [page, counted] = await Promise.all([
    pool.query<FoundDeposit>(
      ofScope(
        scope,
        'list-deposits',
        (within) => `${found} where ($1::text is null or d.status = $1::text) and ${within}
                     order by d.opened_at desc, d.deposit_id desc limit $2::bigint offset $3::bigint`,
        [status, filter.limit, filter.offset],
      ),
    ),
    pool.query<{ total: number }>(countOf(scope, status)),
  ])
  return { deposits: page.rows, total: counted.rows[0]?.total ?? 0 }
}
