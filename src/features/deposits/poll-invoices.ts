import type pg from 'pg'
import type { Logger } from 'pino'
import { pollUntilMs } from '../../domain/deposits/fold.ts'
import { type Clock, hasElapsed } from '../../kernel/clock.ts'
import { newId } from '../../kernel/ids.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import type { Outcome } from '../../platform/work/standard-queue.ts'
import { worker } from '../../platform/work/worker.ts'
import { GatewayUnavailable } from '../payments/index.ts'
import { type Deposits, invoiceTimeMs } from './deposit-service.ts'
import { type PollItem, pollQueue, pollSchedule, pollTable, scheduleMissingPolls } from './poll-schedule.ts'

/** The query reads a row of every deposit: about a second per million. */
const findUnwatchedEveryMs = 60 * 60_000

export const depositWorker = worker({
  name: pollTable.name,
  about: 'Asks payment gateways for payments whose callbacks were lost',
  trigger: { everyMs: 5_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Finds payments whose callbacks were lost. It polls the provider of every deposit that may still receive money: first
 * after `firstPollMs`, then less and less often, at least once an hour. The last poll is the first answer after the
 * provider's watch has ended and no payment is under way, however long ago that was: payments and expiries during an
 * outage of this service or the provider are then credited or closed. A backlog is processed without a pause, ten
 * deposits of a gateway at a time.
 *
 * If the gateway is gone, or the provider has lost the invoice, there is never an answer. The deposit stays open, is
 * polled once an hour permanently, and each poll logs a warning. Only the owner of the gateway can end this.
 */
export const startDepositReactor = (dependencies: {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly deposits: Pick<Deposits, 'settle' | 'abandon'>
  readonly clock: Clock
  readonly logger: Logger
  readonly firstPollMs: number
}): RunningQueue => {
  const { workers, pool, deposits, clock, logger, firstPollMs } = dependencies
  const actor = { kind: 'system', name: 'deposits' } as const
  const pollInvoice = async ({ deposit_id: depositId }: PollItem): Promise<Outcome> => {
    const cause = { actor, correlationId: newId('run') }
    // Read before the poll: the answer may be as old as this.
    const atMs = clock()
    try {
      const deposit = await deposits.settle(depositId, cause)
      if (deposit && !deposit.invoice && Date.parse(deposit.openedAt) + invoiceTimeMs <= atMs)
        await deposits.abandon(depositId, cause)
      // A payment that is under way at the end of the watch, such as one without confirmations, ends later.
      const isEnded = !deposit || (pollUntilMs(deposit) <= atMs && deposit.status !== 'processing')
      return isEnded ? { kind: 'done', result: 'over' } : { kind: 'again', why: deposit.status }
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, depositId }, 'a payment gateway did not answer for a deposit')
      return { kind: 'again', why: 'no answer' }
    }
  }
  let foundAtMs = Number.NEGATIVE_INFINITY
  const find = async (): Promise<void> => {
    const nowMs = clock()
    if (!hasElapsed(foundAtMs, nowMs, findUnwatchedEveryMs)) return
    const addedCount = await scheduleMissingPolls(pool, nowMs)
    foundAtMs = nowMs
    if (addedCount > 0)
      logger.info({ deposits: addedCount }, 'deposits that were not polled are polled from now on')
  }
  return workers.start<PollItem>({
    worker: depositWorker,
    queue: pollQueue(firstPollMs),
    atOnce: { total: 50, each: 10 },
    longestMs: 60_000,
    schedule: pollSchedule(firstPollMs),
    pollMs: Math.min(depositWorker.trigger.everyMs, firstPollMs),
    fill: find,
    work: pollInvoice,
  })
}
