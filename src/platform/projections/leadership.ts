import type { Clock } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { every } from '../../kernel/every.ts'
import { maxYieldMs, type YieldToCommands, yieldWhileOnTime } from '../commands/background-scheduler.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { Session } from '../postgres/postgres-session.ts'
import { readEpoch, refuseForeignLog, startEpoch } from './checkpoint.ts'
import { type LogFeed, UndecodableEvent } from './feed.ts'
import {
  type Fold,
  type FoldWatch,
  isDataError,
  modelOfRow,
  PoisonEvent,
  startFold,
  type TableChange,
} from './fold-batch.ts'
import type { Progress } from './progress.ts'
import { type Gate, sendHint } from './progress.ts'
import type { ReadModelGroup } from './read-model.ts'
import { createRowCache } from './row-cache.ts'
import { type BatchWriter, createBatchWriter, writeWork } from './write-batch.ts'

export type BatchDone = {
  readonly group: string
  readonly events: number
  readonly rows: number
}

/** Points of a batch at which tests kill the process. `sent`: the transaction is sent and not answered. */
export type BatchPoint = 'projection-batch-folded' | 'projection-batch-sent'

export type LeaderContext = {
  readonly log: EventLog
  readonly feed: LogFeed
  readonly progress: Progress
  readonly gate: Gate
  readonly logId: string
  /** A batch of this many events is written. */
  readonly maxBatch: number
  readonly maxRows: number
  /** How long after the last write a batch still accepts events, milliseconds. It is shorter if a read waits. */
  readonly batchWindowMs: number
  /** Called between steps of folding and before a batch is written, unless the batch is late by the clock. */
  readonly yieldToCommands: YieldToCommands
  readonly clock: Clock
  readonly onBatch?: ((batch: BatchDone) => void) | undefined
  readonly watch?: FoldWatch | undefined
  readonly onPoint?: ((point: BatchPoint) => void | Promise<void>) | undefined
}

/** An event that one model cannot apply, or that no model can apply because it cannot be decoded. */
export type Poison = PoisonEvent | UndecodableEvent

export const isPoison = (error: unknown): error is Poison =>
  error instanceof PoisonEvent || error instanceof UndecodableEvent

/**
 * How a leadership ended: its tables were replaced or another owner took over (`fenced`), or an event cannot be
 * applied (`poisoned`).
 */
export type LeadershipEnd =
  | { readonly kind: 'fenced' }
  | { readonly kind: 'poisoned'; readonly error: Poison; readonly epoch: number }

/** The most events in one read. They are decoded together: some milliseconds that block the event loop. */
const maxRead = 1_000

/** After this time an owner without events detects that another program replaced its tables, milliseconds. */
const fenceCheckMs = 5_000

/** Aborts its signal when the group has another epoch. Otherwise it calls `current`. */
const watchFence = (
  session: Session,
  group: string,
  epoch: number,
  { isBusy, current }: { readonly isBusy: () => boolean; readonly current: () => void },
) => {
  const fenceController = new AbortController()
  const checkFence = async (): Promise<void> => {
    if ((await readEpoch(session.client, group)) !== epoch)
      fenceController.abort(new Error(`group ${group} is at another epoch`))
    else current()
  }
  let currentCheck: Promise<void> | null = null
  const stop = every(fenceCheckMs, () => {
    // A session executes one statement at a time, and the write of a batch checks the epoch, too.
    if (isBusy() || currentCheck !== null) return
    // The query fails when the session ends, which the caller detects by itself.
    currentCheck = checkFence()
      .catch(() => undefined)
      .finally(() => {
        currentCheck = null
      })
  })
  return { signal: fenceController.signal, looked: async () => currentCheck, stop }
}

/** A batch accepts events while the window is open. */
type Window = {
  isOver(): boolean
  readonly elapsed: Promise<void>
  close(): void
}

/**
 * Collects events between batches, so that rows that change often under load (wallets, counts, plans) are written
 * once. The window ends at once if a read waits, and for the first batch after a quiet time.
 */
const openWindow = (progress: Progress, group: string, waitMs: number): Window => {
  const { promise: elapsed, resolve } = Promise.withResolvers<void>()
  let isOver = waitMs <= 0
  const end = (): void => {
    isOver = true
    resolve()
  }
  const timer = setTimeout(end, Math.max(waitMs, 0))
  const unsubscribe = progress.onAwaited(group, end)
  return {
    isOver: () => isOver,
    elapsed,
    close: () => {
      clearTimeout(timer)
      unsubscribe()
    },
  }
}

const rowsOf = ({ inserted, put, removed }: TableChange): number =>
  inserted.length + put.length + removed.length

const hasRows = (change: TableChange): boolean => rowsOf(change) > 0

const countRows = (tables: readonly TableChange[]): number =>
  tables.reduce((sum, change) => sum + rowsOf(change), 0)

/**
 * Folds the log into the group's tables as their only writer, without the tables of stopped models. Ends when the signal is aborted, on an error of the
 * connection (thrown), or with an end that the caller must handle. Each batch is written with its checkpoint, exactly
 * once, under the epoch of this leadership.
 */
