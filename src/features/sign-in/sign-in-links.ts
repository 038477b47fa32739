import { timingSafeEqual } from 'node:crypto'
import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import { hashOfSecret, newCode, newSecret } from '../../platform/vault/secrets.ts'

/** How long an e-mailed link is good for, and a printed one. */
export const linkMs = 10 * 60_000
export const printedLinkMs = 24 * 60 * 60_000
const maxAttempts = 5

/**
 * What a link opened: a session, or a code, for it was opened in another browser than the one that asked for it. Null:
 * it was used, ended, or never was.
 */
export type OpenedLink =
  | { readonly kind: 'session'; readonly subjectId: string; readonly printed: boolean }
  | { readonly kind: 'code'; readonly code: string }
  | null

/** Links that sign in, each once. Their secrets are kept as hashes. */
export type Links = {
  /**
   * A link for an e-mail, opened by the browser that asked. One is good at a time for an address. For an address that
   * nobody has, the same is done, and the link opens nothing.
   */
  mailed(link: {
    readonly subjectId: string | null
    readonly email: string
    /** The secret of the browser that asks. */
    readonly browser: string
  }): Promise<string>
  /** A link that opens in any browser, for the operator to hand on. `expiresAtMs` as in its event. */
  printed(subjectId: string, expiresAtMs: number): Promise<string>
  /** Uses the link up. */
  open(link: string, browser: string | null): Promise<OpenedLink>
  /** Uses up the code that another browser was shown. Null for a wrong one; after five of them it is over. */
  redeem(code: string, browser: string | null): Promise<{ readonly subjectId: string } | null>
}

const recipientOf = (email: string): Buffer => sha256(`console recipient ${email.toLowerCase()}`)
const codeHash = (link: Buffer, code: string): Buffer =>
  sha256(`console code ${link.toString('hex')} ${code}`)

export const createLinks = ({ pool, clock }: { readonly pool: pg.Pool; readonly clock: Clock }): Links => ({
  mailed: async ({ subjectId, email, browser }) => {
    const link = newSecret()
    const nowMs = clock()
    await pool.query(
      `with ended as (
         delete from vault.console_links where expires_at < $5::timestamptz and recipient is distinct from $3::bytea)
       insert into vault.console_links (hash, subject_id, recipient, browser, expires_at)
       values ($1::bytea, $2::text, $3::bytea, $4::bytea, $6::timestamptz)
       on conflict (recipient) do update set hash = excluded.hash, subject_id = excluded.subject_id,
         browser = excluded.browser, expires_at = excluded.expires_at, code = null, attempts = 0, opened = false`,
      [
        hashOfSecret(link),
        subjectId,
        recipientOf(email),
        hashOfSecret(browser),
        isoTime(nowMs),
        isoTime(nowMs + linkMs),
      ],
    )
    return link
  },

  printed: async (subjectId, expiresAtMs) => {
    const link = newSecret()
    await pool.query(
      'insert into vault.console_links (hash, subject_id, expires_at) values ($1::bytea, $2::text, $3::timestamptz)',
      [hashOfSecret(link), subjectId, isoTime(expiresAtMs)],
    )
    return link
  },

  open: async (link, browser) => {
    const hash = hashOfSecret(link)
    if (hash === null) return null
    const now = isoTime(clock())
    const taken = await pool.query<{ subject_id: string | null; recipient: Buffer | null }>(
      `delete from vault.console_links
        where hash = $1::bytea and expires_at > $2::timestamptz and not opened
          and (recipient is null or browser = $3::bytea)
        returning subject_id, recipient`,
      [hash, now, hashOfSecret(browser)],
    )
    const [row] = taken.rows
    if (row) {
      const { subject_id: subjectId, recipient } = row
      return subjectId === null ? null : { kind: 'session', subjectId, printed: recipient === null }
    }
    const code = newCode()
    const { rowCount } = await pool.query(
      `update vault.console_links set opened = true, code = $3::bytea
        where hash = $1::bytea and expires_at > $2::timestamptz and not opened and subject_id is not null`,
      [hash, now, codeHash(hash, code)],
    )
    return rowCount === 1 ? { kind: 'code', code } : null
  },

  redeem: async (code, browser) => {
    const asking = hashOfSecret(browser)
    if (asking === null) return null
    const now = isoTime(clock())
    const { rows } = await pool.query<{ hash: Buffer; code: Buffer; subject_id: string }>(
      `update vault.console_links set attempts = attempts + 1
        where browser = $1::bytea and opened and expires_at > $2::timestamptz and attempts < ${maxAttempts}
        returning hash, code, subject_id`,
      [asking, now],
    )
    for (const row of rows)
      if (timingSafeEqual(codeHash(row.hash, code), row.code)) {
        const used = await pool.query('delete from vault.console_links where hash = $1::bytea', [row.hash])
        return used.rowCount === 1 ? { subjectId: row.subject_id } : null
      }
    return null
  },
})

const maxCodeAttempts = 5

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
        where session_id = $1::text and act = $2::text and expires_at > $3::timestamptz and attempts < ${maxCodeAttempts}
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
