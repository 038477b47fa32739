import type pg from 'pg'
import type { Logger } from 'pino'
import { isStaff, lifetimeOf } from '../../domain/staff/lifetimes.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { SignInMethod } from '../../kernel/event.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import type { Session, Sessions } from '../../platform/ui/page.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createRowSigner, type RowFields, type RowSigner } from '../../platform/vault/seal.ts'
import { hashOfSecret, newSecret } from '../../platform/vault/secrets.ts'

const minuteMs = 60_000

/** How long a confirmation of identity is valid, milliseconds. */
export const confirmedMs = 5 * minuteMs
/** The last use is stored at most once in this time, milliseconds. */
const seenUpdateMs = minuteMs

type Row = {
  readonly session_id: string
  readonly hash: Buffer
  readonly signature: Buffer | null
  readonly subject_id: string
  readonly method: SignInMethod
  readonly created_at: string
  readonly seen_at: string
  readonly ends_at: string
  readonly confirmed_until: string | null
  readonly confirmed_act: string | null
  readonly viewing_account_id: AccountId | null
  readonly user_agent: string
  readonly address: string
}

const sessionOf = (row: Row): Session => ({
  sessionId: row.session_id,
  subjectId: row.subject_id,
  method: row.method,
  createdAt: row.created_at,
  seenAt: row.seen_at,
  endsAt: row.ends_at,
  confirmedUntil: row.confirmed_until,
  confirmedAct: row.confirmed_act,
  viewing: row.viewing_account_id,
  userAgent: row.user_agent,
  address: row.address,
})

/** The id of a new session. Its event is appended before the session is opened. */
export const newSessionId = (subjectId: string): string => newId<string>('ses', subjectId)

const maxAgentLength = 300

/** Whether the session is neither idle nor too old. A clock that is set back does not age it. */
const isAlive = ({ subject_id: subjectId, seen_at: seenAt, ends_at: endsAt }: Row, nowMs: number): boolean =>
  nowMs < Date.parse(endsAt) && nowMs - Date.parse(seenAt) < lifetimeOf(subjectId).idleMs

/**
 * The signed fields: owner and permissions of a session. The last use is left out because it changes with every use.
 */
type Signed = Omit<Row, 'seen_at' | 'user_agent' | 'address' | 'signature'>

const fieldsOf = (row: Signed): RowFields => [
  row.session_id,
  row.hash.toString('hex'),
  row.subject_id,
  row.method,
  row.created_at,
  row.ends_at,
  row.confirmed_until,
  row.confirmed_act,
  row.viewing_account_id,
]

export const createSessionSigner = (
  keys: Pick<Keys, 'master'>,
): { readonly sign: (row: Signed) => Buffer; readonly isSigned: (row: Row) => boolean } => {
  const signer: RowSigner = createRowSigner(keys.master, 'console session v1')
  return {
    sign: (row) => signer.sign(fieldsOf(row)),
    isSigned: (row) => signer.isSigned(fieldsOf(row), row.signature),
  }
}

/**
 * Sessions. Each row is signed with a key derived from the master key, so that database access is not enough to create
 * a session or to change its owner or permissions. The log has whether a session was begun and not ended
 * (`createVisitors`).
 */
