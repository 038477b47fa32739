import type pg from 'pg'
import type { Logger } from 'pino'
import type { PayUrlOf, StoredPages } from '../../../projections/deposits.ts'
import type { DepositDetails } from '../../domain/deposits/events.ts'
import { isHttpsAddress } from '../../kernel/formats.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createRowSigner } from '../../platform/vault/seal.ts'
import { signOldRows } from '../../platform/vault/sign-old-rows.ts'

type DepositUrls = { readonly returnUrl: string; readonly payUrl: string | null }

/** A deposit and its payer. */
type DepositOwner = Pick<DepositDetails, 'depositId' | 'accountId' | 'customerId'>

/**
 * Stores the addresses of deposits. `of`, `payUrlOf` and `read` return only rows with a valid signature for the payer.
 */
export type DepositPages = {
  /** The addresses of a row; null without a row, or if the signature is invalid, which is logged. */
  of(row: StoredPages): DepositUrls | null
  payUrlOf: PayUrlOf
  read(deposit: DepositOwner): Promise<DepositUrls | null>
  /** Stores the return address. The first one is permanent, because the invoice has it. @returns the stored address */
  keepReturnUrl(deposit: DepositOwner, returnUrl: string): Promise<string>
  /** Stores the pay page of the current invoice, together with the invoice's return address. */
  keepPayUrl(deposit: DepositOwner, urls: DepositUrls): Promise<void>
}

/** Signs rows of addresses. */
export const createPageSigner = (keys: Pick<Keys, 'master'>) => {
  const signer = createRowSigner(keys.master, 'deposit pages v1')
  return {
    sign: ({ depositId, accountId, customerId }: DepositOwner, { returnUrl, payUrl }: DepositUrls) =>
      signer.sign([depositId, accountId, customerId, returnUrl, payUrl]),
    isSigned: (row: StoredPages) =>
      signer.isSigned(
        [row.depositId, row.accountId, row.customerId, row.returnUrl, row.payUrl],
        row.pagesSignature,
      ),
  }
}

/**
 * Each row is signed with a key derived from the master key, together with the payer. Write access to the database is
 * therefore not enough to change a payer's redirect, or to show the page of another payer's deposit.
 */
export const createDepositPages = ({
  pool,
  db,
  keys,
  logger,
}: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly keys: Pick<Keys, 'master'>
  readonly logger: Pick<Logger, 'error'>
}): DepositPages => {
  const { sign, isSigned } = createPageSigner(keys)

  const of: DepositPages['of'] = (row) => {
    const { depositId, returnUrl, payUrl } = row
    if (returnUrl === null) return null
    if (isSigned(row)) return { returnUrl, payUrl }
    logger.error(
      { depositId },
      'the stored addresses of a deposit were not written by the service: they are not shown',
    )
    return null
  }

  const read: DepositPages['read'] = async ({ depositId, accountId, customerId }) => {
    const row = await db
      .selectFrom('vault.deposit_pages')
      .select(['depositId', 'returnUrl', 'payUrl', 'signature as pagesSignature'])
      .where('depositId', '=', depositId)
      .executeTakeFirst()
    return row ? of({ ...row, accountId, customerId }) : null
  }

  return {
    of,
    payUrlOf: (row) => of(row)?.payUrl ?? null,
    read,
    keepReturnUrl: async (deposit, returnUrl) => {
      const { depositId } = deposit
      const values = [depositId, returnUrl, sign(deposit, { returnUrl, payUrl: null })]
      const { rowCount } = await pool.query({
        name: 'keep-signed-return-url',
        text: `insert into vault.deposit_pages (deposit_id, return_url, signature)
               values ($1::text, $2::text, $3::bytea) on conflict (deposit_id) do nothing`,
        values,
      })
      if (rowCount === 1) return returnUrl
      const storedPage = await read(deposit)
      if (storedPage) return storedPage.returnUrl
      await pool.query(
        `update vault.deposit_pages set return_url = $2::text, pay_url = null, signature = $3::bytea
          where deposit_id = $1::text`,
        values,
      )
      return returnUrl
    },
    keepPayUrl: async (deposit, urls) => {
      await pool.query({
        name: 'keep-signed-pay-url',
        text: `update vault.deposit_pages set pay_url = $3::text, signature = $4::bytea
                where deposit_id = $1::text and return_url = $2::text and pay_url is null`,
        values: [deposit.depositId, urls.returnUrl, urls.payUrl, sign(deposit, urls)],
      })
    },
  }
}

/**
 * Signs the rows that an older release stored without a signature.
 * @param ownerOf reads the payer from the log; null for a deposit that was never opened
 */
export const adoptDepositPages = async (
  pool: pg.Pool,
  keys: Pick<Keys, 'master'>,
  ownerOf: (deposit: DepositId) => Promise<DepositOwner | null>,
): Promise<void> => {
  const { sign } = createPageSigner(keys)
  await signOldRows<{ deposit_id: DepositId; return_url: string; pay_url: string | null }>(
    pool,
    `select deposit_id, return_url, pay_url from vault.deposit_pages
      where signature is null and deposit_id > $1::text order by deposit_id`,
    ({ deposit_id }) => deposit_id,
    async (rows) => {
      const signatures = await Promise.all(
        rows.map(async ({ deposit_id, return_url: returnUrl, pay_url: payUrl }) => {
          const owner = await ownerOf(deposit_id)
          return owner && sign(owner, { returnUrl, payUrl })
        }),
      )
      await pool.query(
        `update vault.deposit_pages p set signature = s.signature
           from unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) as s (deposit_id, return_url, pay_url, signature)
          where p.deposit_id = s.deposit_id and p.return_url = s.return_url
            and p.pay_url is not distinct from s.pay_url`,
        [
          rows.map(({ deposit_id }) => deposit_id),
          rows.map(({ return_url }) => return_url),
          rows.map(({ pay_url }) => pay_url),
          signatures,
        ],
      )
    },
  )
}

/** Seconds. Longer than the provider's two calls may take. A crashed process's claim expires after this time. */
const claimS = 30

/** Claims the deposit's invoice. False while another process creates it. */
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

export const maxReturnUrl = 2_000
export const returnUrlForm = `an address that starts with https:// and a host, and has at most ${maxReturnUrl} ASCII characters without a user name, a space or a backslash`

/**
 * Checks a return address: https, unchanged.
 * @throws invalid_url
 */
export const checkReturnUrl = (text: string): string => {
  if (text.length <= maxReturnUrl && /^[\x21-\x7e]+$/.test(text) && isHttpsAddress(text)) return text
  throw refuse('invalid_url', `return_url must be ${returnUrlForm}`)
}
