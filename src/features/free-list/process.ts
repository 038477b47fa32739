import { Counter, Histogram, type Registry } from 'prom-client'
import { registerGauge } from '../../platform/http/gauges.ts'
import { worker } from '../../platform/work/worker.ts'
import type { CheckResult } from './probe-port.ts'

export { createChecker, createCpuBudget } from './endpoint-checker.ts'
export { createRecordStore } from './endpoint-store.ts'
export { createFeeds, maxFeedBytes } from './fetch-sources.ts'
export { openChecking } from './open-checking.ts'
export { isSandboxed } from './settings.ts'
export { readSources, type Source, sandboxSources } from './sources.ts'

/** Prometheus metrics of the checker. Labels contain no address. */
export const createFreelistMetrics = (
  registry: Registry,
  now: {
    readonly running: () => number
    readonly sockets: () => number
    readonly paused: () => boolean
    readonly lateMs: () => number
  },
): { checked(result: CheckResult): void } => {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number): void =>
    registerGauge(registry, { name, help, read })
  gauge('farebox_freelist_checks_running', 'Checks of free proxies that run now.', now.running)
  gauge('farebox_freelist_sockets', 'Sockets that checks have open.', now.sockets)
  gauge('farebox_freelist_judge_away', '1 while checks wait because the judge does not answer.', () =>
    now.paused() ? 1 : 0,
  )
  gauge(
    'farebox_freelist_late_seconds',
    'How long the endpoint that waits longest has been due.',
    () => now.lateMs() / 1_000,
  )
  const checks = new Counter({
    name: 'farebox_freelist_checks_total',
    help: 'Checks that count, by what they found: alive, or why not.',
    labelNames: ['outcome'] as const,
    registers,
  })
  const latency = new Histogram({
    name: 'farebox_freelist_latency_seconds',
    help: 'From dialling a proxy that works to the whole answer of the judge.',
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  return {
    checked: ({ error, latencyMs }) => {
      checks.inc({ outcome: error ?? 'alive' })
      if (latencyMs !== null) latency.observe(latencyMs / 1_000)
    },
  }
}

const freeList = {
  process: 'free-list',
  per: 'cluster',
  lock: 'free proxies',
  session: 'farebox-freelist-leader',
} as const

/** Leader lock under which the other two workers run. */
export const freeListLeader = worker({
  ...freeList,
  name: 'free-list-leader',
  about: 'Keeps one process at a time reading feeds and checking free proxies',
  trigger: { when: 'no other process does' },
})

export const freeListFeeds = worker({
  ...freeList,
  name: 'free-list-feeds',
  about: 'Reads feeds of free proxies that are due',
  trigger: { everyMs: 10_000 },
})

export const freeListChecks = worker({
  ...freeList,
  name: 'free-list-checks',
  about: 'Begins checks of free proxies that are due',
  trigger: { everyMs: 100 },
})

/** All workers of the free list's process. */
export const freeListWorkers = [freeListLeader, freeListFeeds, freeListChecks] as const
