import type pg from 'pg'
import { type Connection, connect } from '../../postgres/client.ts'
import { runPipeline, withAnswerTimeout } from '../../postgres/pipeline.ts'
import { transact } from '../../postgres/transaction.ts'
import { appendBytes, assertItems, refusalOf } from '../append-guards.ts'
import { AppendRejected, LogUnavailable, OutcomeUnknown, WrongExpectedRevision } from '../errors.ts'
import type { Append, Appended, AppendItem, EventLog, ItemOutcome } from '../port.ts'
import {
  type AppendVerdict,
  type BatchSigner,
  batchOutcomes,
  batchSteps,
  classifyFailure,
  conditionalAppendParameters,
  conditionalAppendSql,
  futureCheck,
  isDuplicate,
  type QueuedItem,
  rowsOf,
  signatureValues,
  signBatch,
  takeBatch,
} from './append-batch.ts'
import { createReads, subscribe } from './reads.ts'
import {
  createAnnouncer,
  createNewestKnownEvent,
  createRecentAppends,
  createStreamRevisionCache,
  createWaker,
  type NewestKnownEvent,
  type StreamRevisionCache,
} from './revision-cache.ts'

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
 * Opens the event log on one Postgres (docs/decisions/0002): gapless positions, group commit over one
 * connection, wake-ups by NOTIFY and by polling. Several processes may open it at once.
 *
 * Appends during an outage are `unavailable`. `close()` writes the queued appends, and ends the connections and
 * subscriptions of the log, but not the pool.
 */
