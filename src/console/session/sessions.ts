import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { newId } from '../../kernel/ids.ts'
import type { Cause, SignInMethod } from '../../platform/eventstore/event.ts'
import { isStaff } from '../people/decide.ts'
import { lifetimeOf } from '../people/lifetime.ts'
import { hashOfSecret, newSecret } from './secret.ts'

const minuteMs = 60_000

/** How long a person who showed who they are need not show it again. */
export const confirmedMs = 5 * minuteMs
/** A use is written down at most once in this time. */
const seenEveryMs = minuteMs

/** Of the events of what is done in a session. */
export const sessionCause = (
  { subjectId, sessionId, method }: Pick<Session, 'subjectId' | 'sessionId' | 'method'>,
  requestId: string,
): Cause => ({ actor: { kind: 'session', subjectId, sessionId, method }, correlationId: requestId })

export type Session = {
  readonly sessionId: string
  /** An account, or a member of the staff. */
  readonly subjectId: string
  readonly method: SignInMethod
  readonly createdAt: string
  readonly seenAt: string
  readonly endsAt: string
  /** Until when acts need no second look; null: they need one. */
  readonly confirmedUntil: string | null
  /** The only act that it holds for; null: any. */
  readonly confirmedAct: string | null
  /** The account whose pages a member of the staff looks at. */
  readonly viewing: AccountId | null
  readonly userAgent: string
  readonly address: string
}

/** A session of this moment with the secret of its cookie, which is kept nowhere. */
export type Opened = { readonly sessionId: string; readonly secret: string; readonly endsAtMs: number }

/** Whose browser it is. */
export type Browser = { readonly userAgent: string; readonly address: string }

export type Sessions = {
  open(
    who: { readonly subjectId: string; readonly sessionId: string; readonly method: SignInMethod },
    browser: Browser,
  ): Promise<Opened>
  /** The session of a cookie, marked as used; null when it ended, or never was. */
  find(secret: string | null): Promise<Session | null>
  /** Gives the session another secret, so that one which somebody planted or saw opens nothing any more. */
  renew(
    sessionId: string,
    change: {
      readonly method?: SignInMethod
      /** The act that was confirmed. */
      readonly act?: string
    },
  ): Promise<Opened>
  view(sessionId: string, account: AccountId | null): Promise<void>
  /** Those that have not ended, the newest first. */
  list(subjectId: string): Promise<readonly Session[]>
  /** Ends one of a person's sessions; null when it is not theirs or is over. */
  end(subjectId: string, sessionId: string): Promise<{ readonly sessionId: string } | null>
  /** Ends all of a person's but one; gives their ids. */
  endOthers(subjectId: string, keep: string | null): Promise<readonly string[]>
}

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
