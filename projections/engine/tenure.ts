import type { Clock } from '../../src/clock.ts'
import type { RecordedEvent } from '../../src/eventstore/event.ts'
import type { EventLog } from '../../src/eventstore/port.ts'
import { type GiveWay, patienceMs, patientUntil } from '../../src/lulls.ts'
import { subjectsOf } from './changes.ts'
import { raiseEpoch, readCheckpoint, refuseForeignLog } from './checkpoint.ts'
import { type LogFeed, UndecodableEvent } from './feed.ts'
import { foldBatch, PoisonEvent, type TableChange } from './fold-batch.ts'
import type { Gate } from './gate.ts'
import type { Progress } from './progress.ts'
import type { ReadModelGroup } from './read-model.ts'
import { createRowCache } from './row-cache.ts'
import type { Session } from './session.ts'
import { type BatchWriter, createBatchWriter } from './write-batch.ts'

export type BatchDone = {
  readonly group: string
  readonly events: number
  readonly rows: number
  readonly durationMs: number
}

/** Named points of a batch, for tests that kill the process there. `sent`: the transaction is on its way. */
export type BatchPoint = 'projection-batch-folded' | 'projection-batch-sent'

export type TenureContext = {
  readonly log: EventLog
  readonly feed: LogFeed
  readonly progress: Progress
  readonly gate: Gate
  readonly logId: string
  /** Events of one batch at most. */
  readonly maxBatch: number
  readonly maxRows: number
  /** How long events are gathered after a batch while nobody waits to read them. */
  readonly gatherMs: number
  /** Called between steps of folding and before a batch is written, while the batch is in good time by the clock. */
  readonly giveWay: GiveWay
  readonly clock: Clock
  readonly onBatch?: ((batch: BatchDone) => void) | undefined
  readonly onPoint?: ((point: BatchPoint) => void | Promise<void>) | undefined
}

/** How a tenure ended: its tables were exchanged, another owner took over, or an event cannot be applied. */
export type TenureEnd =
  | { readonly kind: 'fenced' }
  | { readonly kind: 'poisoned'; readonly error: Error; readonly epoch: number }

/** SQLSTATE classes of data that Postgres does not take: values, constraints, texts it cannot read, sizes. */
const isDataError = (error: unknown): boolean =>
  /^(22|23|54)/.test((error as { code?: unknown }).code?.toString() ?? '')

/** How soon an owner with nothing to fold learns that another program exchanged its tables. */
const fenceCheckMs = 500

/** Aborts its signal when the group's epoch is no longer this one. */
const watchFence = (session: Session, group: string, epoch: number, isWriting: () => boolean) => {
  const fenced = new AbortController()
  const look = async (): Promise<void> => {
    const checkpoint = await readCheckpoint(session.client, group)
    if (checkpoint?.epoch !== epoch) fenced.abort(new Error(`group ${group} is at another epoch`))
  }
  let looking: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    // A session takes one statement at a time, and a batch on its way looks at the epoch by itself.
    if (isWriting()) return
    // A query that fails ends with its session, which the tenure notices by itself.
    looking = look().catch(() => undefined)
  }, fenceCheckMs)
  return { signal: fenced.signal, looked: () => looking, stop: () => clearInterval(timer) }
}

/**
 * Lets events gather between batches, so that rows which change again and again are written once: wallets, counts and
 * plans under load. It ends at once when a read waits, and never stands before the first batch after a quiet time.
 */
const gather = async (
  { progress }: Pick<TenureContext, 'progress'>,
  group: string,
  waitMs: number,
  ended: AbortSignal,
): Promise<void> => {
  if (waitMs <= 0 || ended.aborted) return
  const over = Promise.withResolvers<void>()
  const stop = (): void => over.resolve()
  const timer = setTimeout(stop, waitMs)
  ended.addEventListener('abort', stop, { once: true })
  const unsubscribe = progress.onAwaited(group, stop)
  await over.promise
  unsubscribe()
  ended.removeEventListener('abort', stop)
  clearTimeout(timer)
}

const countRows = (tables: readonly TableChange[]): number =>
  tables.reduce((sum, { inserted, put, removed }) => sum + inserted.length + put.length + removed.length, 0)

