import type pg from 'pg'
import { violationFold } from '../domain/seals/events.ts'
import { decided } from '../kernel/decider.ts'
import type { Cause } from '../kernel/event.ts'
import type { AccountId } from '../kernel/ids.ts'
import { parseUntrustedObject } from '../kernel/json-text.ts'
import { violationStream } from '../kernel/streams.ts'
import type { CommandRunner } from '../platform/commands/command.ts'
import { handle } from '../platform/commands/command.ts'
import type { EventLog } from '../platform/eventstore/port.ts'

/** An event that violates an invariant, as the running server found it. */
export type Violation = {
  readonly position: number
  readonly eventId: string
  readonly eventType: string
  readonly stream: string
  readonly accountId: AccountId | null
  /** The invariant, e.g. `wallet-below-zero`. */
  readonly rule: string
  readonly problem: string
  /** An operator's acknowledgement; null without one. */
  readonly decision: { readonly reason: string; readonly by: string; readonly at: string } | null
}

/** A violation that no operator acknowledged: the log is not sealed. The message contains the next step. */
export class UnresolvedViolation extends Error {
  override readonly name = 'UnresolvedViolation'
}

/** The rule that an event violates when no process signed it as it is. */
export const signatureRule = 'signed-by-its-process'

type Row = {
  position: number
  event_id: string
  event_type: string
  stream: string
  account_id: AccountId | null
  rule: string
  problem: string
  reason: string | null
  decided_by: string | null
  decided_at: string | null
}

const toViolation = (row: Row): Violation => ({
  position: row.position,
  eventId: row.event_id,
  eventType: row.event_type,
  stream: row.stream,
  accountId: row.account_id,
  rule: row.rule,
  problem: row.problem,
  decision:
    row.reason === null ? null : { reason: row.reason, by: row.decided_by ?? '', at: row.decided_at ?? '' },
})

const violationsSql = `
  (select position, event_id, event_type, stream, account_id, rule, problem from read.violations
   union all
   select position, event_id::text, event_type, stream, account_id, '${signatureRule}', problem
     from work.unsigned_events) v left join read.audit_decided d using (event_id, rule)`

/** A violation's position in the order of the log. */
type Cursor = Pick<Violation, 'position' | 'rule'>

/** Violations in the order of the log, for display. Callers that process all violations use `eachViolation`. */
export const listViolations = async (
  pool: Pick<pg.Pool, 'query'>,
  {
    open,
    limit,
    after = null,
  }: {
    /** Only unacknowledged violations. */
    readonly open: boolean
    readonly limit: number
    /** Only violations after this one. */
    readonly after?: Cursor | null
  },
): Promise<readonly Violation[]> => {
  const { rows } = await pool.query<Row>(
    `select v.*, d.reason, d.decided_by, d.decided_at from ${violationsSql}
      where (not $1::boolean or d.reason is null)
        and ($3::bigint is null or (v.position, v.rule) > ($3::bigint, $4::text))
      order by v.position, v.rule limit $2::int`,
    [open, limit, after?.position ?? null, after?.rule ?? null],
  )
  return rows.map(toViolation)
}

const pageSize = 1_000

/** All violations of events at or after a position, in the order of the log. Reads page by page. */
export const eachViolation = async function* (
  pool: Pick<pg.Pool, 'query'>,
  { open, from = 0 }: { readonly open: boolean; readonly from?: number },
): AsyncGenerator<Violation> {
  for (let after: Cursor = { position: from, rule: '' }; ; ) {
    const page: readonly Violation[] = await listViolations(pool, { open, limit: pageSize, after })
    yield* page
    after = page.at(-1) ?? after
    if (page.length < pageSize) return
  }
}

/** Whether an operator acknowledged the violation. Reads the log, not a table. */
export const isAcknowledged = async (
  log: Pick<EventLog, 'readStream'>,
  { eventId, rule }: Pick<Violation, 'eventId' | 'rule'>,
): Promise<boolean> => {
  for await (const { type, data } of log.readStream(violationStream(eventId)))
    if (type === 'LawBreachDecided' && parseUntrustedObject<{ rule: unknown }>(data)?.rule === rule)
      return true
  return false
}

export type OpenViolations = {
  readonly count: number
  /** The first of them in the order of the log. */
  readonly first: Violation | null
  /** Changes when an open violation is added or removed. */
  readonly digest: string
}

export const readOpenViolations = async (pool: Pick<pg.Pool, 'query'>): Promise<OpenViolations> => {
  const { rows } = await pool.query<{ count: number; digest: string }>(
    `select count(*)::int as count, coalesce(sum(hashtextextended(event_id || ' ' || rule, 0)), 0)::text as digest
       from ${violationsSql} where d.reason is null`,
  )
  const { count, digest } = rows[0]!
  const [first = null] = count === 0 ? [] : await listViolations(pool, { open: true, limit: 1 })
  return { count, digest: `${count} ${digest}`, first }
}

/** The next step for open violations, for an alarm; null when there are none. */
export const openViolationsText = ({
  count,
  first,
}: Pick<OpenViolations, 'count' | 'first'>): string | null => {
  if (first === null) return null
  const more = count <= 1 ? '' : `, and ${count - 1} more`
  return `${violationText(first)}${more}; "farebox ledger breaches" lists them, "farebox ledger decide" acknowledges them`
}

export const violationText = ({
  eventId,
  eventType,
  rule,
  problem,
}: Pick<Violation, 'eventId' | 'eventType' | 'rule' | 'problem'>): string =>
  `${eventType} ${eventId} breaks ${rule}: ${problem}`

/** Records that an operator acknowledges a violation, and the reason. A repeated call does nothing. */
export const acknowledgeViolation = async (
  runner: CommandRunner,
  { eventId, rule }: Pick<Violation, 'eventId' | 'rule'>,
  reason: string,
  cause: Cause,
): Promise<void> => {
  await handle(
    runner,
    { ...cause, name: 'decide-breach' },
    { stream: violationStream(eventId), fold: violationFold },
    (state) =>
      state.includes(rule)
        ? decided()
        : decided({ type: 'LawBreachDecided', data: { eventId, rule, reason } }),
  )
}
