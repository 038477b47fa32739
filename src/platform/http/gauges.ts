import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Gauge, type Registry } from 'prom-client'
import { isOutage } from '../eventstore/errors.ts'

/** The longest wait of a scrape for an answer, milliseconds. Prometheus itself stops waiting after ten seconds. */
const waitMs = 2_000

/**
 * Reads the value of gauges that need a query to Postgres or the log. Gauges of one scrape share a query. Returns null
 * in an outage, and if there is no answer within two seconds. The scrape then leaves these gauges out, so that it has
 * no old figure and no unmeasured zero. All other gauges are reported.
 * @throws any error of `read` that is not an outage
 */
export const sharedPerScrape = <Value>(read: () => Promise<Value>): (() => Promise<Value | null>) => {
  let asking: Promise<Value | null> | null = null
  const ask = async (): Promise<Value | null> => {
    const cancellation = new AbortController()
    const timeout = sleep(waitMs, null, { signal: cancellation.signal }).catch(() => null)
    try {
      return await Promise.race([read(), timeout])
    } catch (error) {
      if (isOutage(error)) return null
      throw error
    } finally {
      cancellation.abort()
      asking = null
    }
  }
  return () => {
    asking ??= ask()
    return asking
  }
}

/** A gauge of a module, read at each scrape. */
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

/**
 * Registers the event loop delay and the memory of the process.
 * @returns a function that stops the measurement
 */
export const registerRuntimeMetrics = (registry: Registry): (() => void) => {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  registerGauge(registry, {
    name: 'farebox_event_loop_delay_longest_seconds',
    help: 'The longest that the event loop stood still since the last scrape, whatever held it.',
    read: () => delay.max / nanosecondsPerSecond,
  })
  // Must be read after the gauge above, because reading it resets both.
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
