import type pg from 'pg'
import type { Logger } from 'pino'
import type { Deposit } from '../../domain/deposits/fold.ts'
import type { DisputeReport } from '../../domain/payments/payments.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import type { Outcome } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import { type Gateways, GatewayUnavailable, type Inbox } from '../payments/index.ts'
import type { ManualMovementAnswer, Wallets } from '../wallet/index.ts'

/** What a movement moved, now or when it was asked for before; null when it never moved, and why. */
const movedMicros = (answer: ManualMovementAnswer): number | { readonly refused: string } => {
  if (answer.outcome === 'applied') return answer.amountMicros
  // The service's own movements are never proposed.
  if (answer.outcome !== 'refused') return { refused: answer.outcome }
  const { refusal } = answer
  return refusal.code === 'already_applied' ? refusal.amountMicros : { refused: refusal.code }
}

/**
 * A payment went back to the payer's bank: whoever got the credit bears it, once per dispute, and
 * never more than this deposit was credited: a bank may take more than was paid, when rates moved. One's own wallet: the
 * account is blocked until an operator has looked. A customer's credit: what is missing is the customer's debt to the
 * reseller. Money that the bank gave back later is credited again, once.
 * @returns what became of it, for the inbox; `refused: …` is for an operator to look at
 */
export const applyDispute = async (
  wallets: Pick<Wallets, 'adjust' | 'adjustCustomer'>,
  { details, creditedMicros }: Pick<Deposit, 'details' | 'creditedMicros'>,
  report: DisputeReport,
  cause: Cause,
): Promise<string> => {
  const { accountId, customerId, depositId, provider, gatewayId } = details
  const cents = microsToCentsFloor(Math.min(report.amountMicros, creditedMicros))
  if (cents <= 0) return 'nothing was credited: nothing moved'
  const reference = `${provider} ${report.disputeId}`
  const move = async (amountCents: number, what: string) => {
    const movement = { accountId: accountId as AccountId, amountCents, reference: what, depositId } as const
    const answer = await (customerId === null
      ? wallets.adjust({ ...movement, reason: 'chargeback', gateway: provider }, cause)
      : wallets.adjustCustomer({ ...movement, customerId, reason: 'chargeback', gateway: gatewayId }, cause))
    return movedMicros(answer)
  }
  const taken = await move(0 - cents, reference)
  if (typeof taken !== 'number') return `refused: ${taken.refused}`
  if (report.state !== 'reinstated') return report.state
  const back = await move(microsToCentsFloor(0 - taken), `${reference} won`)
  return typeof back === 'number' ? report.state : `refused: ${back.refused}`
}

/** A gateway is asked this often. A bank leaves a week or more to answer a dispute, so nothing is late within an hour. */
const pauseMs = 3_600_000
/** Who has the money is decided by then: card networks close a dispute within about three months of its opening. */
const followedMs = 120 * 24 * 60 * 60 * 1000

type Asked = { readonly gateway_id: string; readonly attempts: number }

/** Gateways that ever brought money, each its own owner. */
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
    text: `insert into work.dispute_looks (gateway_id, due_at)
           select distinct gateway_id, $1::timestamptz from read.deposits where credited_micros > 0
           on conflict do nothing`,
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
 * Finds disputes whose callbacks were lost: asks each gateway once an hour for those and refunds of the last 120 days that moved
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
  readonly firstPollMs: number
}): RunningQueue => {
  const { workers, pool, gateways, inbox, clock, logger, firstPollMs } = deps
  const ask = async ({ gateway_id: gatewayId }: Asked): Promise<Outcome> => {
    try {
      const live = await gateways.byId(gatewayId)
      if (!live) return { kind: 'again', why: 'the gateway is gone' }
      let found = 0
      for (const change of await live.gateway.changesSince(clock() - followedMs)) {
        const { reference } = change
        if (!(await inbox.store(gatewayId, change))) continue
        found += 1
        logger.info({ gatewayId, reference }, 'a dispute or a refund was found')
      }
      return { kind: 'again', why: `${found} found` }
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, gatewayId }, 'a payment gateway did not tell its disputes')
      return { kind: 'again', why: 'no answer' }
    }
  }
  return workers.start<Asked>({
    worker: disputeWorker,
    queue: disputeQueue,
    atOnce: { total: 10, each: 1 },
    longestMs: 60_000,
    schedule: () => pauseMs,
    pollMs: Math.min(disputeWorker.trigger.everyMs, firstPollMs),
    fill: () => findGateways(pool, clock()),
    work: ask,
  })
}
