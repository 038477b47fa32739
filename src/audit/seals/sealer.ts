import { once } from 'node:events'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { newId } from '../../kernel/ids.ts'
import type { BackgroundScheduler } from '../../platform/commands/background-scheduler.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { LogFeed, LogReader } from '../../platform/projections/feed.ts'
import type { Leadership, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { createDigestStore } from './digests.ts'
import type { SealKey } from './seal-key.ts'
import {
  chainToHead,
  openSealing,
  type Sealing,
  type SealingDeps,
  SealRefused,
  sealerLock,
} from './sealing.ts'

export type SealerDeps = {
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
  /** Told of each seal that this process made. */
  readonly onSeal?: () => void
  /** How many events after one ordinal and up to another this process checked itself; left out: no seal says so. */
  readonly checkedEvents?: SealingDeps['checkedEvents']
  /**
   * Resolves when the events after the ordinal `sealed` and up to a position may be sealed; throws why not. Left out: all may
   * be.
   */
  readonly cleared?: (
    range: { readonly sealed: number; readonly position: number },
    signal: AbortSignal,
  ) => Promise<void>
  /** How long its session may be without a word from Postgres, or from this process, milliseconds; default 30,000. */
  readonly answerTimeoutMs?: number
  /** How long a stop may wait for its last seal, milliseconds; default 5,000. */
  readonly lastSealMs?: number
}

export type Sealer = {
  /** Why nothing is sealed, for an alarm; null while all is well. */
  problem(): string | null
  /** Seals what the log has by now, if this process is the one that seals, and ends; a seal that takes long is left out. */
  stop(): Promise<void>
}

/** How long events gather, milliseconds: a digest need not be fresh, and a wake-up for each event costs more than it. */
const batchWindowMs = 60
const helping = 4_000
const firstBackoffMs = 500
const maxBackoffMs = 60_000
/** A database that does not answer must not hold up the stop. */
const defaultLastSealMs = 5_000

const cause = (): Cause => ({ actor: { kind: 'system', name: 'sealer' }, correlationId: newId('run') })

export const sealer = worker({
  name: 'sealer',
  about: 'Seals the log',
  trigger: { when: 'enough events are not sealed, or one of them for long enough' },
  per: 'cluster',
  lock: sealerLock,
  session: 'farebox sealer',
  process: 'server',
})

/**
 * Follows the log and seals it, by count and by time, never for seals alone. Of several processes one does it at a
 * time. It stops sealing, and says so, when the log is no longer what was sealed.
 */
export const startSealer = (deps: SealerDeps): Sealer => {
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
  } = deps
  let problem: string | null = null
  let backoffMs = firstBackoffMs
  /** When the oldest event that is not sealed is to be, of the monotonic clock: a session that ends does not put it off. */
  let dueAtMs: number | null = null

  /** Ends when it is time to seal. Without a deadline it waits for the first event for as long as it takes. */
  const gather = async (sealing: Sealing, reader: LogReader, signal: AbortSignal): Promise<void> => {
    const { chain } = sealing
    let due: AbortSignal | null = null
    while (chain.unsealed() < every.events) {
      if (due === null && chain.unsealed() > 0) {
        dueAtMs ??= performance.now() + every.seconds * 1000
        due = AbortSignal.timeout(Math.max(0, Math.ceil(dueAtMs - performance.now())))
      }
      const until = due === null ? signal : AbortSignal.any([signal, due])
      try {
        await reader.waitForEvent(chain.end().position, until)
        await chain.take(await reader.nextStored(chain.end().position, helping, until))
      } catch (error) {
        if (due?.aborted && !signal.aborted) return
        throw error
      }
    }
  }

  const sealTaken = async (sealing: Sealing, signal: AbortSignal): Promise<void> => {
    const { chain } = sealing
    await deps.cleared?.({ sealed: chain.sealedThrough(), position: chain.end().position }, signal)
    signal.throwIfAborted()
    const seal = await sealing.seal(cause())
    problem = null
    backoffMs = firstBackoffMs
    dueAtMs = null
    if (seal === null) return
    logger.info({ throughOrdinal: seal.throughOrdinal }, 'sealed the log')
    onSeal()
  }

  /** So that the log of a server that was stopped is sealed to its end. */
  const sealLast = async (sealing: Sealing, ended: AbortSignal): Promise<void> => {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(lastSealMs)])
    const overdue = once(signal, 'abort').then(() => signal.throwIfAborted())
    const sealed = chainToHead(log, sealing.chain).then(() => sealTaken(sealing, signal))
    try {
      await Promise.race([sealed, overdue])
    } catch (error) {
      logger.warn({ err: error }, 'the end of the log is not sealed: the next start seals it')
    }
  }

  const sealOn = async (
    reader: LogReader,
    { session: { ended }, signal, round }: Leadership,
  ): Promise<void> => {
    const store = createDigestStore(pool, await log.logId())
    const sealing = await openSealing(
      {
        log,
        runner,
        store,
        key,
        clock,
        yieldToCommands: backgroundScheduler.yieldToCommands,
        ...(deps.checkedEvents && { checkedEvents: deps.checkedEvents }),
      },
      cause(),
    )
    try {
      while (!signal.aborted) {
        await gather(sealing, reader, signal)
        await round(() => sealTaken(sealing, signal))
      }
    } finally {
      // The process stops.
      if (signal.aborted && !ended.aborted) await sealLast(sealing, ended)
    }
  }

  const onError = (error: unknown): number => {
    problem = (error as Error).message
    if (error instanceof SealRefused) logger.fatal({ err: error }, 'the log is not sealed any more')
    else logger.warn({ err: error }, 'sealing failed and is tried again')
    backoffMs = error instanceof SealRefused ? maxBackoffMs : Math.min(2 * backoffMs, maxBackoffMs)
    return backoffMs
  }
  const work = async (leadership: Leadership): Promise<void> => {
    const reader = feed.reader({ batchWindowMs })
    try {
      await sealOn(reader, leadership)
    } finally {
      reader.close()
    }
  }
  const { stop } = scheduler.lead(sealer, work, { answerTimeoutMs, onError })
  return { problem: () => problem, stop }
}
