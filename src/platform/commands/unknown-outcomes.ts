import { setTimeout as pause } from 'node:timers/promises'
import { DecidedInFuture } from '../eventstore/errors.ts'
import type { ItemOutcome } from '../eventstore/port.ts'
import type { BatchItem } from './decide-batch.ts'
import type { Slots } from './fold-cache.ts'
import type { Answers } from './pending-command.ts'
import type { RunnerLimits, RunnerLogger } from './runner-ports.ts'

export type UnknownOutcomes = {
  /** Keeps the item's streams for itself and sends its bytes again until their outcome is known. */
  block(item: BatchItem, cause: Error, sentTick: number): void
  /** Items whose outcome is unknown. */
  frozen(): number
  /** Sends nothing more. */
  stop(): void
}

type UnknownOutcomesDeps = {
  readonly limits: RunnerLimits
  readonly logger: RunnerLogger
  readonly slots: Slots
  readonly answers: Answers
  readonly send: (items: readonly BatchItem[]) => Promise<readonly ItemOutcome[]>
  readonly onResolved: (item: BatchItem, outcome: ItemOutcome, sentTick: number) => void
}

type Unknown = Extract<ItemOutcome, { status: 'unknown' | 'unavailable' }>

/** Whether it is open what became of bytes that were sent before. That the log is away says nothing of them. */
const isUnknown = (outcome: ItemOutcome): outcome is Unknown =>
  outcome.status === 'unknown' || outcome.status === 'unavailable'

export const createUnknownOutcomes = (deps: UnknownOutcomesDeps): UnknownOutcomes => {
  const { limits, logger, slots, answers } = deps
  const stopped = new AbortController()
  let frozen = 0

  const setBlocked = (item: BatchItem, on: boolean): void => {
    for (const slot of item.points.keys()) {
      slot.blocked = on
      slot.busy = on
      // The slot outlives clients that stop waiting: it is what keeps others off the stream.
      if (on) slots.acquire(slot)
    }
  }

  const resend = async (item: BatchItem, streams: readonly string[]): Promise<ItemOutcome> => {
    // Without a bound on purpose, save the process's own end: there is no other way to know, and guessing loses money.
    for (let waitMs = limits.resendFirstMs; ; waitMs = Math.min(2 * waitMs, limits.resendMaxMs)) {
      await pause(waitMs, undefined, { signal: stopped.signal })
      const [outcome] = await deps.send([item])
      if (!isUnknown(outcome!)) return outcome!
      const { status, cause: err } = outcome
      // The log does not have it and refuses it: it is decided again, at the present time.
      const { stream, expected } = item.appends[0]!
      if (status === 'unavailable' && err instanceof DecidedInFuture)
        return { status: 'conflict', stream, actual: expected, landed: [] }
      logger.warn({ err, status, streams, waitMs }, 'the outcome of an append is still unknown')
    }
  }

  const unblock = async (item: BatchItem, sentTick: number): Promise<void> => {
    const streams = [...item.points.keys()].map(({ stream }) => stream)
    const bound = setTimeout(() => {
      for (const { pending } of item.members)
        answers.overload(pending, 'frozen', 'the outcome is not known yet; send it again under the same key')
    }, limits.frozenWaitMs)
    try {
      const outcome = await resend(item, streams)
      logger.warn({ status: outcome.status, streams }, 'the outcome of an append is known')
      frozen--
      setBlocked(item, false)
      deps.onResolved(item, outcome, sentTick)
      for (const slot of item.points.keys()) slots.release(slot)
    } catch (error) {
      if (!stopped.signal.aborted) throw error
      for (const { pending } of item.members)
        answers.overload(pending, 'closed', 'the service is stopping; the outcome is not known', error)
    } finally {
      clearTimeout(bound)
    }
  }

  return {
    block(item, cause, sentTick) {
      frozen++
      setBlocked(item, true)
      logger.error(
        { err: cause, streams: [...item.points.keys()].map(({ stream }) => stream) },
        'the answer of an append was lost; its streams wait until the same bytes, sent again, tell its outcome',
      )
      void unblock(item, sentTick)
    },
    frozen: () => frozen,
    stop: () => stopped.abort(),
  }
}