export const foldAsLeader = async (
  context: LeaderContext,
  group: ReadModelGroup,
  session: Session,
  signal: AbortSignal,
): Promise<LeadershipEnd> => {
  const { feed, progress, gate, logId, onBatch, onPoint, watch } = context
  const { maxBatch = context.maxBatch, batchWindowMs = context.batchWindowMs } = group
  const checkpoint = await startEpoch(session.client, group.name)
  await refuseForeignLog(group.name, checkpoint, context.log)
  const { epoch } = checkpoint
  const models = group.models.filter(({ name }) => !(name in checkpoint.stopped))
  const reader = feed.reader()
  const cache = createRowCache({ maxRows: context.maxRows, complete: false })
  const writer: BatchWriter = createBatchWriter(session.client, 'read')
  let { position } = checkpoint
  let limit = maxBatch
  let windowEndMs = 0
  let busy = false
  /** When the last folded event was recorded. Later events are not older. */
  let foldedMs = Number.NEGATIVE_INFINITY

  const yieldWhileCatchingUp = yieldWhileOnTime(
    context.yieldToCommands,
    () => context.clock() < foldedMs + batchWindowMs + maxYieldMs,
  )

  /** The events of the current batch for the group's work tables. */
  let workEvents: RecordedEvent[] = []

  /** Folds events into a batch, yielding to commands, until it must be written or an event cannot be applied. */
  const fill = async (fold: Fold, ended: AbortSignal): Promise<void> => {
    const at = (): number => fold.last?.position ?? position
    const window = openWindow(progress, group.name, windowEndMs - performance.now())
    const waitForMore = async (): Promise<boolean> => {
      await Promise.race([window.elapsed, reader.waitForEvent(at(), ended)])
      return reader.has(at())
    }
    try {
      let isLast: boolean
      do {
        // Events that are available at the end of the window are still included.
        isLast = window.isOver()
        await yieldWhileCatchingUp()
        const events = await reader.next(at(), Math.min(limit, maxRead), ended)
        busy = true
        await fence.looked()
        await fold.take(events, yieldWhileCatchingUp)
        if (group.work)
          for (const event of events) if (group.work.types.has(event.type)) workEvents.push(event)
        foldedMs = Date.parse((fold.last as RecordedEvent).metadata.recordedAt)
      } while (!isLast && fold.events < limit && (await waitForMore()))
    } finally {
      window.close()
    }
  }

  /** False if the checkpoint was not at the start of the batch: another owner is active. */
  const write = async (fold: Fold): Promise<boolean> => {
    await onPoint?.('projection-batch-folded')
    await yieldWhileCatchingUp()
    const { position: to, id: lastEvent } = fold.last as RecordedEvent
    const changes = fold.changes()
    await watch?.beforeWrite({ group: group.name, after: position, through: to, tables: changes.tables })
    const step = { group: group.name, logId, epoch, from: position, to, lastEvent }
    const written = group.work
      ? writeWork(session.client, group.work, workEvents, step)
      : writer.write(changes.tables, step).then((landed) => (landed ? countRows(changes.tables) : null))
    // It is awaited below. A failure during `onPoint` must not be an unhandled rejection.
    written.catch(() => undefined)
    await onPoint?.('projection-batch-sent')
    const rows = await written
    if (rows === null) return false
    changes.commit()
    position = to
    const tables = changes.tables.filter(hasRows).map(({ table }) => table.name)
    if (group.work && rows > 0) tables.push(group.work.name)
    progress.changed(group.name, tables)
    progress.advanceAsOwner(group.name, to)
    const hintTables = tables.filter((name) => group.held?.includes(name))
    if (hintTables.length > 0) await sendHint(session.client, group.name, hintTables)
    onBatch?.({ group: group.name, events: fold.events, rows })
    return true
  }

  /** Null while the group can continue. */
  const takeBatch = async (ended: AbortSignal): Promise<LeadershipEnd | null> => {
    await reader.waitForEvent(position, ended)
    const fold = startFold({ models, cache, load: writer.load })
    workEvents = []
    let poison: Poison | null = null
    try {
      await fill(fold, ended)
    } catch (error) {
      if (!isPoison(error)) throw error
      poison = error
    }
    // The events before the poison event are applied first.
    if (fold.last !== null)
      try {
        if (!(await gate.pass(ended, () => write(fold)))) return { kind: 'fenced' }
        windowEndMs = fold.events < limit ? performance.now() + batchWindowMs : 0
        limit = maxBatch
      } catch (error) {
        if (!isDataError(error) || session.ended.aborted) throw error
        // Nothing was written. Smaller and smaller batches find the event that the database rejects.
        if (fold.events > 1) {
          limit = Math.floor(fold.events / 2)
          return null
        }
        poison = new PoisonEvent(fold.last, modelOfRow(error, models)?.name ?? group.name, error)
      }
    return poison && { kind: 'poisoned', error: poison, epoch }
  }

  const foldUntilEnd = async (ended: AbortSignal): Promise<LeadershipEnd> => {
    for (;;) {
      const end = await takeBatch(ended)
      busy = false
      if (end) return end
    }
  }

  progress.advance(group.name, checkpoint)
  const fence = watchFence(session, group.name, epoch, {
    isBusy: () => busy,
    current: () => progress.advanceAsOwner(group.name, position),
  })
  try {
    return await foldUntilEnd(AbortSignal.any([signal, fence.signal]))
  } catch (error) {
    if (fence.signal.aborted && !signal.aborted) return { kind: 'fenced' }
    throw error
  } finally {
    fence.stop()
    reader.close()
  }
}
