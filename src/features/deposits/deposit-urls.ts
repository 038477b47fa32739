import type pg from 'pg'
import { isHttpsAddress } from '../../kernel/formats.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'

export type DepositUrls = { readonly returnUrl: string; readonly payUrl: string | null }

/** Keeps where the payer lands; the first one stands, since the invoice was made with it. */
export const storeReturnUrl = async (pool: pg.Pool, deposit: DepositId, returnUrl: string): Promise<void> => {
  await pool.query({
    name: 'keep-return-url',
    text: `insert into vault.deposit_pages (deposit_id, return_url) values ($1::text, $2::text)
           on conflict (deposit_id) do nothing`,
    values: [deposit, returnUrl],
  })
}

/** Keeps the pay page of the invoice that stands. */
export const storePayUrl = async (pool: pg.Pool, deposit: DepositId, payUrl: string): Promise<void> => {
  await pool.query({
    name: 'keep-pay-url',
    text: 'update vault.deposit_pages set pay_url = $2::text where deposit_id = $1::text and pay_url is null',
    values: [deposit, payUrl],
  })
}

export const readDepositUrls = async (pool: pg.Pool, deposit: DepositId): Promise<DepositUrls | null> => {
  const { rows } = await pool.query<{ return_url: string; pay_url: string | null }>({
    name: 'read-deposit-pages',
    text: 'select return_url, pay_url from vault.deposit_pages where deposit_id = $1::text',
    values: [deposit],
  })
  const row = rows[0]
  return row ? { returnUrl: row.return_url, payUrl: row.pay_url } : null
}

/** Longer than a provider may take for its two calls: a process that dies frees the deposit after this. */
const claimS = 30

/** Whether this process may make the deposit's invoice now: no other is at it. */
export const claimDeposit = async (pool: pg.Pool, deposit: DepositId): Promise<boolean> => {
  const { rowCount } = await pool.query({
    name: 'claim-deposit',
    text: `insert into work.deposit_claims (deposit_id, claimed_until)
           values ($1::text, clock_timestamp() + make_interval(secs => ${claimS}))
           on conflict (deposit_id) do update set claimed_until = excluded.claimed_until
           where work.deposit_claims.claimed_until < clock_timestamp()`,
    values: [deposit],
  })
  return rowCount === 1
}

export const releaseDeposit = async (pool: pg.Pool, deposit: DepositId): Promise<void> => {
  await pool.query({
    name: 'release-deposit',
    text: 'delete from work.deposit_claims where deposit_id = $1::text',
    values: [deposit],
  })
}

const maxLength = 2_000

/**
 * Where a payer lands afterwards: an https address, as it was written.
 * @throws invalid_url
 */
export const checkReturnUrl = (text: string): string => {
  if (text.length <= maxLength && /^[\x21-\x7e]+$/.test(text) && isHttpsAddress(text)) return text
  throw refuse(
    'invalid_url',
    `return_url must start with https:// and a host, and have at most ${maxLength} ASCII characters without a user name, a space or a backslash`,
  )
}
