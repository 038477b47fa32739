import { worker } from '../../platform/work/worker.ts'

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
  trigger: { everyMs: 2_000 },
})

export const freeListChecks = worker({
  ...freeList,
  name: 'free-list-checks',
  about: 'Begins checks of free proxies that are due',
  trigger: { everyMs: 100 },
})

/** All workers of the free list's process. */
export const freeListWorkers = [freeListLeader, freeListFeeds, freeListChecks] as const
