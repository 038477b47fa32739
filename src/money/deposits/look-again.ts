import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import { type DepositId, newId } from '../../kernel/ids.ts'
import { type Poller, startPoller, throwThose } from '../../platform/work/poller.ts'
import { GatewayUnavailable } from '../payments/port.ts'
import { watchedUntilMs } from './fold.ts'
import { claimDue, endLooks, findUnwatched } from './looks.ts'
import { type Deposits, invoiceTimeMs } from './service.ts'

/** Side by side: a round takes as long as its slowest look. */
const maxAtOnce = 50
/** So that providers that hang do not hold up the payments of all others. */
const maxAtOnceAGateway = 10
/** A run is over after so many rounds, whatever is due still: the next one follows within seconds. */
const maxRounds = 100
/** It reads a row of every deposit: a second or so for a million. */
const findUnwatchedEveryMs = 60 * 60_000

/**
 * Finds payments whose callbacks were lost: asks the provider of every deposit that it may still take money for, first
 * after `firstLookMs`, then ever more seldom, at least once an hour. The last look is the first one that the provider
 * answers once it watches the deposit no more and no payment is under way, however long ago that was: what was paid or
 * expired while this service or the provider was away is credited or closed then. A backlog is worked off without a
 * pause, ten deposits of a gateway at a time.
 *
 * A deposit whose gateway is gone, or whose provider has lost its invoice, is never answered for: it stays as it is, is
 * asked for once an hour for good, and each time a warning names it. Only whoever has the gateway can end that.
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
    // The answer may be as old as this, however long it takes.
    const atMs = clock()
    try {
      const deposit = await deposits.settle(depositId, cause)
      if (deposit && !deposit.invoice && Date.parse(deposit.openedAt) + invoiceTimeMs <= atMs)
        await deposits.abandon(depositId, cause)
      // What is under way at the end of the watch, such as a payment that awaits its confirmations, ends later.
      const over = !deposit || (watchedUntilMs(deposit) <= atMs && deposit.status !== 'processing')
      if (over) await endLooks(pool, depositId, atMs)
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error
      logger.warn({ err: error, depositId }, 'a payment gateway did not answer for a deposit')
    }
  }
  let stopped = false
  let findAtMs = Number.NEGATIVE_INFINITY
  const find = async (): Promise<void> => {
    const nowMs = clock()
    if (nowMs < findAtMs) return
    findAtMs = nowMs + findUnwatchedEveryMs
    const deposits = await findUnwatched(pool, nowMs)
    if (deposits > 0) logger.info({ deposits }, 'deposits that nobody watched are watched from now on')
  }
  const work = async (): Promise<void> => {
    const failures: unknown[] = []
    const limits = { firstLookMs, limit: maxAtOnce, limitAGateway: maxAtOnceAGateway }
    for (let round = 0; round < maxRounds && !stopped; round += 1) {
      const due = await claimDue(pool, { nowMs: clock(), ...limits })
      // Fewer than the limit may only say that another process claims at the same time.
      if (due.length === 0) break
      // A turn that was claimed is taken: the next one may be an hour away.
      await Promise.all(due.map((depositId) => look(depositId).catch((error) => void failures.push(error))))
    }
    await find()
    throwThose(failures)
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
