import type pg from 'pg'
import type { Logger } from 'pino'
import { webhookDeliveries, webhookDue } from '../../../projections/groups.ts'
import { webhookQueue } from '../../../projections/webhook-queue.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { runAsLeader } from '../../platform/postgres/leader.ts'
import { sessionAnswerMs } from '../../platform/postgres/postgres-session.ts'
import type { Progress } from '../../platform/projections/progress.ts'
import { openCancellations, openStale } from './cancel-deliveries.ts'
import { openDueEvents } from './enqueue-deliveries.ts'
import { openFanOuts } from './fan-out.ts'

/** Tells when the read tables may say that something is due, and when the queue has changed. Returns the way to unsubscribe. */
export const onWebhooks = (
  { watch }: Pick<Progress, 'watch'>,
  { due = () => undefined, queued }: { readonly due?: () => void; readonly queued: () => void },
): (() => void) => {
  const forget = [
    watch(webhookDue.name, ['webhooks_due', 'webhooks_stale', 'webhook_announcements']).onChange(due),
    watch(webhookDeliveries.name, [webhookQueue.name]).onChange(queued),
  ]
  return () => {
    for (const each of forget) each()
  }
}

export type EnqueuerDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly clock: Clock
  readonly logger: Logger
  /** Named points, for tests that fail there. */
  readonly onPoint?: ((point: 'webhooks-enqueued') => void) | undefined
  /** How long its session may be without a word from Postgres, or from this process, milliseconds; default 30,000. */
  readonly answerTimeoutMs?: number
}

export type Enqueuer = {
  /** The read tables may hold something to do. */
  wake(): void
  stop(): Promise<void>
}

/** How often it is looked for work when nothing tells of it, such as what another process has folded. */
const pollMs = 500
/** For so long after there was some it is looked for more often. */
const busyMs = 2_000
const busyPollMs = 100
const backoffMs = 1_000

/**
 * Puts into the log what the read tables say is due: events for the endpoints that listened, announcements to audiences,
 * and the cancellation of what waits for an endpoint that is disabled or removed. It keeps no state of its own, and to do
 * anything twice does nothing the second time; one process at a time does it, to spare the others the work.
 */
export const startEnqueuer = (deps: EnqueuerDeps): Enqueuer => {
  const { pool, logger, onPoint, answerTimeoutMs = sessionAnswerMs } = deps
  const stopping = new AbortController()
  let woken = Promise.withResolvers<void>()
  const wake = (): void => {
    woken.resolve()
    woken = Promise.withResolvers()
  }

  /** @param work gives whether there may be more */
  const keepAt = async (work: () => Promise<boolean>, signal: AbortSignal): Promise<void> => {
    let busyUntilMs = 0
    while (!signal.aborted) {
      const { promise } = woken
      if (await work()) {
        busyUntilMs = performance.now() + busyMs
        continue
      }
      const over = Promise.withResolvers<void>()
      const timer = setTimeout(over.resolve, performance.now() < busyUntilMs ? busyPollMs : pollMs)
      await Promise.race([promise, over.promise])
      clearTimeout(timer)
    }
  }

  const work = async (signal: AbortSignal): Promise<void> => {
    const over = new AbortController()
    const either = AbortSignal.any([signal, over.signal])
    const onEnqueued = () => onPoint?.('webhooks-enqueued')
    const loops = [
      openDueEvents({ ...deps, onEnqueued }).then((due) => keepAt(due, either)),
      openFanOuts(deps, either).then((fanOut) => keepAt(fanOut, either)),
      keepAt(openCancellations(deps), either),
      keepAt(openStale(deps), either),
    ]
    try {
      await Promise.race(loops)
    } finally {
      over.abort(new Error('another part of the enqueuer has ended'))
      wake()
      await Promise.allSettled(loops)
    }
  }

  const running = runAsLeader(
    {
      pool,
      applicationName: 'farebox webhooks',
      lock: 'webhook reactor',
      answerTimeoutMs,
      stop: stopping.signal,
      onError: (error) => {
        logger.error({ err: error, reactor: 'webhooks' }, 'the webhook reactor failed and will try again')
        return backoffMs
      },
    },
    (_, signal) => work(signal),
  )
  return {
    wake,
    stop: async () => {
      stopping.abort(new Error('the webhook reactor stops'))
      wake()
      await running
    },
  }
}
