import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import type { Outcome } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  type FoundChange,
  type Gateways,
  GatewayUnavailable,
  type Inbox,
  type InboxEntry,
  UnreadableAnswer,
} from '../payments/index.ts'

/** The polling interval of a gateway. A bank leaves a week or more to answer a dispute, so an hour is soon enough. */
const pauseMs = 3_600_000
/** Card networks close a dispute within about three months of its opening, so the outcome is known by then. */
const disputeWindowMs = 120 * 24 * 60 * 60 * 1000

/** The most known changes that one search takes again. The provider lists the newest first. */
const maxTakenAgain = 20
const maxRemembered = 50_000

type GatewayRow = { readonly gateway_id: string; readonly attempts: number }

/** Gateways that ever received money. Each is its own owner, and no search is the last one. */
export const disputeQueue: QueueTable = {
  name: 'dispute-looks',
  table: 'work.dispute_looks',
  key: ['gateway_id'],
  owner: 'gateway_id',
  longestWaitMs: pauseMs,
  columns: [],
  failed: `d.result not like '% found'`,
}

const findGateways = async (pool: pg.Pool, nowMs: number): Promise<void> => {
  await pool.query({
    name: 'find-gateways-to-ask-for-disputes',
    text: `insert into work.dispute_looks as look (gateway_id, due_at)
           select distinct gateway_id, $1::timestamptz from read.deposits where credited_micros > 0
           on conflict (gateway_id) do update set status = 'pending', due_at = excluded.due_at, finished_at = null
             where look.status <> 'pending'`,
    values: [isoTime(nowMs)],
  })
}

export const disputeWorker = worker({
  name: disputeQueue.name,
  about: 'Asks payment gateways for disputes and refunds whose callbacks were lost',
  trigger: { everyMs: 600_000 },
  per: 'process',
  process: 'server',
})

/**
 * Finds disputes whose callbacks were lost. It asks each gateway once an hour for disputes and refunds of the last 120
 * days that moved money, and stores each, in each of its states, in the inbox of callbacks. They are processed as
 * callbacks: a change that an earlier callback booked moves nothing.
 *
 * The inbox is no proof that a change was booked, because SQL can mark a row as processed. So each process takes every
 * change that it finds again once, a few in each search.
 */
export const startDisputeReactor = (dependencies: {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly gateways: Pick<Gateways, 'byId'>
  readonly inbox: Pick<Inbox, 'store'>
  /** Asks the provider about a change and books it. */
  readonly take: (change: Pick<InboxEntry, 'gateway_id' | 'reference'>) => Promise<string>
  readonly clock: Clock
  readonly logger: Logger
  /** The longest interval of the search for gateways; at most ten minutes. */
  readonly firstPollMs: number
}): RunningQueue => {
  const { workers, pool, gateways, inbox, take, clock, logger, firstPollMs } = dependencies
  /** The changes that this process took, by gateway and event id. */
  const taken = new LRUCache<string, true>({ max: maxRemembered })
  const takeAgain = async (gatewayId: string, known: readonly FoundChange[]): Promise<void> => {
    const keyOf = ({ eventId }: FoundChange): string => `${gatewayId} ${eventId}`
    for (const change of known.filter((each) => !taken.has(keyOf(each))).slice(0, maxTakenAgain)) {
      try {
        await take({ gateway_id: gatewayId, reference: change.reference })
      } catch (error) {
        if (!(error instanceof UnreadableAnswer)) throw error
        logger.warn({ err: error, gatewayId }, 'a dispute or a refund cannot be read')
      }
      taken.set(keyOf(change), true)
    }
  }
  const searchChanges = async ({ gateway_id: gatewayId }: GatewayRow): Promise<Outcome> => {
    try {
      const liveGateway = await gateways.byId(gatewayId)
      if (!liveGateway) return { kind: 'again', why: 'the gateway is gone' }
      let foundCount = 0
      const known: FoundChange[] = []
      for (const change of await liveGateway.gateway.changesSince(clock() - disputeWindowMs)) {
        const { reference } = change
        if (!(await inbox.store(gatewayId, change))) {
          known.push(change)
          continue
        }
        foundCount += 1
        logger.info({ gatewayId, reference }, 'a dispute or a refund was found')
      }
      await takeAgain(gatewayId, known)
      return { kind: 'again', why: `${foundCount} found` }
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, gatewayId }, 'a payment gateway did not tell its disputes')
      return { kind: 'again', why: 'no answer' }
    }
  }
  return workers.start<GatewayRow>({
    worker: disputeWorker,
    queue: disputeQueue,
    atOnce: { total: 10, each: 1 },
    longestMs: 60_000,
    schedule: () => pauseMs,
    pollMs: Math.min(disputeWorker.trigger.everyMs, firstPollMs),
    fill: () => findGateways(pool, clock()),
    work: searchChanges,
  })
}
