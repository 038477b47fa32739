import type { Logger } from 'pino'
import { socketAddressText } from '../../domain/free-list/endpoint.ts'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { applyCheck, type FreeProxyStatus } from './endpoint-status.ts'
import type { RecordStore } from './endpoint-store.ts'
import { type Check, type CheckResult, CheckUnavailable } from './probe-port.ts'

/** Unused processor time is carried over for this time, milliseconds. */
const maxBudgetMs = 1_000

/**
 * Limits the process to a share of a core. Work may start while the processor time used is below the share of the
 * elapsed time.
 * @param parts.share of one core, 1 is all of it
 * @param parts.cpuMs processor time that this process has used so far
 */
export const createCpuBudget = (parts: {
  readonly share: number
  readonly monotonicMs: MonotonicClock
  readonly cpuMs: () => number
}): (() => boolean) => {
  const { share, monotonicMs, cpuMs } = parts
  let [lastMs, lastCpuMs] = [monotonicMs(), cpuMs()]
  let budgetMs = share * maxBudgetMs
  return () => {
    const [nowMs, usedCpuMs] = [monotonicMs(), cpuMs()]
    budgetMs = Math.min(share * maxBudgetMs, budgetMs + share * (nowMs - lastMs) - (usedCpuMs - lastCpuMs))
    ;[lastMs, lastCpuMs] = [nowMs, usedCpuMs]
    return share >= 1 || budgetMs > 0
  }
}

export type CheckerLimits = {
  /** The most open sockets: one for a check that waits for its connection, one for each protocol afterwards. */
  readonly sockets: number
  /** Time limits for the first connection and for the whole check, milliseconds. */
  readonly connectTimeoutMs: number
  readonly timeoutMs: number
}

export type Checker = {
  /** Starts due checks as far as allowed, and writes finished ones. Resolves before the started checks finish. */
  round(): Promise<void>
  /** Runs rounds until nothing is due and all results are written. @throws when the judge does not answer */
  settle(): Promise<void>
  /** Starts no more checks and writes finished ones. */
  stop(): Promise<void>
  counts(): { readonly running: number; readonly pausedForJudge: boolean }
}

/** This share of the sockets is reserved for live endpoints, so that many dead ones do not delay them. */
const reservedForLive = 0.2
/** The most rows of one claim and of one write. */
const batch = 2_000
/** Pause after a claim that found nothing more, milliseconds. */
const pollPauseMs = 5_000
/** Results are written after at most this time, milliseconds. */
const writeWithinMs = 500
/** How often rows with a due time from a wrong clock are corrected, milliseconds. */
const overlongEveryMs = 60_000

type FinishedCheck = { readonly before: FreeProxyStatus; readonly result: CheckResult; readonly atMs: number }

/**
 * Checks the stored endpoints when they are due, live ones first. Only checks in progress are in memory. Results count
 * only if the judge answered a direct request after them: while the judge or this machine's network is down, no
 * endpoint is marked as failed, and checks pause.
 * @param parts.judgeAnswers requests the judge directly
 * @param parts.mayBegin whether processor time is left
 * @param parts.onChecked called after each check whose result is stored
 */