/**
 * Folds the log into the group's tables as their only writer, until the signal, an error of the connection (thrown),
 * or an end that the caller must look at. Each batch lands with its checkpoint, exactly once, at this tenure's epoch.
 */
export const holdTenure = async (
  context: TenureContext,
  group: ReadModelGroup,
  session: Session,
  signal: AbortSignal,
): Promise<TenureEnd> => {
  const { feed, progress, gate, logId, onBatch, onPoint } = context
  const { maxBatch = context.maxBatch, gatherMs = context.gatherMs } = group
  const checkpoint = await raiseEpoch(session.client, group.name)
  await refuseForeignLog(group.name, checkpoint, context.log)
  const { epoch } = checkpoint
  const reader = feed.reader()
  const cache = createRowCache({ maxRows: context.maxRows, complete: false })
  const writer: BatchWriter = createBatchWriter(session.client, 'read')
  let { position } = checkpoint
  let limit = maxBatch
  let gatherUntilMs = 0
  let writing = false

  const applyBatch = async (events: readonly RecordedEvent[], giveWay: GiveWay): Promise<boolean> => {
    const startedMs = performance.now()
    const { models } = group
    const changes = await foldBatch({ models, events, cache, load: writer.load, giveWay })
    await onPoint?.('projection-batch-folded')
    const { position: to, id: lastEvent } = events.at(-1) as RecordedEvent
    const step = { group: group.name, logId, epoch, from: position, to, lastEvent }
    await giveWay()
    // Told before and after: what is read meanwhile may be of either side.
    const subjects = subjectsOf(changes.tables)
    progress.changed(group.name, subjects)
    const written = writer.write(changes.tables, step)
    // It is awaited below; a failure while the point is passed is not unhandled.
    written.catch(() => undefined)
    await onPoint?.('projection-batch-sent')
    if (!(await written)) return false
    changes.commit()
    position = to
    progress.changed(group.name, subjects)
    progress.advanceOwn(group.name, to)
    onBatch?.({
      group: group.name,
      events: events.length,
      rows: countRows(changes.tables),
      durationMs: performance.now() - startedMs,
    })
    return true
  }

  /** Until then its fold may wait for lulls. */
  const dueMs = ({ metadata }: RecordedEvent): number =>
    Date.parse(metadata.recordedAt) + gatherMs + patienceMs

  const fold = async (ended: AbortSignal): Promise<TenureEnd> => {
    for (;;) {
      let events: readonly RecordedEvent[]
      let giveWay: GiveWay
      try {
        const [first] = await reader.next(position, 1, ended)
        await gather(context, group.name, gatherUntilMs - performance.now(), ended)
        giveWay = patientUntil(context.giveWay, dueMs(first as RecordedEvent), context.clock)
        await giveWay()
        events = await reader.next(position, limit, ended)
      } catch (error) {
        if (error instanceof UndecodableEvent) return { kind: 'poisoned', error, epoch }
        throw error
      }
      try {
        const write = async (): Promise<boolean> => {
          writing = true
          await fence.looked()
          return applyBatch(events, giveWay)
        }
        if (!(await gate.pass(ended, write))) return { kind: 'fenced' }
        // A full batch means that more than can be folded at once is there already.
        gatherUntilMs = events.length < limit ? performance.now() + gatherMs : 0
        limit = maxBatch
      } catch (error) {
        if (error instanceof PoisonEvent) {
          const sound = events.indexOf(error.event)
          if (sound === 0) return { kind: 'poisoned', error, epoch }
          // What stands before it is applied first.
          limit = sound
        } else if (isDataError(error) && !session.ended.aborted) {
          const [first] = events as [RecordedEvent]
          if (events.length === 1)
            return { kind: 'poisoned', error: new PoisonEvent(first, group.name, error), epoch }
          // Nothing landed. Smaller and smaller batches find the event that the database does not take.
          limit = Math.max(1, Math.floor(events.length / 2))
        } else throw error
      } finally {
        writing = false
      }
    }
  }

  progress.advance(group.name, position)
  const fence = watchFence(session, group.name, epoch, () => writing)
  try {
    return await fold(AbortSignal.any([signal, fence.signal]))
  } catch (error) {
    if (fence.signal.aborted && !signal.aborted) return { kind: 'fenced' }
    throw error
  } finally {
    fence.stop()
    reader.close()
  }
}
