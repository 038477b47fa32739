import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { newId } from '../../kernel/ids.ts'
import type { BackgroundScheduler } from '../../platform/commands/background-scheduler.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import type { LogFeed, LogReader } from '../../platform/projections/feed.ts'
import type { Leadership, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { UnresolvedViolation } from '../violations.ts'
import { createDigestStore } from './digests.ts'
import {
  chainToHead,
  openSealing,
  type Sealing,
  type SealingDependencies,
  SealRefused,
  sealerLock,
} from './sealing.ts'
import type { SealKey } from './seals-file.ts'

export type SealerDependencies = {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly feed: LogFeed
  readonly runner: CommandRunner
  readonly key: SealKey
  readonly clock: Clock
  readonly backgroundScheduler: Pick<BackgroundScheduler, 'yieldToCommands'>
  readonly logger: Logger
  /** A seal is due after this many new events, or this many seconds after the first of them. */
  readonly every: { readonly events: number; readonly seconds: number }
  /** Called after each seal of this process. */
  readonly onSeal?: () => void
  /** Omitted: seals do not require signatures of processes. */
  readonly openSignatures?: SealingDependencies['openSignatures']
  /** The number of events in a range that this process checked itself; omitted: seals do not contain it. */
  readonly checkedEvents?: SealingDependencies['checkedEvents']
  /**
   * Resolves when the events after the ordinal `sealed`, up to a position, may be sealed; rejects with the reason
   * otherwise. Omitted: all may be sealed.
   */
  readonly cleared?: (
    range: { readonly sealed: number; readonly position: number },
    signal: AbortSignal,
  ) => Promise<void>
  /**
   * The maximum time without an answer from Postgres or activity of this process before its session ends, milliseconds;
   * default 30,000.
   */
  readonly answerTimeoutMs?: number
  /** How long a stop may wait for the last seal, milliseconds; default 5,000. */
  readonly lastSealMs?: number
}

export type Sealer = {
  /** Seals the rest of the log if this process is the sealer, and stops. A seal that takes too long is omitted. */
  stop(): Promise<void>
}

/**
 * The batch window of events, milliseconds. A digest need not be fresh, and a wake-up for each event costs more than
 * the digest.
 */
const batchWindowMs = 60
const maxEventsPerRead = 4_000
const firstBackoffMs = 500
const maxBackoffMs = 60_000
/** Limits the delay of a stop when the database does not answer. */
const defaultLastSealMs = 5_000

const createCause = (): Cause => ({ actor: { kind: 'system', name: 'sealer' }, correlationId: newId('run') })

export const sealer = worker({
  name: 'sealer',
  about: 'Seals the log',
  trigger: { when: 'enough events are not sealed, or one of them for long enough' },
  per: 'cluster',
  lock: sealerLock,
  session: 'farebox sealer',
  process: 'auditor',
})

/**
 * Follows the log and seals it by count and by time, but never for seals alone. One process of a cluster does it at a
 * time. It stops sealing, and reports that, when the log differs from the sealed log.
 */
export const startSealer = (dependencies: SealerDependencies): Sealer => {
  const {
    scheduler,
    pool,
    log,
    feed,
    runner,
    key,
    clock,
    backgroundScheduler,
    logger,
    every,
    onSeal = () => undefined,
    answerTimeoutMs,
    lastSealMs = defaultLastSealMs,
  } = dependencies
  const runs = scheduler.record(sealer)
  let backoffMs = firstBackoffMs
  /**
   * When the oldest unsealed event must be sealed, on the monotonic clock. The end of a session does not postpone it.
   */
  let dueAtMs: number | null = null

  const onError = (error: unknown): number => {
    if (error instanceof SealRefused) logger.fatal({ err: error }, 'the log is not sealed any more')
    else logger.warn({ err: error }, 'sealing failed and is tried again')
    backoffMs = error instanceof SealRefused ? maxBackoffMs : Math.min(2 * backoffMs, maxBackoffMs)
    return backoffMs
  }

  /** Resolves when a seal is due. Without a deadline it waits for the first event without a limit. */
  const waitUntilDue = async (sealing: Sealing, reader: LogReader, signal: AbortSignal): Promise<void> => {
    const { chain } = sealing
    let dueSignal: AbortSignal | null = null
    while (chain.unsealed() < every.events) {
      if (dueSignal === null && chain.unsealed() > 0) {
        dueAtMs ??= performance.now() + every.seconds * 1000
        // A timeout accepts whole milliseconds only.
        dueSignal = AbortSignal.timeout(Math.max(0, Math.ceil(dueAtMs - performance.now())))
      }
      const readSignal = dueSignal === null ? signal : AbortSignal.any([signal, dueSignal])
      let events: readonly StoredEvent[]
      try {
        await reader.waitForEvent(chain.end().position, readSignal)
        events = await reader.nextStored(chain.end().position, maxEventsPerRead, readSignal)
      } catch (error) {
        if (dueSignal?.aborted && !signal.aborted) return
        throw error
      }
      await chain.take(events)
    }
  }

  const sealChain = async (sealing: Sealing, signal: AbortSignal): Promise<void> => {
    const { chain } = sealing
    await sealing.takeWholeBatch()
    await dependencies.cleared?.({ sealed: chain.sealedThrough(), position: chain.end().position }, signal)
    signal.throwIfAborted()
    const seal = await sealing.seal(createCause())
    backoffMs = firstBackoffMs
    dueAtMs = null
    if (seal === null) return
    logger.info({ throughOrdinal: seal.throughOrdinal }, 'sealed the log')
    onSeal()
  }

  /** Seals the log to its end when the server stops. */
  const sealToEnd = async (sealing: Sealing, ended: AbortSignal): Promise<void> => {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(lastSealMs)])
    const overdue = once(signal, 'abort').then(() => signal.throwIfAborted())
    const sealingToEnd = chainToHead(log, sealing.chain).then(() => sealChain(sealing, signal))
    try {
      await Promise.race([sealingToEnd, overdue])
    } catch (error) {
      logger.warn({ err: error }, 'the end of the log is not sealed: the next start seals it')
    }
  }

  /** Retries until an operator has acknowledged the violations. The events are not read and checked again. */
  const sealOnceCleared = async (sealing: Sealing, { signal, round }: Leadership): Promise<void> => {
    for (;;) {
      try {
        return await round(() => sealChain(sealing, signal))
      } catch (error) {
        if (!(error instanceof UnresolvedViolation)) throw error
        runs.failed(error)
        await sleep(onError(error), undefined, { signal })
      }
    }
  }

  const runSealing = async (reader: LogReader, leadership: Leadership): Promise<void> => {
    const {
      session: { ended },
      signal,
    } = leadership
    const store = createDigestStore(pool, await log.logId())
    const sealing = await openSealing(
      {
        log,
        runner,
        store,
        key,
        clock,
        yieldToCommands: backgroundScheduler.yieldToCommands,
        openSignatures: dependencies.openSignatures,
        ...(dependencies.checkedEvents && { checkedEvents: dependencies.checkedEvents }),
      },
      createCause(),
    )
    try {
      while (!signal.aborted) {
        await waitUntilDue(sealing, reader, signal)
        await sealOnceCleared(sealing, leadership)
      }
    } finally {
      // The process stops.
      if (signal.aborted && !ended.aborted) await sealToEnd(sealing, ended)
    }
  }

  const work = async (leadership: Leadership): Promise<void> => {
    const reader = feed.reader({ batchWindowMs })
    try {
      await runSealing(reader, leadership)
    } finally {
      reader.close()
    }
  }
  const { stop } = scheduler.lead(sealer, work, { answerTimeoutMs, onError })
  return { stop }
}
