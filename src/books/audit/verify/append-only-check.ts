import type pg from 'pg'
import type { Findings } from './finding.ts'

/** What only the log's own Postgres can tell. */
type Facts = {
  readonly unread: number
  readonly head: number
  readonly last: number
}

/**
 * The log in Postgres holds no event where no reader by position would see it (it would still be read by its stream),
 * and its head is its last event. Whether the triggers that refuse changes stand: guard-check.ts.
 */
export const checkAppendOnly = async (pool: pg.Pool, findings: Findings): Promise<void> => {
  // One statement sees one state of the log.
  const { rows } = await pool.query<Facts>(
    `select (select count(*) from log.events where position < 1 or position > h.last_position) as unread,
            h.last_position as head,
            coalesce((select max(position) from log.events), 0) as last
       from log.head h`,
  )
  const say = (problem: string): void => findings.add({ where: 'log', check: 'append-only', problem })
  const [facts] = rows
  if (facts === undefined) return say('the row of its head is gone')
  const { unread, head, last } = facts
  if (unread > 0) say(`${unread} events stand at positions outside of 1 to ${head}, where no reader looks`)
  if (last !== head) say(`its head is at position ${head}, its last event at ${last}`)
}