export const openPostgresLog = (options: PostgresLogOptions): EventLog => {
  const { pool, connection, statementTimeoutMs = 10_000, pollMs = 5_000 } = options
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
  let logId: Promise<string> | null = null
  const readLogId = async (): Promise<string> => {
    logId ??= reads.logId()
    return logId.catch((error) => {
      logId = null
      throw error
    })
  }

  const close = async (): Promise<void> => {
    closing.abort()
    await commit.close()
    await Promise.all([sender.close(), waker.close(), announcer.idle()])
  }
  let closed: Promise<void> | null = null

  return {
    ...reads,
    atomicItems: true,
    onActivity: waker.onActivity,
    logId: readLogId,
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

/** Limit of queued items per process. Items beyond the limit are `unavailable` at once. */
const maxWaitingItems = 50_000

export type BatchReport = { readonly items: number; readonly bytes: number; readonly durationMs: number }

type GroupCommit = {
  appendAll(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  /** Refuses new items, and resolves when all queued items are written. */
  close(): Promise<void>
}

type Pending = QueuedItem & { readonly settle: (outcome: ItemOutcome) => void }

/** The size of an item, bytes; or the outcome `rejected`. */
const measureItem = ({ appends }: AppendItem): number | ItemOutcome => {
  let total = 0
  for (const append of appends) {
    const bytes = appendBytes(append)
    const cause = refusalOf(append, bytes)
    if (cause !== null) return { status: 'rejected', cause, landed: [] }
    total += bytes
  }
  return total
}

/**
 * Group commit: all items that arrive while a batch is in flight go into the next batch, so that they share the cost of
 * one commit. One batch is in flight at a time.
 */
const createGroupCommit = (
  send: (items: readonly AppendItem[]) => Promise<readonly ItemOutcome[]>,
  onBatch: (report: BatchReport) => void,
): GroupCommit => {
  let queue: Pending[] = []
  let writing: Promise<void> | null = null
  let closed = false

  const writeAll = async (): Promise<void> => {
    while (queue.length > 0) {
      const { batch, rest } = takeBatch(queue)
      queue = rest
      const startedMs = performance.now()
      const outcomes = await send(batch.map(({ item }) => item))
      for (const [index, { settle }] of batch.entries()) settle(outcomes[index]!)
      const bytes = batch.reduce((sum, each) => sum + each.bytes, 0)
      onBatch({ items: batch.length, bytes, durationMs: performance.now() - startedMs })
    }
    writing = null
  }

  /** Starts in a microtask, so that all appends of one turn of the event loop share a batch. */
  const wake = (): void => {
    writing ??= Promise.resolve().then(writeAll)
  }

  const submit = (item: AppendItem): Promise<ItemOutcome> | ItemOutcome => {
    if (item.appends.length === 0) return { status: 'landed', appended: [] }
    const bytes = measureItem(item)
    if (typeof bytes !== 'number') return bytes
    const rejection = (reason: string): ItemOutcome => ({
      status: 'unavailable',
      cause: new Error(reason),
      landed: [],
    })
    if (closed) return rejection('the log is closed')
    if (queue.length >= maxWaitingItems) return rejection(`${maxWaitingItems} appends wait already`)
    return new Promise((settle) => {
      queue.push({ item, bytes, settle })
      wake()
    })
  }

  return {
    appendAll: async (items) => {
      assertItems(items)
      return Promise.all(items.map(submit))
    },
    close: async () => {
      closed = true
      await writing
    },
  }
}

export type SenderOptions = {
  readonly connection: pg.ClientConfig
  /** Postgres cancels a batch after this time, milliseconds. */
  readonly statementTimeoutMs: number
  /** The connection is closed if an answer takes longer, milliseconds. Longer than `statementTimeoutMs`. */
  readonly answerTimeoutMs: number
  /** Called after each batch with the position of the last event. */
  readonly onHead: (position: number) => void
  /** Called before `onHead` with each batch whose items were all appended, and the position before it. */
  readonly onCommitted: (base: number, items: readonly AppendItem[]) => void
  /** The newest event that this process knows. A log without this event was restored to an earlier point. */
  readonly seen: Pick<NewestKnownEvent, 'sent' | 'newest'>
  /** Called once if the log does not have that event. From then on all appends fail. */
  readonly onSetBack: (error: Error) => void
  /** Called for each broken connection. */
  readonly onTrouble: (description: string, error: Error) => void
  /**
   * Intended offset of the service's clock from the clock of Postgres, milliseconds. Without it times are not checked.
   */
  readonly clockOffsetMs?: (() => number) | undefined
  /** Without a signer, batches are not signed. */
  readonly signer?: BatchSigner | undefined
}

export type Sender = {
  /** Writes items that share no stream in one transaction. Returns one outcome per item. Never throws. */
  send(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  close(): Promise<void>
}

/** A connection, and the stream revisions written over it. The cache is valid only as long as its connection. */
type Session = { readonly connection: Connection; readonly tails: StreamRevisionCache }

/**
 * Overrides the defaults of the database, so that an acknowledged append is on disk, and each statement of
 * `log.begin_batch` sees all earlier commits. A stricter `synchronous_commit` is unchanged.
 */
const sessionSql = `
  select
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('synchronous_commit', case current_setting('synchronous_commit')
      when 'off' then 'on' when 'local' then 'on' else current_setting('synchronous_commit') end, false)`

const failed = (
  items: readonly AppendItem[],
  status: 'unavailable' | 'unknown',
  cause: Error,
): ItemOutcome[] => items.map(() => ({ status, cause, landed: [] }))

/** The log lost events that this process knows: a lagging standby took over, or an older backup was restored. */
class LogSetBack extends Error {
  override readonly name = 'LogSetBack'
}

/**
 * Writes batches over a dedicated connection. It connects with the first batch, and again after a broken connection.
 */
export const createSender = (options: SenderOptions): Sender => {
  const {
    statementTimeoutMs,
    answerTimeoutMs,
    seen: newestKnown,
    onSetBack,
    onHead,
    onCommitted,
    onTrouble,
  } = options
  const { clockOffsetMs, signer } = options
  let session: Session | null = null
  let setBack: LogSetBack | null = null

  /** Checked once per connection, because a fail-over or a restore ends all connections. */
  const refuseSetBack = async (client: pg.Client): Promise<void> => {
    const known = newestKnown.newest()
    if (known === null) return
    const { rows } = await client.query<{ id: string }>(
      'select id from log.events where position = $1::bigint',
      [known.position],
    )
    if (rows[0]?.id === known.id) return
    setBack = new LogSetBack(
      `the log was set back under this process: it does not have event ${known.id} at position ${known.position}. Nothing is appended any more; start the process again`,
    )
    onSetBack(setBack)
    throw setBack
  }

  const open = async (): Promise<Session> => {
    if (session?.connection.isOpen) return session
    if (setBack !== null) throw setBack
    const opened = await connect(
      { ...options.connection, application_name: 'farebox-append', statement_timeout: statementTimeoutMs },
      (error) => {
        if (error !== null) onTrouble('the connection of the appends broke', error)
      },
    )
    try {
      await withAnswerTimeout(opened.client.query(sessionSql), answerTimeoutMs)
      await withAnswerTimeout(refuseSetBack(opened.client), answerTimeoutMs)
    } catch (error) {
      opened.destroy()
      throw error
    }
    session = { connection: opened, tails: createStreamRevisionCache() }
    return session
  }

  const futureOf = (items: readonly AppendItem[]): ReturnType<typeof futureCheck> =>
    clockOffsetMs === undefined ? null : futureCheck(items, clockOffsetMs())

  /** Returns the position before the batch, or null if an expectation is wrong: then nothing was written. */
  const writeAsExpected = async (
    { connection, tails }: Session,
    items: readonly AppendItem[],
  ): Promise<number | null> => {
    const rows = rowsOf(items)
    const signature = signer?.sign(rows) ?? null
    try {
      const steps = batchSteps(items, rows, signature, tails, futureOf(items))
      const [opened] = await runPipeline(connection.client, steps)
      const base = opened![0]![0]
      return base === null ? null : Number(base)
    } catch (error) {
      // A stream that must not exist does exist, or a stream is longer than the revision cache of this connection
      // shows.
      if (isDuplicate(error)) return null
      throw error
    }
  }

  /** Appends the items whose expectations are right, then signs them in the same transaction. */
  const writeJudged = (client: pg.Client, items: readonly AppendItem[]) =>
    transact(client, async () => {
      const future = futureOf(items)
      // It needs another statement name, because `pg` does not track the statements that the pipeline prepared.
      if (future !== null)
        await client.query({
          name: 'farebox-refuse-future-judged',
          text: future.statement.text,
          values: future.values,
        })
      const query = {
        name: 'farebox-append-judged',
        text: conditionalAppendSql,
        values: conditionalAppendParameters(items),
      }
      const { rows } = await client.query<{ base: number | string; verdicts: AppendVerdict[] | null }>(query)
      const { base, verdicts } = rows[0]!
      const landed = rowsOf(items, (append) => verdicts === null || verdicts[append]![0] === 'landed')
      const signature = landed.length === 0 ? null : (signer?.sign(landed) ?? null)
      if (signature !== null)
        await client.query({ ...signBatch, values: signatureValues(landed.length, signature) })
      return { ...batchOutcomes(items, Number(base), verdicts), base: Number(base), wrote: landed.length > 0 }
    })

  const write = async (current: Session, items: readonly AppendItem[]) => {
    const { connection, tails } = current
    const inTime = <Value>(answer: Promise<Value>): Promise<Value> =>
      withAnswerTimeout(answer, answerTimeoutMs)
    const base = await inTime(writeAsExpected(current, items))
    if (base === null) {
      const judged = await inTime(writeJudged(connection.client, items))
      if (judged.wrote) signer?.onCommitted(judged.base + 1)
      for (const outcome of judged.outcomes)
        if (outcome.status === 'conflict') tails.contested(outcome.stream)
      return judged
    }
    signer?.onCommitted(base + 1)
    tails.recordAppended(items)
    onCommitted(base, items)
    return batchOutcomes(items, base, null)
  }

  /** Sends each item of a rejected batch separately, so that only items with bad data fail. */
  const sendSeparately = async (items: readonly AppendItem[]): Promise<ItemOutcome[]> => {
    const outcomes: ItemOutcome[] = []
    for (const [index, item] of items.entries()) {
      const [outcome] = await send([item])
      outcomes.push(outcome!)
      if (outcome!.status === 'unavailable' || outcome!.status === 'unknown')
        return [...outcomes, ...failed(items.slice(index + 1), 'unavailable', outcome!.cause)]
    }
    return outcomes
  }

  const send = async (items: readonly AppendItem[]): Promise<readonly ItemOutcome[]> => {
    let current: Session
    let preamble: AppendItem | null
    try {
      current = await open()
      preamble = (await signer?.preamble()) ?? null
    } catch (error) {
      return failed(items, 'unavailable', error as Error)
    }
    const all = preamble === null ? items : [preamble, ...items]
    try {
      const { outcomes, head } = await write(current, all)
      newestKnown.sent(all, outcomes)
      onHead(head)
      return preamble === null ? outcomes : outcomes.slice(1)
    } catch (error) {
      const cause = error as Error
      const failure = classifyFailure(cause)
      if (failure === 'data')
        return items.length === 1 ? [{ status: 'rejected', cause, landed: [] }] : sendSeparately(items)
      // The session may be the cause, through settings that it got when it was opened: a read-only default, a role, a
      // limit.
      current.connection.destroy()
      if (failure === 'unknown') signer?.onOutcomeUnknown()
      return failed(items, failure, cause)
    }
  }

  return {
    send,
    close: async () => {
      if (!session?.connection.isOpen) return
      const { client, destroy } = session.connection
      await withAnswerTimeout(client.end(), answerTimeoutMs).catch(destroy)
    },
  }
}
