import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../clock.ts'
import { type DepositId, newId } from '../ids.ts'
import { GatewayUnavailable } from '../payments/port.ts'
import { type Poller, startPoller } from '../reactors/poller.ts'
import { type Deposits, invoiceTimeMs } from './service.ts'

const maxLooksAtOnce = 50
/** Side by side, so that one provider that hangs does not hold up the payments of all others. */
const atOnce = 10
const maxPauseS = 3_600

/**
 * Deposits that may still take money and whose turn it is, each for this process alone until its next turn. When more are
 * due than can be asked for, those come first that are late by the largest share of their pause: a young deposit a minute
 * late is more likely to have been paid than a two weeks old one that is late by ten.
 */
const claimDue = async (pool: pg.Pool, nowMs: number, firstLookMs: number): Promise<readonly DepositId[]> => {
  const { rows } = await pool.query<{ deposit_id: DepositId }>({
    name: 'claim-deposits-to-look-at',
    text: `insert into work.deposit_looks as look (deposit_id, looks, next_at)
           select deposit_id, looks + 1,
                  $1::timestamptz + make_interval(secs => least(${maxPauseS}, $2::float8 * (looks + 1)))
             from (select d.deposit_id, coalesce(l.looks, 0) looks,
                          coalesce(l.next_at, d.opened_at + make_interval(secs => $2::float8)) due_at
                     from read.deposits d left join work.deposit_looks l using (deposit_id)
                    where d.watch_until >= $1::timestamptz) watched
            where due_at <= $1::timestamptz
            order by extract(epoch from $1::timestamptz - due_at)
                     / least(${maxPauseS}, $2::float8 * greatest(1, looks)) desc
            limit ${maxLooksAtOnce}
           on conflict (deposit_id) do update set looks = excluded.looks, next_at = excluded.next_at
           where look.next_at <= $1::timestamptz
           returning deposit_id`,
    values: [isoTime(nowMs), firstLookMs / 1000],
  })
  return rows.map(({ deposit_id }) => deposit_id)
}

/**
 * Finds payments whose callbacks were lost: asks the provider of every deposit that it may still take money for, first
 * after `firstLookMs`, then ever more seldom, at least once an hour, until the provider watches it no more. A backlog is
 * worked off without a pause, ten deposits at a time.
 */
export const startDepositReactor = (deps: {
  readonly pool: pg.Pool
  readonly deposits: Pick<Deposits, 'settle' | 'abandon'>
  readonly clock: Clock
  readonly logger: Logger
  readonly firstLookMs: number
}): Poller => {
  const { pool, deposits, clock, logger, firstLookMs } = deps
  const actor = { kind: 'system', name: 'deposits' } as const
  const look = async (depositId: DepositId): Promise<void> => {
    const cause = { actor, correlationId: newId('run') }
    try {
      const deposit = await deposits.settle(depositId, cause)
      if (deposit && !deposit.invoice && Date.parse(deposit.openedAt) + invoiceTimeMs <= clock())
        await deposits.abandon(depositId, cause)
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, depositId }, 'a payment gateway did not answer for a deposit')
    }
  }
  let stopped = false
  const work = async (): Promise<void> => {
    let claimed: number
    do {
      const due = await claimDue(pool, clock(), firstLookMs)
      claimed = due.length
      const queue = due.values()
      const looking = async (): Promise<void> => {
        for (const depositId of queue) await look(depositId)
      }
      await Promise.all(Array.from({ length: atOnce }, looking))
    } while (claimed === maxLooksAtOnce && !stopped)
  }
  const poller = startPoller({ name: 'deposits', intervalMs: Math.min(5_000, firstLookMs), work, logger })
  return {
    ...poller,
    stop: () => {
      stopped = true
      return poller.stop()
    },
  }
}
