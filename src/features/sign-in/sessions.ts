import type pg from 'pg'
import { isStaff, lifetimeOf } from '../../domain/staff/decide.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { SignInMethod } from '../../kernel/event.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import type { Session, Sessions } from '../../platform/ui/session.ts'
import { hashOfSecret, newSecret } from '../../platform/vault/secrets.ts'

const minuteMs = 60_000

/** How long a person who showed who they are need not show it again. */
export const confirmedMs = 5 * minuteMs
/** A use is written down at most once in this time. */
const seenEveryMs = minuteMs

type Row = {
  readonly session_id: string
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

/** The id of a session that is about to be opened: its event is written first. */
export const newSessionId = (subjectId: string): string => newId<string>('ses', subjectId)

const maxAgentLength = 300

/** Whether the session is used often enough and not too old. A clock that was set back makes it no older. */
const lives = ({ subject_id: subjectId, seen_at: seenAt, ends_at: endsAt }: Row, nowMs: number): boolean =>
  nowMs < Date.parse(endsAt) && nowMs - Date.parse(seenAt) < lifetimeOf(subjectId).idleMs

export const createSessions = ({
  pool,
  clock,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
}): Sessions => ({
  open: async ({ subjectId, sessionId, method }, { userAgent, address }) => {
    const secret = newSecret()
    const nowMs = clock()
    const endsAtMs = nowMs + lifetimeOf(subjectId).wholeMs
    // Whoever signs in has just shown who they are; staff with a passkey shows it for each act.
    const confirmedUntil = isStaff(subjectId) && method === 'passkey' ? null : isoTime(nowMs + confirmedMs)
    await pool.query(
      `with ended as (delete from vault.console_sessions where ends_at < $6::timestamptz)
       insert into vault.console_sessions (session_id, hash, subject_id, method, confirmed_until,
         created_at, seen_at, ends_at, user_agent, address)
       values ($1::text, $2::bytea, $3::text, $4::text, $5::timestamptz, $6::timestamptz, $6::timestamptz,
         $7::timestamptz, $8::text, $9::text)`,
      [
        sessionId,
        hashOfSecret(secret),
        subjectId,
        method,
        confirmedUntil,
        isoTime(nowMs),
        isoTime(endsAtMs),
        userAgent.slice(0, maxAgentLength),
        address,
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
    if (!row || !lives(row, nowMs)) return null
    if (nowMs - Date.parse(row.seen_at) >= seenEveryMs)
      await pool.query(
        'update vault.console_sessions set seen_at = greatest(seen_at, $2::timestamptz) where session_id = $1::text',
        [row.session_id, isoTime(nowMs)],
      )
    return sessionOf(row)
  },

  renew: async (sessionId, { method, act }) => {
    const secret = newSecret()
    const { rows } = await pool.query<{ ends_at: string }>(
      `update vault.console_sessions
          set hash = $2::bytea, method = coalesce($3::text, method),
              confirmed_until = case when $4::text is null then null else $5::timestamptz end,
              confirmed_act = $4::text
        where session_id = $1::text returning ends_at`,
      [sessionId, hashOfSecret(secret), method ?? null, act ?? null, isoTime(clock() + confirmedMs)],
    )
    const [row] = rows
    if (!row) throw new Error(`session ${sessionId} ended while it was renewed`)
    return { sessionId, secret, endsAtMs: Date.parse(row.ends_at) }
  },

  view: async (sessionId, account) => {
    await pool.query(
      'update vault.console_sessions set viewing_account_id = $2::text where session_id = $1::text',
      [sessionId, account],
    )
  },

  list: async (subjectId) => {
    const { rows } = await pool.query<Row>(
      'select * from vault.console_sessions where subject_id = $1::text order by session_id desc limit 200',
      [subjectId],
    )
    return rows.filter((row) => lives(row, clock())).map(sessionOf)
  },

  end: async (subjectId, sessionId) => {
    const { rows } = await pool.query<{ session_id: string }>(
      'delete from vault.console_sessions where session_id = $1::text and subject_id = $2::text returning session_id',
      [sessionId, subjectId],
    )
    return rows[0] ? { sessionId: rows[0].session_id } : null
  },

  endOthers: async (subjectId, keep) => {
    const { rows } = await pool.query<{ session_id: string }>(
      `delete from vault.console_sessions
        where subject_id = $1::text and session_id is distinct from $2::text returning session_id`,
      [subjectId, keep],
    )
    return rows.map(({ session_id }) => session_id)
  },
})
