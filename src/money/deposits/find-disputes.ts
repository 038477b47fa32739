import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { type Poller, startPoller, throwThose } from '../../platform/work/poller.ts'
import type { Inbox } from '../payments/inbox.ts'
import { type Gateways, GatewayUnavailable } from '../payments/port.ts'

const maxGatewaysARun = 50
const atOnce = 10
/** A gateway is asked this often. A bank leaves a week or more to answer a dispute, so nothing is late within an hour. */
const pauseS = 3_600
/** Who has the money is decided by then: card networks close a dispute within about three months of its opening. */
const followedMs = 120 * 24 * 60 * 60 * 1000
const longestIntervalMs = 600_000

/** Gateways that ever brought money and whose turn it is, each for this process alone until its next turn. */
const claimDue = async (pool: pg.Pool, nowMs: number): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ gateway_id: string }>({
    name: 'claim-gateways-to-ask-for-disputes',
    text: `insert into work.dispute_looks as look (gateway_id, next_at)
           select g.gateway_id, $1::timestamptz + make_interval(secs => ${pauseS})
             from (select distinct gateway_id from read.deposits where credited_micros > 0) g
             left join work.dispute_looks l using (gateway_id)
            where l.next_at is null or l.next_at <= $1::timestamptz
            order by l.next_at nulls first limit ${maxGatewaysARun}
           on conflict (gateway_id) do update set next_at = excluded.next_at
           where look.next_at <= $1::timestamptz
           returning gateway_id`,
    values: [isoTime(nowMs)],
  })
  return rows.map(({ gateway_id }) => gateway_id)
}

/**
 * Finds disputes whose callbacks were lost: asks each gateway once an hour for those of the last 120 days that moved
 * money, and stores each, in each of its states, in the inbox of callbacks. From there it goes the way of a callback
 * that arrived, and moves nothing that one moved before.
 */
export const startDisputeReactor = (deps: {
  readonly pool: pg.Pool
  readonly gateways: Pick<Gateways, 'byId'>
  readonly inbox: Pick<Inbox, 'store'>
  readonly clock: Clock
  readonly logger: Logger
  /** The rounds are no further apart than this, nor than ten minutes. */
  readonly firstLookMs: number
}): Poller => {
  const { pool, gateways, inbox, clock, logger, firstLookMs } = deps
  const ask = async (gatewayId: string): Promise<void> => {
    try {
      const live = await gateways.byId(gatewayId)
      if (!live) return
      for (const dispute of await live.gateway.disputesSince(clock() - followedMs)) {
        const { reference } = dispute
        if (await inbox.store(gatewayId, dispute))
          logger.info({ gatewayId, reference }, 'a dispute was found')
      }
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, gatewayId }, 'a payment gateway did not tell its disputes')
    }
  }
  const work = async (): Promise<void> => {
    const queue = (await claimDue(pool, clock())).values()
    const failures: unknown[] = []
    const asking = async (): Promise<void> => {
      // A turn that was claimed is taken: the next one is an hour away.
      for (const gatewayId of queue) await ask(gatewayId).catch((error) => void failures.push(error))
    }
    await Promise.all(Array.from({ length: atOnce }, asking))
    throwThose(failures)
  }
  const intervalMs = Math.min(longestIntervalMs, firstLookMs)
  return startPoller({ name: 'disputes', intervalMs, work, logger })
}
