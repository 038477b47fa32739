import type pg from 'pg'
import type { Logger } from 'pino'
import type { LogFeed, LogReader, Selection } from '../../../../projections/engine/feed.ts'
import type { Clock } from '../../../kernel/clock.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
import { createLowPlans } from '../low-plans.ts'
import { finishedStatus } from '../outcomes.ts'
import { eraseEndpoint } from '../vault.ts'
import { cancelPending, cancelStale } from './cancel.ts'
import { noticeOfDisabling } from './disabled-notice.ts'
import { enqueue } from './enqueue.ts'
import { openFanOut } from './fan-out.ts'
import { withPayload } from './payload.ts'
import { isIdle, reactorTypes, type Step, takeStep } from './step.ts'
import { createSubscribers } from './subscribers.ts'
import {
  type Ended,
  loadLowPlans,
  loadSubscribers,
  movePlace,
  type Place,
  saveAccounts,
  saveEndpoints,
  saveLowPlans,
  saveOutcomes,
  saveQueued,
  saveSuperseded,
  startOver,
  takePlace,
} from './tables.ts'
import { writeFacts } from './write-facts.ts'

/** Another process took over. */
class Fenced extends Error {
  override readonly name = 'Fenced'
}

/** The tables belong to another log; the message says what to do. */
class ForeignLog extends Error {
  override readonly name = 'ForeignLog'
}

/** A newer release is at work. */
class Superseded extends Error {
  override readonly name = 'Superseded'
}

export type TenureDeps = {
  readonly client: pg.ClientBase
  readonly feed: LogFeed
  readonly log: EventLog
  readonly clock: Clock
  readonly logger: Logger
  /** Deliveries were queued; or a list of recipients was opened. */
  readonly onQueued: () => void
  readonly onFanOut: () => void
  readonly onProgress: (position: number) => void
  /** Named points, for tests that kill the process there. */
  readonly onPoint?: ((point: 'webhooks-enqueued' | 'webhooks-committed') => void) | undefined
}

const maxBatch = 1_000
/** A busy log is looked at some forty times a second and not at every append. */
const gatherMs = 25
/** How often an idle reactor writes its place: what a crash has it read again asks for nothing. */
const idleCommitMs = 500

/**
 * The place where the reactor goes on. A place that the log does not have (it was restored to an earlier point, or the
 * tables come from a backup that is younger than the log's) is given up: everything is folded anew.
 * @throws ForeignLog, Superseded
 */
const openPlace = async ({
  client,
  log,
  logger,
}: Pick<TenureDeps, 'client' | 'log' | 'logger'>): Promise<Place> => {
  const logId = await log.logId()
  const place = await takePlace(client, logId)
  if (place === null)
    throw new Superseded(
      'a newer version of Farebox enqueues webhooks now, of events that this one does not know; stop this process',
    )
  if (place.logId !== logId)
    throw new ForeignLog(
      `the webhook tables were folded from the log ${place.logId}, but this log is ${logId}. Connect the database that belongs to the log`,
    )
  const head = await log.head()
  const known = place.lastEvent === null || (await log.eventAt(place.position))?.id === place.lastEvent
  if (known && place.position <= head) return place
  logger.warn(
    { position: place.position, event: place.lastEvent, head },
    'the log was restored to an earlier point: the webhook tables are made anew from it, and what it does not know to be delivered is sent again',
  )
  return await startOver(client, head)
}

/**
 * Follows the log as its one webhook reactor. What a batch wants is put into the log first, then everything that was
 * folded from it is committed with the new place: whoever dies in between does it again, and finds it done.
 */
