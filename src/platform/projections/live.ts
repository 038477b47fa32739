import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { EngineLogger } from './group-loop.ts'
import type { Watch } from './progress.ts'
import { ReadsBehind } from './read-your-writes.ts'

/** Rows of read tables that this process caches in memory. Notifications of changes cause a new load. */
export type LiveRows<Held> = {
  /**
   * The rows of the last load. It never waits for a query.
   * @throws ReadsBehind before the first load, because unknown rows must not be reported as absent
   */
  current(): Held
  /**
   * The rows with every change that was announced to this process before the call. It queries only if there was a
   * change. All callers before the start of a load share it.
   * @throws the errors of `load`
   */
  fresh(): Promise<Held>
  /** Loads the current rows of the tables, even without an announced change. @throws the errors of `load` */
  refresh(): Promise<Held>
  /** Loads, and loads again after each change until `stop`. Rejects if the first load fails. */
  start(): Promise<void>
  stop(): Promise<void>
}

export type LiveRowsOptions<Held> = {
  readonly name: string
  readonly watch: Watch
  /** Reads the tables, or their changes since `previous` was read. Two loads never run at the same time. */
  readonly load: (previous: Held | null) => Promise<Held>
  readonly logger: Pick<EngineLogger, 'error'>
  /** For rows whose meaning depends on the time: the longest age of a fresh load, by both clocks. */
  readonly maxAge?: { readonly ms: number; readonly clock: Clock; readonly monotonicMs: MonotonicClock }
}

/** The pause after a failed load. It doubles up to the maximum. */
const firstRetryMs = 100
const longestRetryMs = 2_000

type Loaded<Held> = {
  readonly held: Held
  readonly version: number | null
  readonly atMs: number
  readonly monotonicMs: number
}

export const createLiveRows = <Held>(options: LiveRowsOptions<Held>): LiveRows<Held> => {
  const { name, watch, load, logger, maxAge } = options
  let loaded: Loaded<Held> | null = null
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<Held> | null = null
  let unsubscribe: (() => void) | null = null
  let retry: NodeJS.Timeout | undefined
  let retryMs = firstRetryMs

  const loadNow = async (): Promise<Held> => {
    next = null
    const version = watch.version()
    const [atMs, monotonicMs] = [maxAge?.clock() ?? 0, maxAge?.monotonicMs() ?? 0]
    const held = await load(loaded?.held ?? null)
    loaded = { held, version, atMs, monotonicMs }
    return held
  }

  const refresh = (): Promise<Held> => {
    if (next === null) {
      next = running.then(loadNow)
      running = next.catch(() => undefined) // each caller gets the error; the next load is a new one
    }
    return next
  }

  const isFresh = ({ version, atMs, monotonicMs }: Loaded<Held>): boolean =>
    version !== null &&
    version === watch.version() &&
    (maxAge === undefined ||
      (maxAge.monotonicMs() - monotonicMs < maxAge.ms && maxAge.clock() - atMs < maxAge.ms))

  const refreshWithRetry = (): void => {
    clearTimeout(retry)
    refresh().then(
      () => {
        retryMs = firstRetryMs
      },
      (error) => {
        logger.error({ err: error, held: name }, 'what is held in memory cannot be read and is tried again')
        if (unsubscribe === null) return
        clearTimeout(retry)
        retry = setTimeout(refreshWithRetry, retryMs)
        retryMs = Math.min(2 * retryMs, longestRetryMs)
      },
    )
  }

  return {
    current: () => {
      if (loaded === null) throw new ReadsBehind(`the ${name} is not readable yet; try again`)
      return loaded.held
    },
    fresh: async () => (loaded !== null && isFresh(loaded) ? loaded.held : refresh()),
    refresh,
    start: async () => {
      // Subscribed before the first load, so that no change is missed.
      unsubscribe ??= watch.onChange(refreshWithRetry)
      await refresh()
    },
    stop: async () => {
      unsubscribe?.()
      unsubscribe = null
      clearTimeout(retry)
      await running
    },
  }
}
