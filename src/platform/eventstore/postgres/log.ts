import type pg from 'pg'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { Append, Appended, EventLog, ItemOutcome } from '../port.ts'
import type { BatchSigner } from './append-batch.ts'
import { type BatchReport, createGroupCommit, createSender } from './group-commit.ts'
import { createReads, subscribe } from './reads.ts'
import { createNewestKnownEvent, createRecentAppends } from './revision-cache.ts'
import { createAnnouncer, createWaker } from './wake-up.ts'

export type PostgresLogOptions = {
  /** For reads. It stays the caller's to end. The database is migrated. */
  readonly pool: pg.Pool
  /** How to reach the same database outside the pool: one connection appends, one listens. */
  readonly connection: pg.ClientConfig
  /** How long one batch may take on the server, milliseconds; default 10,000. */
  readonly statementTimeoutMs?: number
  /** How long to wait for an answer before its outcome counts as unknown, milliseconds; default 5,000 more than that. */
  readonly answerTimeoutMs?: number
  /** How often the head is looked at when nothing wakes a subscription, milliseconds; default 250. */
  readonly pollMs?: number
  /** As of the sender (group-commit.ts). */
  readonly clockOffsetMs?: (() => number) | undefined
  /** Signs what this process appends. Left out: nothing is signed. */
  readonly signer?: BatchSigner | undefined
  /** Told of every batch written, for metrics. */
  readonly onBatch?: (report: BatchReport) => void
  /** Told, once, that the log lost events that this process has seen. Nothing is appended from then on. */
  readonly onSetBack?: (error: Error) => void
  /** Told of connections that broke and of reads that failed; all of it is tried again. */
  readonly onTrouble?: (what: string, error: Error) => void
}

/** The outcome of a single append as its result or its error. */
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
 * The event log on one Postgres (docs/decisions/0002-postgres-log.md): gapless positions, group commit over one
 * connection, wake-ups by NOTIFY and by a poll. Several processes may open it at once.
 *
 * It needs no server at this moment: appends made while there is none are `unavailable`. `close()` writes what waits,
 * ends its connections and its subscriptions, and leaves the pool alone.
 * @throws LogUnavailable when the log's id cannot be read
 */
export const openPostgresLog = async (options: PostgresLogOptions): Promise<EventLog> => {
  const { pool, connection, statementTimeoutMs = 10_000, pollMs = 250 } = options
  const answerTimeoutMs = options.answerTimeoutMs ?? statementTimeoutMs + 5_000
  const onTrouble = options.onTrouble ?? (() => undefined)
  const closing = new AbortController()
  const seen = createNewestKnownEvent()
  const reads = createReads(pool, seen)
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
    seen,
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
    subscribeAll: (wanted) =>
      subscribe({ readAll: reads.readAll, recent, waker, closed: closing.signal, onTrouble }, wanted),
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
