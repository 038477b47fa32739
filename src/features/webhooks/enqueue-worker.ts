import type pg from 'pg'
import type { Logger } from 'pino'
import { webhookDeliveries, webhookDue } from '../../../projections/groups.ts'
import { webhookQueue } from '../../../projections/webhook-queue.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import type { Leadership, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { openCancellations, openStale } from './cancel-deliveries.ts'
import { openDueEvents } from './enqueue-deliveries.ts'
import { openFanOuts } from './fan-out.ts'

/**
 * Calls back when webhooks may be due in the read tables, and when the queue has changed. Returns the unsubscribe
 * function.
 */
export const onWebhooks = (
  { watch }: Pick<Progress, 'watch'>,
  { due = () => undefined, queued }: { readonly due?: () => void; readonly queued: () => void },
): (() => void) => {
  const unsubscribers = [
    watch(webhookDue.name, ['webhooks_due', 'webhooks_stale', 'webhook_announcements']).onChange(due),
    watch(webhookDeliveries.name, [webhookQueue.name]).onChange(queued),
  ]
  return () => {
    for (const each of unsubscribers) each()
  }
}

export type EnqueuerDeps = {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
  readonly logger: Logger
  /** Named points where tests inject failures. */
  readonly onPoint?: ((point: 'webhooks-enqueued') => void) | undefined
  /** The longest silence of its session by Postgres or by this process, milliseconds; default 30,000. */
  readonly answerTimeoutMs?: number
}

export type Enqueuer = {
  /** The read tables may contain due webhooks. */
  wake(): void
  stop(): Promise<void>
}

export const webhookEnqueue = worker({
  name: 'webhook-enqueue',
  about: 'Writes due webhooks to the log, one for each endpoint that listens',
  trigger: { everyMs: 500, or: 'a webhook is due' },
  per: 'cluster',
  lock: 'webhook reactor',
  session: 'farebox webhooks',
  process: 'server',
})
/** For this time after the last work, polling is faster. */
const busyMs = 2_000
const busyPollMs = 100
const backoffMs = 1_000

/**
 * Appends what the read tables list as due: events for subscribed endpoints, announcements to audiences, and
 * cancellations for disabled or removed endpoints. It stores only the progress of announcements, and all of its work is
 * idempotent. One process at a time runs it, to save the others the work.
 */
export const startEnqueuer = (deps: EnqueuerDeps): Enqueuer => {
  const { scheduler, logger, onPoint, answerTimeoutMs } = deps

  const work = async ({ signal, repeat }: Leadership): Promise<void> => {
    const groupAbort = new AbortController()
    const combinedSignal = AbortSignal.any([signal, groupAbort.signal])
    /** @param round returns whether there may be more */
    const repeatRounds = (round: () => Promise<boolean>): Promise<void> => {
      let busyUntilMs = 0
      return repeat(async () => {
        if (await round()) {
          busyUntilMs = performance.now() + busyMs
          return 0
        }
        return performance.now() < busyUntilMs ? busyPollMs : webhookEnqueue.trigger.everyMs
      }, combinedSignal)
    }
    const onEnqueued = () => onPoint?.('webhooks-enqueued')
    const loops = [
      openDueEvents({ ...deps, onEnqueued }).then(repeatRounds),
      openFanOuts(deps, combinedSignal).then(repeatRounds),
      repeatRounds(openCancellations(deps)),
      repeatRounds(openStale(deps)),
    ]
    try {
      await Promise.race(loops)
    } finally {
      groupAbort.abort(new Error('another part of the enqueuer has ended'))
      await Promise.allSettled(loops)
    }
  }

  return scheduler.lead(webhookEnqueue, work, {
    answerTimeoutMs,
    onError: (error) => {
      logger.error({ err: error, reactor: 'webhooks' }, 'the webhook reactor failed and will try again')
      return backoffMs
    },
  })
}
