import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { EngineLogger } from './group-loop.ts'
import type { Watch } from './progress.ts'
import { ReadsBehind } from './read-your-writes.ts'

/** Rows of read tables that this process holds in memory, kept up by what the engine tells of their changes. */
export type LiveRows<Held> = {
  /**
   * As of the last load; no request waits for a query.
   * @throws ReadsBehind before the first: what is not known yet must not be told as unknown
   */
  current(): Held
  /**
   * Holds every change that this process was told of before it was called; queries only when there was one. All who ask
   * before a load begins share it.
   * @throws what `load` throws
   */
  fresh(): Promise<Held>
  /** Loads what is in the tables now, told or not. @throws what `load` throws */
  refresh(): Promise<Held>
  /** Loads, then again after each change until `stop`. Rejects when the first load fails. */
  start(): Promise<void>
  stop(): Promise<void>
}

export type LiveRowsOptions<Held> = {
  readonly name: string
  readonly watch: Watch
  /** Reads the tables, or what changed in them since `former` was read; never run twice at once. */
  readonly load: (former: Held | null) => Promise<Held>
  readonly logger: Pick<EngineLogger, 'error'>
  /** For rows whose meaning the clock changes: how long a load is `fresh` at most, by both clocks. */
  readonly maxAge?: { readonly ms: number; readonly clock: Clock; readonly monotonicMs: MonotonicClock }
}

/** The pause after a load that failed; it doubles up to the longest. */
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
      running = next.catch(() => undefined) // each waiter hears of it; the next load is a new one
    }
    return next
  }

  const isFresh = ({ version, atMs, monotonicMs }: Loaded<Held>): boolean =>
    version !== null &&
    version === watch.version() &&
    (maxAge === undefined ||
      (maxAge.monotonicMs() - monotonicMs < maxAge.ms && maxAge.clock() - atMs < maxAge.ms))

  const follow = (): void => {
    clearTimeout(retry)
    refresh().then(
      () => {
        retryMs = firstRetryMs
      },
      (error) => {
        logger.error({ err: error, held: name }, 'what is held in memory cannot be read and is tried again')
        if (unsubscribe === null) return
        clearTimeout(retry)
        retry = setTimeout(follow, retryMs)
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
      // From before the first load on, so that no change falls between.
      unsubscribe ??= watch.onChange(follow)
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