export const holdTenure = async (deps: TenureDeps, signal: AbortSignal): Promise<never> => {
  const { client, feed, log, clock, onQueued, onFanOut, onProgress, onPoint } = deps
  let place = await openPlace(deps)
  const state = {
    subscribers: createSubscribers(await loadSubscribers(client)),
    lowPlans: createLowPlans(await loadLowPlans(client)),
  }
  let at: Pick<Place, 'position' | 'lastEvent'> = place
  let keptMs = performance.now()

  const move = async (to: typeof at): Promise<void> => {
    if (!(await movePlace(client, place, to)))
      throw new Fenced('another process, or a newer version of Farebox, is the webhook reactor now')
    place = { ...place, position: to.position, lastEvent: to.lastEvent }
    keptMs = performance.now()
  }

  const write = async (step: Step): Promise<void> => {
    const { barrier } = step
    if (step.endpoints.size > 0) await saveEndpoints(client, step.endpoints, state.subscribers)
    if (step.plans.size > 0) await saveLowPlans(client, step.plans, state.lowPlans)
    if (step.accounts.length > 0) await saveAccounts(client, step.accounts)
    if (step.superseded.length > 0) await saveSuperseded(client, step.superseded)
    if (step.queued.length > 0) await saveQueued(client, await withPayload(client, step.queued))
    const ended = endedIn(step)
    if (ended.length > 0) await saveOutcomes(client, ended)
    if (barrier?.kind === 'fan-out') await openFanOut(client, barrier)
  }

  /** What waits for an endpoint that is no more, once all that was queued before is in the table. */
  const cancel = async (barrier: Extract<Step['barrier'], { kind: 'cancel' }>): Promise<void> => {
    const { event, endpointId, reason } = barrier
    if (reason === 'endpoint_removed') await eraseEndpoint(client, endpointId)
    const { correlationId } = event.metadata
    const cause = { correlationId, causationId: event.id, reason, nowMs: clock() }
    await cancelPending({ db: client, log }, { endpointId, before: event.position }, cause)
    await writeFacts(log, noticeOfDisabling(event, cause.nowMs))
    if (reason === 'endpoint_removed')
      await client.query('delete from work.webhook_queues where endpoint_id = $1::text', [endpointId])
  }

  const commit = async (step: Step, to: typeof at): Promise<void> => {
    await enqueue(log, step.wanted, clock())
    if (step.stale.length > 0) await cancelStale(log, step.stale, clock())
    onPoint?.('webhooks-enqueued')
    // The place passes a cancellation only once it is done; done twice it does nothing the second time.
    const barrier = step.barrier?.kind === 'cancel' ? step.barrier : null
    await client.query('begin')
    try {
      await move(barrier ? { position: barrier.event.position - 1, lastEvent: null } : to)
      await write(step)
      await client.query('commit')
    } catch (error) {
      await client.query('rollback').catch(() => undefined)
      throw error
    }
    if (barrier) {
      await cancel(barrier)
      await move(to)
    }
    onPoint?.('webhooks-committed')
    if (step.queued.length > 0) onQueued()
    if (step.barrier?.kind === 'fan-out') onFanOut()
  }

  const take = async ({ events, through, lastEvent }: Selection): Promise<void> => {
    for (
      let rest = events;
      at.position < through;
      rest = rest.filter((event) => event.position > at.position)
    ) {
      const step = takeStep(rest, through, state)
      const to = { position: step.to, lastEvent: step.barrier?.event.id ?? lastEvent }
      if (!isIdle(step)) await commit(step, to)
      else if (performance.now() - keptMs >= idleCommitMs) await move(to)
      at = to
      onProgress(to.position)
    }
  }

  onProgress(at.position)
  const reader = feed.reader({ gatherMs })
  try {
    for (;;) {
      signal.throwIfAborted()
      const found = await nextWithin(reader, at.position, signal)
      if (found !== null) await take(found)
      else if (place.position < at.position) await move(at)
      else await client.query('select') // a word, for the bound on silence
    }
  } finally {
    reader.close()
  }
}

/** Deliveries that are over: by their outcome, or since they were queued for nobody. */
const endedIn = ({ outcomes, stale }: Step): readonly Ended[] => [
  ...outcomes.map(({ type, data, revision, metadata }) => ({
    deliveryId: data.deliveryId,
    status: finishedStatus(type),
    attempts: data.attempts,
    revision,
    at: metadata.recordedAt,
  })),
  ...stale.map(({ queued: { data, revision, metadata } }) => ({
    deliveryId: data.deliveryId,
    status: 'canceled' as const,
    attempts: 0,
    revision: revision + 1,
    at: metadata.recordedAt,
  })),
]

/** The next events, or null when none came for a while. */
const nextWithin = async (
  reader: LogReader,
  position: number,
  signal: AbortSignal,
): Promise<Selection | null> => {
  // Not `AbortSignal.timeout`: on a busy log forty of them a second would go off, each with an error that nobody reads.
  const idle = new AbortController()
  const timer = setTimeout(() => idle.abort(), idleCommitMs)
  try {
    await reader.arrived(position, AbortSignal.any([signal, idle.signal]))
  } catch (error) {
    if (idle.signal.aborted && !signal.aborted) return null
    throw error
  } finally {
    clearTimeout(timer)
  }
  return reader.nextOfTypes(position, maxBatch, reactorTypes, signal)
}
