import { createHmac, type KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { equalSecrets, sha256 } from '../../kernel/digest.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import { deriveKey, type Keys } from '../../platform/vault/keys.ts'
import { createRowSigner } from '../../platform/vault/seal.ts'
import { hashOfSecret, newCode, newSecret } from '../../platform/vault/secrets.ts'

/** How long an e-mailed link is valid, and a printed one. Milliseconds. */
export const linkMs = 10 * 60_000
export const printedLinkMs = 24 * 60 * 60_000
const maxAttempts = 5

/** Codes whose attempts a process counts. */
const maxCounted = 100_000

/**
 * Also counts the attempts at a code in the memory of this process, because SQL can reset the count in its row.
 * @returns whether the code may be tried once more
 */
const createAttemptCount = () => {
  const attempts = new LRUCache<string, number>(growingCacheOptions(maxCounted))
  return (code: Buffer): boolean => {
    const id = code.toString('base64')
    const before = attempts.get(id) ?? 0
    attempts.set(id, before + 1)
    return before < maxAttempts
  }
}

/**
 * The result of opening a link: a session, or a code if another browser than the requesting one opened it. Null: the
 * link was used, ended or never existed.
 */
type OpenedLink =
  | { readonly kind: 'session'; readonly subjectId: string; readonly printed: boolean }
  | { readonly kind: 'code'; readonly code: string }
  | null

/** Single-use sign-in links. Their secrets are stored as hashes. */
export type Links = {
  /**
   * A link for an e-mail, for the browser that requested it. Earlier links for the same address stay valid, because
   * anybody may request one. For an unknown address the same work is done, and the link does not sign in.
   */
  mailed(link: {
    readonly subjectId: string | null
    readonly email: string
    /** The secret of the requesting browser. */
    readonly browser: string
  }): Promise<string>
  /** A link that works in any browser, for the operator to pass on. `expiresAtMs` as in its event. */
  printed(subjectId: string, expiresAtMs: number): Promise<string>
  /** Uses the link up. With a session, the browser's other requested links end too. */
  open(link: string, browser: string | null): Promise<OpenedLink>
  /**
   * Uses up the code that another browser showed, and all links that this browser requested. Null for a wrong code. A
   * code ends after five wrong attempts.
   */
  redeem(code: string, browser: string | null): Promise<{ readonly subjectId: string } | null>
}

const recipientOf = (email: string): Buffer => sha256(`console recipient ${email.toLowerCase()}`)

/**
 * Hashes of codes use a secret key. There are few possible codes, and access to the table must not be enough to find or
 * create one.
 */
const codeKey = ({ master }: Pick<Keys, 'master'>): KeyObject => deriveKey(master, 'console codes v1')
const codeHash = (key: KeyObject, code: readonly string[]): Buffer =>
  createHmac('sha256', key).update(JSON.stringify(code)).digest()

type LinkRow = {
  readonly hash: Buffer
  readonly subject_id: string | null
  readonly recipient: Buffer | null
  readonly browser: Buffer | null
  readonly expires_at: string
  readonly signature: Buffer | null
}

/** Signs the rows of links: the person, the browser and the expiry. */
export const createLinkSigner = (
  keys: Pick<Keys, 'master'>,
): {
  readonly sign: (row: Omit<LinkRow, 'signature'>) => Buffer
  readonly isSigned: (row: LinkRow) => boolean
} => {
  const signer = createRowSigner(keys.master, 'console link v1')
  const fieldsOf = (row: Omit<LinkRow, 'signature'>) => [
    row.hash.toString('hex'),
    row.subject_id,
    row.recipient?.toString('hex') ?? null,
    row.browser?.toString('hex') ?? null,
    row.expires_at,
  ]
  return {
    sign: (row) => signer.sign(fieldsOf(row)),
    isSigned: (row) => signer.isSigned(fieldsOf(row), row.signature),
  }
}

type Dependencies = {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly keys: Pick<Keys, 'master'>
  readonly logger: Pick<Logger, 'error'>
}

const linkColumns = 'hash, subject_id, recipient, browser, expires_at, signature'

/**
 * Each row is signed with a key derived from the master key, so that database access is not enough to create a link or
 * to change its person.
 */
export const createLinks = ({ pool, clock, keys, logger }: Dependencies): Links => {
  const signer = createLinkSigner(keys)
  const key = codeKey(keys)
  const mayTry = createAttemptCount()

  const isGenuine = (row: LinkRow): boolean => {
    if (signer.isSigned(row)) return true
    if (row.signature !== null || row.subject_id !== null)
      logger.error(
        { subjectId: row.subject_id },
        'a sign-in link was not written by this release of the service: it is refused',
      )
    return false
  }

  /** Ends the browser's other links. Its cookie is dropped at sign-in, so they could not be used. */
  const endOthers = (browser: Buffer | null) =>
    pool.query('delete from vault.console_links where browser = $1::bytea', [browser])

  return {
    mailed: async ({ subjectId, email, browser }) => {
      const link = newSecret()
      const nowMs = clock()
      const row = {
        hash: hashOfSecret(link)!,
        subject_id: subjectId,
        recipient: recipientOf(email),
        browser: hashOfSecret(browser),
        expires_at: isoTime(nowMs + linkMs),
      }
      await pool.query(
        `with ended as (delete from vault.console_links where expires_at <= $5::timestamptz)
         insert into vault.console_links (hash, subject_id, recipient, browser, expires_at, signature)
         values ($1::bytea, $2::text, $3::bytea, $4::bytea, $6::timestamptz, $7::bytea)`,
        [row.hash, subjectId, row.recipient, row.browser, isoTime(nowMs), row.expires_at, signer.sign(row)],
      )
      return link
    },

    printed: async (subjectId, expiresAtMs) => {
      const link = newSecret()
      const row = {
        hash: hashOfSecret(link)!,
        subject_id: subjectId,
        recipient: null,
        browser: null,
        expires_at: isoTime(expiresAtMs),
      }
      await pool.query(
        `insert into vault.console_links (hash, subject_id, expires_at, signature)
         values ($1::bytea, $2::text, $3::timestamptz, $4::bytea)`,
        [row.hash, subjectId, row.expires_at, signer.sign(row)],
      )
      return link
    },

    open: async (link, browser) => {
      const hash = hashOfSecret(link)
      if (hash === null) return null
      const found = await pool.query<LinkRow>(
        `select ${linkColumns} from vault.console_links where hash = $1::bytea`,
        [hash],
      )
      const [row] = found.rows
      if (!row || !isGenuine(row)) return null
      const now = isoTime(clock())
      const deleted = await pool.query(
        `delete from vault.console_links
          where hash = $1::bytea and signature = $4::bytea and expires_at > $2::timestamptz and not opened
            and (recipient is null or browser = $3::bytea)`,
        [hash, now, hashOfSecret(browser), row.signature],
      )
      // The values of the checked row.
      const { subject_id: subjectId, recipient } = row
      if (deleted.rowCount === 1) {
        if (recipient !== null) await endOthers(row.browser)
        return subjectId === null ? null : { kind: 'session', subjectId, printed: recipient === null }
      }
      const code = newCode()
      const { rowCount } = await pool.query(
        `update vault.console_links set opened = true, code = $3::bytea
          where hash = $1::bytea and expires_at > $2::timestamptz and not opened and subject_id is not null`,
        [hash, now, codeHash(key, ['link', hash.toString('hex'), code])],
      )
      return rowCount === 1 ? { kind: 'code', code } : null
    },

    redeem: async (code, browser) => {
      const requestHash = hashOfSecret(browser)
      if (requestHash === null) return null
      const now = isoTime(clock())
      const { rows } = await pool.query<LinkRow & { code: Buffer }>(
        `update vault.console_links set attempts = attempts + 1
          where browser = $1::bytea and opened and expires_at > $2::timestamptz and attempts < ${maxAttempts}
          returning ${linkColumns}, code`,
        [requestHash, now],
      )
      for (const row of rows) {
        if (!mayTry(row.hash)) continue
        const isCodeCorrect = equalSecrets(row.code, codeHash(key, ['link', row.hash.toString('hex'), code]))
        if (isCodeCorrect && isGenuine(row)) {
          const used = await pool.query('delete from vault.console_links where hash = $1::bytea', [row.hash])
          await endOthers(requestHash)
          return used.rowCount === 1 && row.subject_id !== null ? { subjectId: row.subject_id } : null
        }
      }
      return null
    },
  }
}

/** E-mailed codes for the confirmation of identity, each for one act of one session. */
export type Codes = {
  /** Returns a new code. Earlier codes of the session stay valid. */
  make(sessionId: string, act: string): Promise<string>
  /** Uses up all codes of the act; false for a wrong code. After five wrong attempts the codes end. */
  redeem(sessionId: string, act: string, code: string): Promise<boolean>
}

export const createCodes = ({ pool, clock, keys }: Pick<Dependencies, 'pool' | 'clock' | 'keys'>): Codes => {
  const key = codeKey(keys)
  const mayTry = createAttemptCount()
  const hashOf = (sessionId: string, act: string, code: string, expiresAt: string): Buffer =>
    codeHash(key, ['act', sessionId, act, code, expiresAt])
  return {
    make: async (sessionId, act) => {
      const code = newCode()
      const nowMs = clock()
      const expiresAt = isoTime(nowMs + linkMs)
      await pool.query(
        `with ended as (delete from vault.console_codes where expires_at <= $4::timestamptz)
         insert into vault.console_codes (session_id, act, code, expires_at)
         values ($1::text, $2::text, $3::bytea, $5::timestamptz)`,
        [sessionId, act, hashOf(sessionId, act, code, expiresAt), isoTime(nowMs), expiresAt],
      )
      return code
    },
    redeem: async (sessionId, act, code) => {
      const { rows } = await pool.query<{ code: Buffer; expires_at: string }>(
        `update vault.console_codes set attempts = attempts + 1
        where session_id = $1::text and act = $2::text and expires_at > $3::timestamptz and attempts < ${maxAttempts}
        returning code, expires_at`,
        [sessionId, act, isoTime(clock())],
      )
      // An attempt counts for each code.
      const allowedRows = rows.filter((row) => mayTry(row.code))
      const matching = allowedRows.find((row) =>
        equalSecrets(row.code, hashOf(sessionId, act, code, row.expires_at)),
      )
      if (!matching) return false
      const { rows: used } = await pool.query<{ code: Buffer }>(
        'delete from vault.console_codes where session_id = $1::text and act = $2::text returning code',
        [sessionId, act],
      )
      return used.some((row) => row.code.equals(matching.code))
    },
  }
}
