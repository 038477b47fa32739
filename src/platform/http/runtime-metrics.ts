import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Gauge, type Registry } from 'prom-client'

/** What rooms register their own measurements with; each gauge is read when it is scraped. */
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
