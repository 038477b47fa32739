import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { LogFeed } from '../../../../projections/engine/feed.ts'
import type { EventLog } from '../../../platform/eventstore/port.ts'
import { lead } from '../../../platform/postgres/leader.ts'
import { sessionAnswerMs } from '../../../platform/postgres/session.ts'
import { openSignatureCheck, readChecked } from './progress.ts'

/** How far the log was held against its signatures, by whatever process. */
export type SignatureProgress = {
  /** @throws Error when it is not after a minute */
  reached(position: number, signal: AbortSignal): Promise<void>
}

export type SignatureWatch = SignatureProgress & { stop(): Promise<void> }

export type SignatureWatchDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly feed: LogFeed
  /** Of the key that seals. */
  readonly publicKey: string
  readonly logger: Logger
}

/** As for the laws: a check need not be fresher, and large batches cost least. */
const gatherMs = 500
const mostEvents = 4_000
const lookMs = 100
const mostWaitMs = 60_000
const retryMs = 1_000

/**
 * Follows the log and holds it against what the processes signed. What nobody signed becomes a breach (breaches.ts), so
 * that its account is stopped and no seal covers it. Of several processes one does it at a time.
 */
export const startSignatureWatch = (deps: SignatureWatchDeps): SignatureWatch => {
  const { pool, log, feed, logger } = deps
  const stopping = new AbortController()

  const running = lead(
    {
      pool,
      applicationName: 'farebox signatures',
      lock: 'signatures',
      answerTimeoutMs: sessionAnswerMs,
      stop: stopping.signal,
      onError: (error) => {
        logger.warn({ err: error }, 'the signatures of the log could not be checked and are tried again')
        return retryMs
      },
    },
    async (_, signal) => {
      const reader = feed.reader({ gatherMs })
      try {
        const check = await openSignatureCheck(deps)
        while (!signal.aborted) {
          await reader.arrived(check.next(), signal)
          await check.take(await reader.nextStored(check.next(), mostEvents, signal))
        }
      } finally {
        reader.close()
      }
    },
  )

  return {
    async reached(position, signal) {
      const untilMs = performance.now() + mostWaitMs
      const logId = await log.logId()
      while ((await readChecked(pool, logId)).position < position) {
        if (performance.now() > untilMs)
          throw new Error(`the signatures of the log are not checked up to position ${position}`)
        await sleep(lookMs, undefined, { signal })
      }
    },
    async stop() {
      stopping.abort()
      await running
    },
  }
}
