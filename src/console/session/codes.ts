import { timingSafeEqual } from 'node:crypto'
import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/hash.ts'
import { linkMs } from './links.ts'
import { newCode } from './secret.ts'

const maxAttempts = 5

/** Codes that are e-mailed to whoever has to show again who they are, each for one act of one session. */
export type Codes = {
  /** The code; one of the session that is open already ends. */
  make(sessionId: string, act: string): Promise<string>
  /** Uses it up; false for a wrong one, and after five of them it is over. */
  redeem(sessionId: string, act: string, code: string): Promise<boolean>
}

const hashOf = (sessionId: string, act: string, code: string): Buffer =>
  sha256(JSON.stringify(['console act', sessionId, act, code]))

export const createCodes = ({ pool, clock }: { readonly pool: pg.Pool; readonly clock: Clock }): Codes => ({
  make: async (sessionId, act) => {
    const code = newCode()
    const nowMs = clock()
    await pool.query(
      `with ended as (
         delete from vault.console_codes where expires_at < $4::timestamptz and session_id <> $1::text)
       insert into vault.console_codes (session_id, act, code, expires_at)
       values ($1::text, $2::text, $3::bytea, $5::timestamptz)
       on conflict (session_id) do update set act = excluded.act, code = excluded.code, attempts = 0,
         expires_at = excluded.expires_at`,
      [sessionId, act, hashOf(sessionId, act, code), isoTime(nowMs), isoTime(nowMs + linkMs)],
    )
    return code
  },
  redeem: async (sessionId, act, code) => {
    const { rows } = await pool.query<{ code: Buffer }>(
      `update vault.console_codes set attempts = attempts + 1
        where session_id = $1::text and act = $2::text and expires_at > $3::timestamptz and attempts < ${maxAttempts}
        returning code`,
      [sessionId, act, isoTime(clock())],
    )
    const [row] = rows
    if (!row || !timingSafeEqual(row.code, hashOf(sessionId, act, code))) return false
    const used = await pool.query(
      'delete from vault.console_codes where session_id = $1::text and code = $2::bytea',
      [sessionId, row.code],
    )
    return used.rowCount === 1
  },
})
