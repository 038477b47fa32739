import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Gauge, type Registry } from 'prom-client'
import { isOutage } from '../eventstore/errors.ts'

/** How long a scrape waits for an answer: Prometheus itself gives up after ten seconds. */
const waitMs = 2_000

/**
 * The reading of gauges whose figures must be asked for, of Postgres or the log. Null in an outage, and when no answer came
 * within two seconds: then these gauges are left out of the scrape, which shows neither an old figure nor a zero that
 * nobody measured, and all others are told. Gauges of one scrape share a question.
 * @throws what `read` throws and is no outage
 */
export const sharedPerScrape = <Value>(read: () => Promise<Value>): (() => Promise<Value | null>) => {
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

/** What modules register their own measurements with; each gauge is read when it is scraped. */
export type GaugeReading = {
  /** In snake case with its unit, e.g. `farebox_projection_lag_positions`. */
  readonly name: string
  readonly help: string
  read(): number
}

export const registerGauge = (registry: Registry, { name, help, read }: GaugeReading): void => {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    },
  })
}

const nanosecondsPerSecond = 1e9

/** The event loop's delay and the process's memory. @returns stops the measuring */
export const registerRuntimeMetrics = (registry: Registry): (() => void) => {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  registerGauge(registry, {
    name: 'farebox_event_loop_delay_longest_seconds',
    help: 'The longest that the event loop stood still since the last scrape, whatever held it.',
    read: () => delay.max / nanosecondsPerSecond,
  })
  // Read after the one above: it begins anew.
  registerGauge(registry, {
    name: 'farebox_event_loop_delay_p99_seconds',
    help: 'The 99th percentile of the event loop delay since the last scrape.',
    read: () => {
      const seconds = delay.percentile(99) / nanosecondsPerSecond
      delay.reset()
      return seconds
    },
  })
  registerGauge(registry, {
    name: 'farebox_resident_memory_bytes',
    help: 'Resident memory of the process.',
    read: () => process.memoryUsage.rss(),
  })
  return () => delay.disable()
}
