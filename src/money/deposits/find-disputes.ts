import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { RunningQueue } from '../../platform/work/queue/engine.ts'
import type { Outcome } from '../../platform/work/queue/standard.ts'
import type { QueueTable } from '../../platform/work/queue/table.ts'
import type { Workers } from '../../platform/work/queue/workers.ts'
import type { Inbox } from '../payments/inbox.ts'
import { type Gateways, GatewayUnavailable } from '../payments/port.ts'

/** A gateway is asked this often. A bank leaves a week or more to answer a dispute, so nothing is late within an hour. */
const pauseMs = 3_600_000
/** Who has the money is decided by then: card networks close a dispute within about three months of its opening. */
const followedMs = 120 * 24 * 60 * 60 * 1000
const longestIntervalMs = 600_000

type Asked = { readonly gateway_id: string; readonly attempts: number }

/** Gateways that ever brought money, each its own owner. */
export const disputeQueue: QueueTable = {
  name: 'dispute-looks',
  table: 'work.dispute_looks',
  key: ['gateway_id'],
  owner: 'gateway_id',
  columns: [],
}

const findGateways = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query({
    name: 'find-gateways-to-ask-for-disputes',
    text: `insert into work.dispute_looks (gateway_id, due_at)
           select distinct gateway_id, $1::timestamptz from read.deposits where credited_micros > 0
           on conflict do nothing`,
    values: [isoTime(nowMs)],
  })
}

/**
 * Finds disputes whose callbacks were lost: asks each gateway once an hour for those of the last 120 days that moved
 * money, and stores each, in each of its states, in the inbox of callbacks. From there it goes the way of a callback
 * that arrived, and moves nothing that one moved before.
 */
export const startDisputeReactor = (deps: {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly gateways: Pick<Gateways, 'byId'>
  readonly inbox: Pick<Inbox, 'store'>
  readonly clock: Clock
  readonly logger: Logger
  /** Gateways are looked for no more seldom than this, nor than every ten minutes. */
  readonly firstLookMs: number
}): RunningQueue => {
  const { workers, pool, gateways, inbox, clock, logger, firstLookMs } = deps
  const ask = async ({ gateway_id: gatewayId }: Asked): Promise<Outcome> => {
    try {
      const live = await gateways.byId(gatewayId)
      if (!live) return { kind: 'again', why: 'the gateway is gone' }
      let found = 0
      for (const dispute of await live.gateway.disputesSince(clock() - followedMs)) {
        const { reference } = dispute
        if (!(await inbox.store(gatewayId, dispute))) continue
        found += 1
        logger.info({ gatewayId, reference }, 'a dispute was found')
      }
      return { kind: 'again', why: `${found} found` }
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, gatewayId }, 'a payment gateway did not tell its disputes')
      return { kind: 'again', why: 'no answer' }
    }
  }
  return workers.start<Asked>({
    queue: disputeQueue,
    atOnce: { total: 10, each: 1 },
    longestMs: 60_000,
    schedule: () => pauseMs,
    pollMs: Math.min(longestIntervalMs, firstLookMs),
    fill: () => findGateways(pool, clock()),
    work: ask,
  })
}
