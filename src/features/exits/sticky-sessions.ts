import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Targeting } from '../../domain/exits/line.ts'
import { writeTargeting } from '../../domain/exits/line.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'

/** The exit of a session. */
export type SessionPin = {
  /** `Candidate.key`. */
  readonly exitKey: string
  /** Increases each time that the session gets another exit. */
  readonly round: number
  readonly startedAtMs: number
  readonly expiresAtMs: number
  /** Its exit failed. The session is unusable until it ends. */
  readonly failed: boolean
}

export type SessionRef = {
  readonly key: string
  readonly holder: string
  readonly sessionId: string
}

/** A session belongs to a plan and a targeting: the same id with another city is another session. */
export const sessionRef = (holder: string, sessionId: string, targeting: Targeting): SessionRef => ({
  key: createHash('sha256')
    .update(JSON.stringify([holder, sessionId, writeTargeting(targeting)]))
    .digest('base64url')
    .slice(0, 27),
  holder,
  sessionId,
})

export type ProposedPin = Omit<SessionPin, 'failed'>

export type StickySessions = {
  /**
   * The session's exit. If it has none or has expired, `propose` is called with the former pin; null proposes nothing.
   * All processes get the same result, that of the first one. If Postgres does not answer within half a second, this
   * process uses its own proposal.
   */
  pin(
    session: SessionRef,
    propose: (storedPin: SessionPin | null) => ProposedPin | null,
  ): Promise<SessionPin | null>
  /** Its exit failed permanently. */
  fail(session: SessionRef): void
  /** Sessions that another process released or failed, or that got their next exit after that. */
  applyChanges(changed: readonly { readonly key: string; readonly pin: SessionPin }[]): void
  /** Resolves when the changes of this process are written. */
  flush(): Promise<void>
}

type Row = {
  readonly session_key: string
  readonly exit_key: string
  readonly round: number
  readonly started_at: string
  readonly expires_at: string
  readonly failed: boolean
}

export const pinOf = (row: Omit<Row, 'session_key'>): SessionPin => ({
  exitKey: row.exit_key,
  round: row.round,
  startedAtMs: Date.parse(row.started_at),
  expiresAtMs: Date.parse(row.expires_at),
  failed: row.failed,
})

const maxPins = 200_000
const answerWithinMs = 500
const columns = 'session_key, exit_key, round, started_at, expires_at, failed'
const iso = (ms: number): string => new Date(ms).toISOString()

