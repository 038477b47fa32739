import type { Logger } from 'pino'
import { type Poller, startPoller } from './poller.ts'

/** Keeps what this process holds in memory as a read model has it. */
export type Follower = {
  /** Resolves once everything that the read model held when it was called is in memory. */
  refresh(): Promise<void>
  /** Refreshes, then looks for changes five times a second until `stop`. Rejects when the first refresh fails. */
  start(): Promise<void>
  stop(): Promise<void>
}

const intervalMs = 200

/** @param options `load` takes over what changed since the last time; it is never run twice at once */
export const createFollower = (options: {
  readonly name: string
  readonly load: () => Promise<void>
  readonly logger: Logger
}): Follower => {
  const { name, load, logger } = options
  let running: Promise<void> = Promise.resolve()
  let poller: Poller | null = null

  // One after another: an older row never replaces a newer one.
  const refresh = (): Promise<void> => {
    const next = running.then(load)
    running = next.catch(() => undefined)
    return next
  }

  return {
    refresh,
    start: async () => {
      await refresh()
      poller ??= startPoller({ name, intervalMs, work: refresh, logger })
    },
    stop: async () => {
      await poller?.stop()
      poller = null
    },
  }
}
