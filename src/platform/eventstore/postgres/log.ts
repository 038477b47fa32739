import type pg from 'pg'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { Append, Appended, EventLog, ItemOutcome } from '../port.ts'
import type { BatchSigner } from './append-batch.ts'
import { type BatchReport, createGroupCommit, createSender } from './group-commit.ts'
import { createReads, subscribe } from './reads.ts'
import { createNewestKnownEvent, createRecentAppends } from './revision-cache.ts'
import { createAnnouncer, createWaker } from './wake-up.ts'

export type PostgresLogOptions = {
  /** For reads. The caller ends it. The database must be migrated. */
  readonly pool: pg.Pool
  /** The same database, for two connections outside the pool: one appends, one listens. */
  readonly connection: pg.ClientConfig
  /** Time limit of a batch on the server, milliseconds; default 10,000. */
  readonly statementTimeoutMs?: number
  /** Without an answer in this time an outcome is unknown, milliseconds; default `statementTimeoutMs` + 5,000. */
  readonly answerTimeoutMs?: number
  /** Interval of the polls of the head, which replace lost notifications, milliseconds; default 250. */
  readonly pollMs?: number
  /** See `SenderOptions` (group-commit.ts). */
  readonly clockOffsetMs?: (() => number) | undefined
  /** Signs the batches of this process. Without a signer, batches are not signed. */
  readonly signer?: BatchSigner | undefined
  /** Called after each batch, for metrics. */
  readonly onBatch?: (report: BatchReport) => void
  /** Called once if the log lost events that this process knows. From then on all appends fail. */
  readonly onSetBack?: (error: Error) => void
  /** Called for each broken connection and failed read. All of them are retried. */
  readonly onTrouble?: (description: string, error: Error) => void
}

/** Returns the result of a single append, or throws its error. */
const settled = ({ stream, expected }: Append, outcome: ItemOutcome): Appended => {
  switch (outcome.status) {
    case 'landed':
      return outcome.appended[0]!
    case 'conflict':
      throw new WrongExpectedRevision(stream, expected, outcome.actual)
    case 'rejected':
      if (outcome.cause instanceof AppendRejected) throw outcome.cause
      throw new AppendRejected(`append to ${stream} refused: ${outcome.cause.message}`, {
        cause: outcome.cause,
      })
    case 'unavailable':
      throw new LogUnavailable(`append to ${stream}: ${outcome.cause.message}`, { cause: outcome.cause })
    case 'unknown':
      throw new OutcomeUnknown(`append to ${stream}: ${outcome.cause.message}`, { cause: outcome.cause })
    default:
      return outcome satisfies never
  }
}

/**
 * Opens the event log on one Postgres (docs/decisions/0002-postgres-log.md): gapless positions, group commit over one
 * connection, wake-ups by NOTIFY and by polling. Several processes may open it at once.
 *
 * Appends during an outage are `unavailable`. `close()` writes the queued appends, and ends the connections and
 * subscriptions of the log, but not the pool.
 * @throws LogUnavailable if the id of the log cannot be read
 */
export const openPostgresLog = async (options: PostgresLogOptions): Promise<EventLog> => {
  const { pool, connection, statementTimeoutMs = 10_000, pollMs = 250 } = options
  const answerTimeoutMs = options.answerTimeoutMs ?? statementTimeoutMs + 5_000
  const onTrouble = options.onTrouble ?? (() => undefined)
  const closing = new AbortController()
  const newestKnown = createNewestKnownEvent()
  const reads = createReads(pool, newestKnown)
  const recent = createRecentAppends()
  const waker = createWaker({ connection, pollMs, onTrouble })
  const announcer = createAnnouncer(pool, onTrouble)
  const sender = createSender({
    connection,
    statementTimeoutMs,
    answerTimeoutMs,
    onHead: (position) => {
      waker.notify(position)
      announcer.announce(position)
    },
    onCommitted: recent.recordAppended,
    seen: newestKnown,
    onSetBack: options.onSetBack ?? (() => undefined),
    onTrouble,
    clockOffsetMs: options.clockOffsetMs,
    signer: options.signer,
  })
  const send: typeof sender.send = (items) => {
    const outcomes = sender.send(items)
    recent.sending(outcomes)
    return outcomes
  }
  const commit = createGroupCommit(send, options.onBatch ?? (() => undefined))
  const logId = await reads.logId()

  const close = async (): Promise<void> => {
    closing.abort()
    await commit.close()
    await Promise.all([sender.close(), waker.close(), announcer.idle()])
  }
  let closed: Promise<void> | null = null

  return {
    ...reads,
    atomicItems: true,
    logId: async () => logId,
    appendAll: commit.appendAll,
    append: async (stream, expected, events) => {
      const append = { stream, expected, events }
      const [outcome] = await commit.appendAll([{ appends: [append] }])
      return settled(append, outcome!)
    },
    subscribeAll: (subscribeOptions) =>
      subscribe(
        { readAll: reads.readAll, recent, waker, closed: closing.signal, onTrouble },
        subscribeOptions,
      ),
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
