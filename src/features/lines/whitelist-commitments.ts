import type { Targeting } from '../../domain/exits/line.ts'
import { type WhitelistState, whitelistRef } from '../../domain/plans/whitelist.ts'
import type { AccountId, PlanId } from '../../kernel/ids.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import { createLogStates, type LogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { commitmentOf, saltedText } from '../../platform/vault/seal.ts'

/** The part of a `vault.whitelist` row that grants access. */
export type EntryRow = {
  readonly entry_id: string
  readonly account_id: AccountId
  readonly plan_id: PlanId
  /** As Postgres writes it, e.g. `203.0.113.7/32`. */
  readonly network: string
  readonly targeting: Targeting | null
  /** Null for an entry without a commitment in an event. */
  readonly salt: Buffer | null
}

/** The columns of an `EntryRow`. */
export const entryColumns = 'entry_id, account_id, plan_id, network::text, targeting, salt'

/** The commitment for a row; null if it has no salt. */
export const entryCommitment = (row: EntryRow): string | null =>
  row.salt &&
  commitmentOf(
    { what: 'whitelist-entry', id: row.entry_id, owner: row.account_id },
    saltedText(
      row.salt,
      row.plan_id,
      row.network,
      row.targeting === null ? '' : canonicalJson(row.targeting),
    ),
  )

/** Whether the log currently allows a row. */
export type IsAllowed = (row: EntryRow) => Promise<boolean>

/**
 * Compares rows with the log. Rows that were written or changed with SQL, or restored after a removal, are not allowed.
 */
export const createIsAllowed = (log: Pick<EventLog, 'readStreams'>): IsAllowed => {
  const states: LogStates<WhitelistState> = createLogStates(log, (owner) => whitelistRef(owner as AccountId))
  return async (row) => {
    const commitment = entryCommitment(row)
    return commitment !== null && (await states(row.account_id)).state.has(commitment)
  }
}
