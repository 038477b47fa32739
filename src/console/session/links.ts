import { timingSafeEqual } from 'node:crypto'
import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/hash.ts'
import { hashOfSecret, newCode, newSecret } from './secret.ts'

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