export const createChecker = (parts: {
  readonly store: RecordStore
  readonly check: Check
  readonly openSockets: () => number
  readonly judgeAnswers: () => Promise<boolean>
  readonly mayBegin: () => boolean
  readonly limits: CheckerLimits
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly random: () => number
  readonly logger: Logger
  readonly onChecked?: (before: FreeProxyStatus, result: CheckResult) => void
}): Checker => {
  const { store, check, openSockets, limits, clock, monotonicMs, random, logger } = parts
  /** Claimed endpoints whose result is not written yet. */
  const claimed = new Set<string>()
  const stopping = new AbortController()
  let running = 0
  let finishedChecks: FinishedCheck[] = []
  let pausedForJudge = false
  let writtenAtMs = monotonicMs()
  const pollAtMs = { live: 0, all: 0 }
  let lastOverlongMs = Number.NEGATIVE_INFINITY

  const begin = (before: FreeProxyStatus): void => {
    const key = socketAddressText(before)
    claimed.add(key)
    running += 1
    check(before, limits, stopping.signal)
      .then(
        (result) => void finishedChecks.push({ before, result, atMs: clock() }),
        (error) => {
          claimed.delete(key)
          if (stopping.signal.aborted) return
          if (error instanceof CheckUnavailable) pausedForJudge = true
          logger[error instanceof CheckUnavailable ? 'debug' : 'error'](
            { err: error },
            'a check could not be made',
          )
        },
      )
      .finally(() => {
        running -= 1
      })
  }

  /** @returns whether there may be more */
  const claim = async (which: 'live' | 'all'): Promise<boolean> => {
    if (monotonicMs() < pollAtMs[which]) return false
    const maxSockets = which === 'live' ? limits.sockets : Math.floor(limits.sockets * (1 - reservedForLive))
    const free = Math.min(batch, maxSockets - Math.max(running, openSockets()))
    if (free <= 0 || !parts.mayBegin()) return false
    const dueEndpoints = await store.due(clock(), free, which === 'live')
    if (dueEndpoints.length < free) pollAtMs[which] = monotonicMs() + pollPauseMs
    for (const dueEndpoint of dueEndpoints)
      if (!claimed.has(socketAddressText(dueEndpoint))) begin(dueEndpoint)
    return dueEndpoints.length === free
  }

  const write = async (): Promise<void> => {
    const batchToWrite = finishedChecks
    if (batchToWrite.length === 0) return
    finishedChecks = []
    writtenAtMs = monotonicMs()
    try {
      if (await parts.judgeAnswers()) {
        for (let at = 0; at < batchToWrite.length; at += batch)
          await store.write(
            batchToWrite
              .slice(at, at + batch)
              .map(({ before, result, atMs }) =>
                applyCheck(before, result, { nowMs: atMs, random: random() }),
              ),
          )
        for (const { before, result } of batchToWrite) parts.onChecked?.(before, result)
      } else {
        pausedForJudge = true
        logger.warn({ checks: batchToWrite.length }, 'the judge does not answer: these checks do not count')
      }
    } catch (error) {
      // Postgres may be available in the next round. Unwritten endpoints stay claimed.
      finishedChecks = [...batchToWrite, ...finishedChecks]
      throw error
    }
    for (const { before } of batchToWrite) claimed.delete(socketAddressText(before))
  }

  const resume = async (): Promise<void> => {
    if (pausedForJudge && (await parts.judgeAnswers())) pausedForJudge = false
  }

  const makeOverlongDue = async (): Promise<void> => {
    if (monotonicMs() - lastOverlongMs < overlongEveryMs) return
    const movedCount = await store.makeOverlongDue(clock(), batch)
    // After a full batch there may be more.
    if (movedCount < batch) lastOverlongMs = monotonicMs()
    if (movedCount > 0)
      logger.warn(
        { endpoints: movedCount },
        'endpoints had a due time beyond the longest pause; they are due now',
      )
  }

  const round = async (): Promise<void> => {
    if (finishedChecks.length >= batch || monotonicMs() - writtenAtMs >= writeWithinMs) await write()
    await resume()
    if (pausedForJudge || stopping.signal.aborted) return
    await makeOverlongDue()
    // Endpoints that refuse at once must not accumulate faster than they are written.
    while (finishedChecks.length < batch && (await claim('live')));
    while (finishedChecks.length < batch && (await claim('all')));
  }

  return {
    round,
    settle: async () => {
      for (;;) {
        pollAtMs.live = pollAtMs.all = 0
        await round()
        if (pausedForJudge) throw new CheckUnavailable('the judge does not answer')
        if (running > 0) await new Promise((resolve) => setTimeout(resolve, 20))
        else if (finishedChecks.length > 0) await write()
        else if ((await store.lateMs(clock())) === null) return
      }
    },
    stop: async () => {
      const lastWrite = write()
      stopping.abort()
      await lastWrite
    },
    counts: () => ({ running, pausedForJudge }),
  }
}
