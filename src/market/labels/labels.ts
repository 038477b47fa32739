import type pg from 'pg'
import type { AccountId, PlanId, ProxyId } from '../../kernel/ids.ts'

/** Characters that a label may have at most. */
export const maxLabelLength = 64

/** Sets the account's own words for a plan or a rental; the empty text takes them away. */
export const setLabel = async (
  pool: pg.Pool,
  account: AccountId,
  resource: PlanId | ProxyId,
  label: string,
): Promise<void> => {
  if (label === '') {
    await pool.query('delete from vault.labels where resource_id = $1::text and account_id = $2::text', [
      resource,
      account,
    ])
    return
  }
  await pool.query(
    `insert into vault.labels (resource_id, account_id, label) values ($1::text, $2::text, $3::text)
     on conflict (resource_id) do update set label = excluded.label, changed_at = now()
     where vault.labels.account_id = excluded.account_id`,
    [resource, account, label],
  )
}
