import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'

/**
 * A delivery waits when it is due later than this: one that is due within a second is as good as on its way. So two calls
 * at once, whose instants are not the same, take each delivery once.
 */
export const waitsAfter = (now: string): string => `${now}::timestamptz + interval '1 second'`

/**
 * Deliveries that wait for their next attempt are due now; what is under way or finished stays as it is. One whose row is
 * locked is being put on record just now and is left alone. Gives how many there were.
 *
 * Due times are rows and no facts, so nothing is appended: the attempt that follows is the next of its round.
 */
export const hasten = async (
  pool: pg.Pool,
  endpointId: string,
  deliveryIds: readonly string[],
  nowMs: number,
): Promise<number> => {
  const { rows } = await pool.query<{ hastened: number }>({
    name: 'webhooks-hasten',
    text: `with waiting as (
             select delivery_id from work.webhook_deliveries
              where delivery_id = any ($2::text[]) and endpoint_id = $1::text
                and status = 'pending' and due_at > ${waitsAfter('$3')}
              order by delivery_id for update skip locked
           ), due as (
             update work.webhook_deliveries d set due_at = $3::timestamptz
               from waiting where d.delivery_id = waiting.delivery_id returning d.delivery_id
           )
           select count(*) as hastened from due`,
    values: [endpointId, deliveryIds, isoTime(nowMs)],
  })
  return rows[0]?.hastened ?? 0
}
