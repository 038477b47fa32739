import { setTimeout as sleep } from 'node:timers/promises'
import { StartRefused } from '../postgres/start-refused.ts'
import { LogUnavailable } from './errors.ts'
import type { EventLog } from './port.ts'

const pauseMs = 250

export type LogWaitOptions = {
  /** How long to try; an attempt that is under way then is waited for. */
  readonly withinMs: number
  /** Called once, before the first wait. */
  readonly onWait?: (reason: string) => void
}

/**
 * Waits until EventStoreDB answers as a leader: it may be starting, and its health check is green some seconds before.
 * @throws StartRefused when the time is over
 */
export const waitForLog = async (log: Pick<EventLog, 'logId'>, options: LogWaitOptions): Promise<void> => {
  const { withinMs, onWait } = options
  const endMs = performance.now() + withinMs
  for (let waited = false; ; waited = true) {
    try {
      await log.logId()
      return
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error
      if (performance.now() + pauseMs >= endMs)
        throw new StartRefused(
          `the log gave no answer within ${Math.round(withinMs / 1000)} s (${error.message}). Is EventStoreDB running, and is EVENTSTORE_URL right?`,
          { cause: error },
        )
      if (!waited) onWait?.(error.message)
      await sleep(pauseMs)
    }
  }
}
