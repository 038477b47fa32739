import { createServer as createHttpServer } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { CloseStack } from '../../kernel/resource-scope.ts'
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
type GaugeReading = {
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
/** Milliseconds. Each measurement wakes an idle process, and 100 of them a second cost one percent of a core. */
const delayEveryMs = 100

/**
 * Registers the event loop delay and the memory of the process.
 * @returns a function that stops the measurement
 */
export const registerRuntimeMetrics = (registry: Registry): (() => void) => {
  const delay = monitorEventLoopDelay({ resolution: delayEveryMs })
  delay.enable()
  // A measured time includes the time between two measurements.
  const secondsOf = (nanoseconds: number): number =>
    Math.max(0, nanoseconds / nanosecondsPerSecond - delayEveryMs / 1_000)
  registerGauge(registry, {
    name: 'farebox_event_loop_delay_longest_seconds',
    help: 'The longest time that the event loop was blocked since the last scrape.',
    read: () => secondsOf(delay.max),
  })
  // Must be read after the gauge above, because reading it resets both.
  registerGauge(registry, {
    name: 'farebox_event_loop_delay_p99_seconds',
    help: 'The 99th percentile of the event loop delay since the last scrape.',
    read: () => {
      const seconds = secondsOf(delay.percentile(99))
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

/** Serves `/metrics` on 127.0.0.1. */
export const serveMetrics = async (closing: CloseStack, registry: Registry, port: number): Promise<void> => {
  const server = createHttpServer((request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end()
      return
    }
    void registry.metrics().then((text) => {
      response.writeHead(200, { 'content-type': registry.contentType }).end(text)
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port }, resolve)
  })
  closing.add(() => server.close())
}

/** The measurements of the server. */
export type HttpMetrics = {
  /** One finished request. `route` is its template and never its path, because labels must stay few. */
  finished(method: string, route: string, status: number, seconds: number): void
  /** The longest time that a request blocked the main thread at once, seconds. */
  observeEventLoopDelay(method: string, route: string, seconds: number): void
  /** One ready answer. It takes microseconds, and measuring its time would take as long again. */
  ready(): void
  inFlight(count: number): void
  /** Open connections. */
  connections(count: number): void
  /** A connection was cut to make room, or because there was no room for it. */
  connectionCut(): void
}

/** Seconds. The targets of docs/decisions/0038 lie between them. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Seconds. No request should block the main thread for more than 0.05. */
const eventLoopDelayBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]

/**
 * Registers the server's measurements. Children are cached by label, because a label lookup costs more than an
 * observation.
 */
export const createHttpMetrics = (registry: Registry): HttpMetrics => {
  const duration = new Histogram({
    name: 'farebox_http_request_duration_seconds',
    help: 'Time from the first check of a request to the end of its answer, by route template.',
    labelNames: ['method', 'route', 'status'] as const,
    buckets,
    registers: [registry],
  })
  const shed = new Counter({
    name: 'farebox_http_refused_total',
    help: 'Requests answered 429 or 503.',
    labelNames: ['status'] as const,
    registers: [registry],
  })
  const running = new Gauge({
    name: 'farebox_http_requests_in_flight',
    help: 'Requests in progress that count against the limit: without probes and callbacks.',
    registers: [registry],
  })
  const connections = new Gauge({
    name: 'farebox_http_connections',
    help: 'Open connections.',
    registers: [registry],
  })
  const connectionsCut = new Counter({
    name: 'farebox_http_connections_cut_total',
    help: 'Connections that were closed because too many were open, in all or from one address.',
    registers: [registry],
  })
  const blockedTime = new Histogram({
    name: 'farebox_http_main_thread_seconds',
    help: 'The longest time that a request blocked the main thread at once, with its body and checks or with its answer.',
    labelNames: ['method', 'route'] as const,
    buckets: eventLoopDelayBuckets,
    registers: [registry],
  })
  let [ready, reportedReady] = [0, 0]
  new Counter({
    name: 'farebox_http_ready_answers_total',
    help: 'Prebuilt answers that were sent before the router. No other metric counts them.',
    registers: [registry],
    collect() {
      this.inc(ready - reportedReady)
      reportedReady = ready
    },
  })
  let longest = 0
  registerGauge(registry, {
    name: 'farebox_http_main_thread_longest_seconds',
    help: 'The longest such time since the last scrape.',
    read: () => {
      const seconds = longest
      longest = 0
      return seconds
    },
  })
  const heldChildren = new Map<string, ReturnType<typeof blockedTime.labels>>()
  const children = new Map<string, ReturnType<typeof duration.labels>>()
  return {
    finished(method, route, status, seconds) {
      const key = `${method} ${route} ${status}`
      const child = children.get(key) ?? duration.labels(method, route, String(status))
      children.set(key, child)
      child.observe(seconds)
      if (status === 429 || status === 503) shed.inc({ status: String(status) })
    },
    observeEventLoopDelay(method, route, seconds) {
      const key = `${method} ${route}`
      const child = heldChildren.get(key) ?? blockedTime.labels(method, route)
      heldChildren.set(key, child)
      child.observe(seconds)
      longest = Math.max(longest, seconds)
    },
    ready: () => {
      ready += 1
    },
    inFlight: (count) => running.set(count),
    connections: (count) => connections.set(count),
    connectionCut: () => connectionsCut.inc(),
  }
}
