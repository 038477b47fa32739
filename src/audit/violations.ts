import type pg from 'pg'
import { violationFold } from '../domain/seals/events.ts'
import { decided } from '../kernel/decider.ts'
import type { Cause } from '../kernel/event.ts'
import type { AccountId } from '../kernel/ids.ts'
import { violationStream } from '../kernel/streams.ts'
import type { CommandRunner } from '../platform/commands/command.ts'
import { handle } from '../platform/commands/handle.ts'

/** An event that breaks a law, as the running server found it. */
export type Violation = {
  readonly position: number
  readonly eventId: string
  readonly eventType: string
  readonly stream: string
  readonly accountId: AccountId | null
  /** The law, e.g. `wallet-below-zero`. */
  readonly rule: string
  readonly problem: string
  /** What an operator decided about it; null while nobody did. */
  readonly decision: { readonly reason: string; readonly by: string; readonly at: string } | null
}

/** The law that an event breaks which no process signed as it stands. */
const signatureRule = 'signed-by-its-process'

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

/** What broke a law, in the order of the log; `open`: only what nobody decided about. */
export const listViolations = async (
  pool: Pick<pg.Pool, 'query'>,
  { open, limit }: { readonly open: boolean; readonly limit: number },
): Promise<readonly Violation[]> => {
  const { rows } = await pool.query<Row>(
    `select v.*, d.reason, d.decided_by, d.decided_at
       from (select position, event_id, event_type, stream, account_id, rule, problem from read.violations
             union all
             select position, event_id::text, event_type, stream, account_id, '${signatureRule}', problem
               from work.unsigned_events) v left join read.audit_decided d using (event_id, rule)
      where not $1::boolean or d.reason is null
      order by v.position, v.rule limit $2::int`,
    [open, limit],
  )
  return rows.map(toViolation)
}

export const violationText = ({ eventId, eventType, rule, problem }: Violation): string =>
  `${eventType} ${eventId} breaks ${rule}: ${problem}`

/** Records that an operator knows of a breach and why it stands. A second time does nothing. */
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
