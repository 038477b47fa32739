import type pg from 'pg'
import type { EventLog } from '../../platform/eventstore/port.ts'

const unknownLogId = '00000000-0000-0000-0000-000000000000'

const orElse =
  <Value>(read: () => Promise<Value>, instead: () => Promise<Value>) =>
  (): Promise<Value> =>
    read().catch((error: Error) =>
      // The other read of a database that does not answer fails, too, and the first error says more.
      instead().catch(() => {
        throw error
      }),
    )

/**
 * A log in Postgres whose `log.head` may be missing or unreadable: the checkpoints have the id of the log, too, and its
 * last event is its end. The checks of the guards and of the head report what is wrong.
 */
export const examinedLog = (log: EventLog, pool: pg.Pool): EventLog => ({
  ...log,
  logId: orElse(log.logId, () =>
    orElse(
      async () => {
        const { rows } = await pool.query<{ log_id: string }>(
          'select log_id from engine.checkpoints order by name limit 1',
        )
        return rows[0]?.log_id ?? unknownLogId
      },
      async () => {
        await pool.query('select')
        return unknownLogId
      },
    )(),
  ),
  head: orElse(log.head, async () => (await log.readBefore(Number.MAX_SAFE_INTEGER, 1))[0]?.position ?? 0),
})
