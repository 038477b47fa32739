import { setTimeout as sleep } from 'node:timers/promises'
import { isOutage } from './outage.ts'

/** How long a scrape waits for an answer: Prometheus itself gives up after ten seconds. */
const waitMs = 2_000

/**
 * The reading of gauges whose figures must be asked for, of Postgres or the log. Null in an outage, and when no answer came
 * within two seconds: then these gauges are left out of the scrape, which shows neither an old figure nor a zero that
 * nobody measured, and all others are told. Gauges of one scrape share a question.
 * @throws what `read` throws and is no outage
 */
export const asked = <Value>(read: () => Promise<Value>): (() => Promise<Value | null>) => {
  let asking: Promise<Value | null> | null = null
  const ask = async (): Promise<Value | null> => {
    const over = new AbortController()
    const late = sleep(waitMs, null, { signal: over.signal }).catch(() => null)
    try {
      return await Promise.race([read(), late])
    } catch (error) {
      if (isOutage(error)) return null
      throw error
    } finally {
      over.abort()
      asking = null
    }
  }
  return () => {
    asking ??= ask()
    return asking
  }
}
