import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { LogFeed } from '../../../../projections/engine/feed.ts'
import { tryLock } from '../../../../projections/engine/locks.ts'
import type { Clock } from '../../../kernel/clock.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
import { boundSilence, openSession, sessionAnswerMs } from '../../../platform/postgres/session.ts'
import { workFanOuts } from './fan-out.ts'
import type { QueueProgress } from './progress.ts'
import { holdTenure, type TenureDeps } from './tenure.ts'

export type ReactorDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly feed: LogFeed
  readonly clock: Clock
  readonly logger: Logger
  readonly progress: QueueProgress
  /** Told when deliveries were queued. */
  readonly onQueued: () => void
  readonly onPoint?: TenureDeps['onPoint']
  /** How long its session may be without a word from Postgres, or from this process, milliseconds; default 30,000. */
  readonly answerTimeoutMs?: number
}

export type Reactor = { stop(): Promise<void> }

const standbyMs = 500
const backoffMs = 1_000

/**
 * Keeps the webhook reactor going: one process at a time owns it by an advisory lock, and its place in the log fences.
 * After any error it starts over from its tables, which are as of its place.
 */
export const startWebhookReactor = (deps: ReactorDeps): Reactor => {
  const { pool, log, feed, clock, logger, progress, answerTimeoutMs = sessionAnswerMs } = deps
  const stopping = new AbortController()
  const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }).catch(() => undefined)

  const own = async (client: pg.ClientBase, signal: AbortSignal): Promise<void> => {
    let opened = Promise.withResolvers<void>()
    const onFanOut = (): void => {
      opened.resolve()
      opened = Promise.withResolvers()
    }
    const over = new AbortController()
    const either = AbortSignal.any([signal, over.signal])
    const tenure = holdTenure(
      {
        client,
        feed,
        log,
        clock,
        logger,
        onFanOut,
        onQueued: deps.onQueued,
        onProgress: progress.advance,
        onPoint: deps.onPoint,
      },
      either,
    )
    const fanOuts = workFanOuts({ pool, log, clock, opened: () => opened.promise }, either)
    try {
      await Promise.race([tenure, fanOuts])
    } finally {
      over.abort(new Error('the tenure is over'))
      await Promise.allSettled([tenure, fanOuts])
    }
  }

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      let session: Awaited<ReturnType<typeof openSession>> | null = null
      try {
        session = await openSession(pool, 'farebox webhooks', answerTimeoutMs)
        const signal = AbortSignal.any([stopping.signal, session.ended])
        while (!signal.aborted && !(await tryLock(session.client, 'webhook reactor')))
          await pause(standbyMs, signal)
        signal.throwIfAborted()
        await boundSilence(session.client, answerTimeoutMs)
        await own(session.client, signal)
      } catch (error) {
        if (stopping.signal.aborted) break
        logger.error({ err: error, reactor: 'webhooks' }, 'the webhook reactor failed and will try again')
        await pause(backoffMs, stopping.signal)
      } finally {
        progress.forget()
        await session?.close().catch(() => undefined)
      }
    }
  }

  const running = run()
  return {
    stop: async () => {
      stopping.abort(new Error('the webhook reactor stops'))
      await running
    },
  }
}
