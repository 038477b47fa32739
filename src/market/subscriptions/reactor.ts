import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { OrderId, SubscriptionId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { handlersTimeMs, inTurns, type Poller, startPoller, workOnEach } from '../../platform/work/poller.ts'
import { readOrder } from '../orders/read-order.ts'
import type { Renewals } from './renewals.ts'
import type { Subscriptions } from './service.ts'

const maxARun = 200
const atOnce = 8

type OpenPeriod = { readonly order_id: OrderId; readonly opened_at: string }
type Due = { readonly subscription_id: SubscriptionId; readonly due_at: string }

/**
 * Renews, cancels and expires subscriptions when they are due, and tells subscriptions of periods that a crash left
 * paid and unheard of. Several processes may run it.
 */
export const startRenewals = (deps: {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly subscriptions: Subscriptions
  readonly renewals: Renewals
  /** Brings prices and terms up to date; called only when something is due. */
  readonly refresh: () => Promise<void>
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): Poller => {
  const { pool, log, subscriptions, renewals, refresh, clock, logger } = deps

  const open = inTurns<OpenPeriod>(maxARun, async (after) => {
    const { rows } = await pool.query<OpenPeriod>({
      name: 'open-periods',
      text: `select order_id, opened_at from read.open_periods
              where opened_at <= $1::timestamptz
                and (opened_at, order_id) > (coalesce($2::timestamptz, '-infinity'), $3::text)
              order by opened_at, order_id limit ${maxARun}`,
      values: [isoTime(clock() - handlersTimeMs), after?.opened_at ?? null, after?.order_id ?? ''],
    })
    return rows
  })

  const finishOpen = async (): Promise<void> => {
    await workOnEach(await open(), async ({ order_id: orderId }) => {
      const order = await readOrder(log, orderId)
      if (order) await subscriptions.finish(order)
    })
  }

  const due = inTurns<Due>(maxARun, async (after) => {
    const { rows } = await pool.query<Due>({
      name: 'subscriptions-due',
      text: `
        select s.subscription_id, s.due_at
          from read.subscriptions s
          left join work.renewals r on r.subscription_id = s.subscription_id
                                   and r.period_start = s.current_period_end
          left join read.balances b on b.account_id = s.account_id
         where s.ended_as is null and s.due_at <= $1::timestamptz
           and (s.cancel_at_period_end or r.subscription_id is null or r.retry_at <= $1::timestamptz
                or b.available_micros >= r.needed_micros)
           and (s.due_at, s.subscription_id) > (coalesce($2::timestamptz, '-infinity'), $3::text)
         order by s.due_at, s.subscription_id limit ${maxARun}`,
      values: [isoTime(clock()), after?.due_at ?? null, after?.subscription_id ?? ''],
    })
    return rows
  })

  const renewDue = async (): Promise<void> => {
    const waiting = (await due()).map(({ subscription_id: id }) => id)
    if (waiting.length === 0) return
    await refresh()
    let failure: { readonly error: unknown } | null = null
    const worker = async (): Promise<void> => {
      for (let id = waiting.pop(); id !== undefined; id = waiting.pop())
        // One that cannot be decided now holds up no other.
        await renewals.renew(id).catch((error) => {
          failure = { error }
          logger.error({ err: error, subscriptionId: id }, 'a subscription could not be looked at')
        })
    }
    await Promise.all(Array.from({ length: atOnce }, worker))
    if (failure) throw (failure as { readonly error: unknown }).error
  }
  const work = (): Promise<void> => workOnEach([finishOpen, renewDue], (step) => step())
  return startPoller({ name: 'renewals', intervalMs: deps.intervalMs ?? 1_000, work, logger })
}
