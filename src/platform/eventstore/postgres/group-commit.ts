import type pg from 'pg'
import { runPipeline } from '../../postgres/pipeline.ts'
import { transact } from '../../postgres/transaction.ts'
import { appendBytes, assertItems, refusalOf } from '../append-checks.ts'
import type { AppendItem, ItemOutcome } from '../port.ts'
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
import { type Connection, connect, withAnswerTimeout } from './connection.ts'
import {
  createStreamRevisionCache,
  type NewestKnownEvent,
  type StreamRevisionCache,
} from './revision-cache.ts'

/** Items that may wait in one process; beyond it they are answered `unavailable` at once. */
const maxWaitingItems = 50_000

export type BatchReport = { readonly items: number; readonly bytes: number; readonly durationMs: number }

export type GroupCommit = {
  appendAll(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  /** Writes what waits, then takes nothing more. */
  close(): Promise<void>
}

type Pending = QueuedItem & { readonly settle: (outcome: ItemOutcome) => void }

/** Why no log takes the item, or what it weighs. */
const weigh = ({ appends }: AppendItem): number | ItemOutcome => {
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
 * Group commit: whatever arrives while a batch is on its way shares the next one, so the cost of a commit is shared by
 * all who wait for it. One batch is in flight at a time.
 */
export const createGroupCommit = (
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

  /** From a microtask, so that all that one turn of the program appends shares a batch. */
  const wake = (): void => {
    writing ??= Promise.resolve().then(writeAll)
  }

  const submit = (item: AppendItem): Promise<ItemOutcome> | ItemOutcome => {
    if (item.appends.length === 0) return { status: 'landed', appended: [] }
    const bytes = weigh(item)
    if (typeof bytes !== 'number') return bytes
    const refuse = (why: string): ItemOutcome => ({
      status: 'unavailable',
      cause: new Error(why),
      landed: [],
    })
    if (closed) return refuse('the log is closed')
    if (queue.length >= maxWaitingItems) return refuse(`${maxWaitingItems} appends wait already`)
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
  /** Postgres gives a batch up after this long, milliseconds. */
  readonly statementTimeoutMs: number
  /** An answer that takes longer is given up with its connection, milliseconds; more than the server's own limit. */
  readonly answerTimeoutMs: number
  /** Told of the position of the last event after a batch that wrote. */
  readonly onHead: (position: number) => void
  /** Told, before that, of a batch whose items all landed, and of the position before it. */
  readonly onCommitted: (base: number, items: readonly AppendItem[]) => void
  /** The newest event that this process knows: a log without it is another one than the process decides on. */
  readonly seen: Pick<NewestKnownEvent, 'sent' | 'newest'>
  /** Told, once, that the log does not have it; nothing is appended from then on. */
  readonly onSetBack: (error: Error) => void
  /** Told of connections that broke. */
  readonly onTrouble: (what: string, error: Error) => void
  /** How far the service's clock is ahead of Postgres's by intention, milliseconds. Left out: times are not checked. */
  readonly clockOffsetMs?: (() => number) | undefined
  /** Left out: nothing is signed. */
  readonly signer?: BatchSigner | undefined
}

export type Sender = {
  /** Writes disjoint items in one transaction; one outcome an item. Never throws. */
  send(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  close(): Promise<void>
}

/** A connection, and what was written over it: neither outlives the other. */
type Session = { readonly connection: Connection; readonly tails: StreamRevisionCache }

/**
 * Whatever the database's defaults say: an acknowledged append is on disk (a stricter setting stays), and each statement
 * of `log.begin_batch` sees what was committed before it.
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

/** The log lost events that this process knows: a standby that lagged took over, or an older backup was restored. */
class LogSetBack extends Error {
  override readonly name = 'LogSetBack'
}

/** Writes batches over one connection of its own, opened when it is first needed and anew after it broke. */
export const createSender = (options: SenderOptions): Sender => {
  const { statementTimeoutMs, answerTimeoutMs, seen, onSetBack, onHead, onCommitted, onTrouble } = options
  const { clockOffsetMs, signer } = options
  let session: Session | null = null
  let setBack: LogSetBack | null = null

  /** No log is set back under a connection: a fail-over and a restore end all of them. */
  const refuseSetBack = async (client: pg.Client): Promise<void> => {
    const known = seen.newest()
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
    if (session?.connection.isOpen()) return session
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

  /** Gives the position before the batch, or null when an expectation does not hold: then nothing was written. */
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
      // A stream that must not exist stands already, or one goes further than this connection wrote it.
      if (isDuplicate(error)) return null
      throw error
    }
  }

  /** Signed once it is known what lands, in the same transaction. */
  const writeJudged = (client: pg.Client, items: readonly AppendItem[]) =>
    transact(client, async () => {
      const future = futureOf(items)
      // Under a name of its own: `pg` does not know of what the pipeline has prepared.
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

  /** After a batch that Postgres refused: each item alone, so that only those at fault fail. */
  const sendApart = async (items: readonly AppendItem[]): Promise<ItemOutcome[]> => {
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
      seen.sent(all, outcomes)
      onHead(head)
      return preamble === null ? outcomes : outcomes.slice(1)
    } catch (error) {
      const cause = error as Error
      const failure = classifyFailure(cause)
      if (failure === 'data')
        return items.length === 1 ? [{ status: 'rejected', cause, landed: [] }] : sendApart(items)
      // Its session may be the cause, by what it took over when it was opened: a read-only default, a role, a limit.
      current.connection.destroy()
      if (failure === 'unknown') signer?.onOutcomeUnknown()
      return failed(items, failure, cause)
    }
  }

  return {
    send,
    close: async () => {
      if (!session?.connection.isOpen()) return
      const { client, destroy } = session.connection
      await withAnswerTimeout(client.end(), answerTimeoutMs).catch(destroy)
    },
  }
}