export const createSessions = ({
  pool,
  clock,
  keys,
  logger,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly keys: Pick<Keys, 'master'>
  readonly logger: Pick<Logger, 'error'>
}): Sessions => {
  const signer = createSessionSigner(keys)

  const isGenuine = (row: Row): boolean => {
    if (signer.isSigned(row)) return true
    // Rows without a signature are from a release before rows were signed.
    if (row.signature !== null)
      logger.error(
        { sessionId: row.session_id, subjectId: row.subject_id },
        'the row of a session was not written by the service: the session is refused',
      )
    return false
  }

  /**
   * Changes a row if it did not change since it was read, else tries again. @throws when the session ended or keeps
   * changing
   */
  const change = async (sessionId: string, changed: (row: Row) => Row): Promise<Row> => {
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const { rows } = await pool.query<Row>(
        'select * from vault.console_sessions where session_id = $1::text',
        [sessionId],
      )
      const [before] = rows
      if (!before || !isGenuine(before)) break
      const after = changed(before)
      const { rowCount } = await pool.query(
        `update vault.console_sessions
            set hash = $3::bytea, method = $4::text, confirmed_until = $5::timestamptz, confirmed_act = $6::text,
                viewing_account_id = $7::text, signature = $8::bytea
          where session_id = $1::text and signature = $2::bytea`,
        [
          sessionId,
          before.signature,
          after.hash,
          after.method,
          after.confirmed_until,
          after.confirmed_act,
          after.viewing_account_id,
          signer.sign(after),
        ],
      )
      if (rowCount === 1) return after
    }
    throw new Error(`session ${sessionId} ended while it was changed`)
  }

  return {
    open: async ({ subjectId, sessionId, method }, { userAgent, address }) => {
      const secret = newSecret()
      const nowMs = clock()
      const endsAtMs = nowMs + lifetimeOf(subjectId).wholeMs
      // Sign-in counts as a confirmation, except for staff with a passkey, who confirm each act.
      const confirmedUntil = isStaff(subjectId) && method === 'passkey' ? null : isoTime(nowMs + confirmedMs)
      const row: Signed = {
        session_id: sessionId,
        hash: hashOfSecret(secret)!,
        subject_id: subjectId,
        method,
        created_at: isoTime(nowMs),
        ends_at: isoTime(endsAtMs),
        confirmed_until: confirmedUntil,
        confirmed_act: null,
        viewing_account_id: null,
      }
      await pool.query(
        `with ended as (delete from vault.console_sessions where ends_at < $6::timestamptz)
         insert into vault.console_sessions (session_id, hash, subject_id, method, confirmed_until,
           created_at, seen_at, ends_at, user_agent, address, signature)
         values ($1::text, $2::bytea, $3::text, $4::text, $5::timestamptz, $6::timestamptz, $6::timestamptz,
           $7::timestamptz, $8::text, $9::text, $10::bytea)`,
        [
          sessionId,
          row.hash,
          subjectId,
          method,
          confirmedUntil,
          row.created_at,
          row.ends_at,
          userAgent.slice(0, maxAgentLength),
          address,
          signer.sign(row),
        ],
      )
      return { sessionId, secret, endsAtMs }
    },

    find: async (secret) => {
      const hash = hashOfSecret(secret)
      if (hash === null) return null
      const { rows } = await pool.query<Row>({
        name: 'find-console-session',
        text: 'select * from vault.console_sessions where hash = $1::bytea',
        values: [hash],
      })
      const [row] = rows
      const nowMs = clock()
      if (!row || !isAlive(row, nowMs) || !isGenuine(row)) return null
      if (nowMs - Date.parse(row.seen_at) >= seenUpdateMs)
        await pool.query(
          'update vault.console_sessions set seen_at = greatest(seen_at, $2::timestamptz) where session_id = $1::text',
          [row.session_id, isoTime(nowMs)],
        )
      return sessionOf(row)
    },

    renew: async (sessionId, { method, act }) => {
      const secret = newSecret()
      const row = await change(sessionId, (before) => ({
        ...before,
        hash: hashOfSecret(secret)!,
        method: method ?? before.method,
        confirmed_until: act === undefined ? null : isoTime(clock() + confirmedMs),
        confirmed_act: act ?? null,
      }))
      return { sessionId, secret, endsAtMs: Date.parse(row.ends_at) }
    },

    view: async (sessionId, account) => {
      await change(sessionId, (row) => ({ ...row, viewing_account_id: account }))
    },

    list: async (subjectId) => {
      const { rows } = await pool.query<Row>(
        'select * from vault.console_sessions where subject_id = $1::text order by session_id desc limit 200',
        [subjectId],
      )
      return rows.filter((row) => isAlive(row, clock())).map(sessionOf)
    },

    end: async (subjectId, sessionId) => {
      const { rows } = await pool.query<{ session_id: string }>(
        'delete from vault.console_sessions where session_id = $1::text and subject_id = $2::text returning session_id',
        [sessionId, subjectId],
      )
      return rows[0] ? { sessionId: rows[0].session_id } : null
    },

    endOthers: async (subjectId, currentSessionId) => {
      const { rows } = await pool.query<{ session_id: string }>(
        `delete from vault.console_sessions
        where subject_id = $1::text and session_id is distinct from $2::text returning session_id`,
        [subjectId, currentSessionId],
      )
      return rows.map(({ session_id }) => session_id)
    },
  }
}