export const createStickySessions = (dependencies: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}): StickySessions => {
  const { pool, clock, onError } = dependencies
  const pins = new LRUCache<string, SessionPin>({ max: maxPins })
  const proposals = new Map<string, SessionRef & { readonly proposal: ProposedPin }>()
  let pendingWrites: Promise<void> = Promise.resolve()

  const load = createBatchLoader<string, SessionPin>(async (keys) => {
    const { rows } = await pool.query<Row>({
      name: 'sticky-load',
      text: `select ${columns} from work.sticky_sessions where session_key = any ($1::text[])`,
      values: [keys],
    })
    return new Map(rows.map((row) => [row.session_key, pinOf(row)]))
  })

  const write = createBatchLoader<string, SessionPin>(async (keys) => {
    const proposedPins = [...keys].sort().flatMap((key) => proposals.get(key) ?? [])
    const { rows } = await pool.query<Row>({
      name: 'sticky-write',
      text: `
        insert into work.sticky_sessions as known
          (session_key, holder, session_id, exit_key, round, started_at, expires_at)
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::timestamptz[], $7::timestamptz[])
        on conflict (session_key) do update
          set exit_key = excluded.exit_key, round = excluded.round, started_at = excluded.started_at,
              expires_at = excluded.expires_at, failed = false,
              changed_at = case when known.changed_at is null then null else clock_timestamp() end
          where known.round < excluded.round
        returning ${columns}`,
      values: [
        proposedPins.map(({ key }) => key),
        proposedPins.map(({ holder }) => holder),
        proposedPins.map(({ sessionId }) => sessionId),
        proposedPins.map(({ proposal }) => proposal.exitKey),
        proposedPins.map(({ proposal }) => proposal.round),
        proposedPins.map(({ proposal }) => iso(proposal.startedAtMs)),
        proposedPins.map(({ proposal }) => iso(proposal.expiresAtMs)),
      ],
    })
    return new Map(rows.map((row) => [row.session_key, pinOf(row)]))
  })

  const withTimeout = async <Value>(work: Promise<Value>): Promise<Value> => {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('Postgres did not answer in time')), answerWithinMs)
    })
    try {
      return await Promise.race([work, timeout])
    } finally {
      clearTimeout(timer)
    }
  }

  const isExpired = (pin: SessionPin): boolean => pin.expiresAtMs <= clock()

  /**
   * The pin that all processes agree on; null when nothing is proposed.
   * @param limited limits the time of a statement
   */
  const agreeOnPin = async (
    session: SessionRef,
    propose: (storedPin: SessionPin | null) => ProposedPin | null,
    limited: <Value>(work: Promise<Value>) => Promise<Value>,
  ): Promise<SessionPin | null> => {
    const { key } = session
    const storedPin = (await limited(load(key))) ?? null
    if (storedPin && !isExpired(storedPin)) return storedPin
    const proposal = propose(storedPin)
    if (proposal === null) return null
    proposals.set(key, { ...session, proposal })
    try {
      const writtenPin = await limited(write(key))
      // Null from `write`: another process was first.
      return writtenPin ?? (await limited(load(key))) ?? { ...proposal, failed: false }
    } finally {
      proposals.delete(key)
    }
  }

  const markFailed = async (key: string, { round }: SessionPin): Promise<void> => {
    await pool.query(
      `update work.sticky_sessions set failed = true, changed_at = clock_timestamp()
        where session_key = $1::text and round = $2::int`,
      [key, round],
    )
  }

  /** Agrees later on a pin that this process chose while Postgres was slow, so that all processes end it together. */
  const agreeLater = async (session: SessionRef, proposal: ProposedPin): Promise<void> => {
    const { key } = session
    const pin = await agreeOnPin(
      session,
      () => proposal,
      (work) => work,
    )
    if (pin === null) return
    if (pins.peek(key)?.failed) await markFailed(key, pin)
    else pins.set(key, pin)
  }

  return {
    pin: async (session, propose) => {
      const cachedPin = pins.get(session.key) ?? null
      if (cachedPin && !isExpired(cachedPin)) return cachedPin
      let pin: SessionPin | null
      try {
        pin = await agreeOnPin(session, propose, withTimeout)
      } catch (error) {
        onError(error)
        const proposal = propose(cachedPin)
        pin = proposal && { ...proposal, failed: false }
        if (proposal) void agreeLater(session, proposal).catch(onError)
      }
      if (pin) pins.set(session.key, pin)
      return pin
    },
    fail: ({ key }) => {
      const pin = pins.get(key)
      if (!pin || pin.failed) return
      pins.set(key, { ...pin, failed: true })
      pendingWrites = pendingWrites.then(() => markFailed(key, pin)).catch(onError)
    },
    applyChanges: (changed) => {
      for (const { key, pin } of changed) {
        const cachedPin = pins.peek(key)
        if (cachedPin && cachedPin.round <= pin.round) pins.set(key, pin)
      }
    },
    flush: () => pendingWrites,
  }
}

/** The most sessions of one call. */
export const maxReleased = 1_000

/**
 * Ends sessions of a plan early. Their next connection gets another exit. Every process applies it within a second.
 * @param sessionIds null: all sessions of the plan
 * @returns how many were running
 */
export const releaseSessions = async (
  pool: pg.Pool,
  holder: string,
  sessionIds: readonly string[] | null,
  nowMs: number,
): Promise<number> => {
  const { rowCount } = await pool.query(
    `update work.sticky_sessions set expires_at = $3::timestamptz, changed_at = clock_timestamp()
      where holder = $1::text and ($2::text[] is null or session_id = any ($2::text[])) and expires_at > $3::timestamptz`,
    [holder, sessionIds, iso(nowMs)],
  )
  return rowCount ?? 0
}

/** Deletes sessions that ended more than a day ago. */
export const deleteExpiredSessions = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query('delete from work.sticky_sessions where expires_at < $1::timestamptz', [
    iso(nowMs - 24 * 60 * 60_000),
  ])
}
