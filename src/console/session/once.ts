import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/hash.ts'

/** What may be used once: forms that are sent twice, answers of passkeys. */
export type Once = {
  /** True the first time that `what` is spent, whichever process asks; it is remembered for `ms`. */
  spend(what: string, ms: number): Promise<boolean>
}

export const createOnce = ({ pool, clock }: { readonly pool: pg.Pool; readonly clock: Clock }): Once => ({
  spend: async (what, ms) => {
    const nowMs = clock()
    const hash = sha256(what)
    const { rowCount } = await pool.query(
      `with ended as (delete from vault.console_spent where expires_at < $2::timestamptz and hash <> $1::bytea)
       insert into vault.console_spent (hash, expires_at) values ($1::bytea, $3::timestamptz)
       on conflict (hash) do nothing`,
      [hash, isoTime(nowMs), isoTime(nowMs + ms)],
    )
    return rowCount === 1
  },
})
