import { setImmediate as nextTurn } from 'node:timers/promises'

/** Resolves when background work may continue. */
export type YieldToCommands = () => Promise<void>

/** Waits for one turn of the event loop. */
const yieldToEventLoop: YieldToCommands = () => nextTurn()

/** Continues at once. */
export const noYield: YieldToCommands = () => Promise.resolve()

/** Yields while the background work is on time. Late work does not yield, so that it does not lag for the whole load. */
export const yieldWhileOnTime =
  (yieldToCommands: YieldToCommands, isInTime: () => boolean): YieldToCommands =>
  () =>
    isInTime() ? yieldToCommands() : noYield()

/** As `yieldToCommands`, but each n-th time it waits for one turn of the event loop only. */
export const yieldEvery = (n: number, yieldToCommands: YieldToCommands): YieldToCommands => {
  let steps = 0
  return () => {
    steps += 1
    return steps % n === 0 ? yieldToEventLoop() : yieldToCommands()
  }
}

/** The longest wait of due background work, milliseconds. */
export const maxYieldMs = 60

/**
 * Under load the main thread decides a batch of commands, sends it, and is idle for some milliseconds until the log answers.
 * Background work such as projections and seals runs in this idle time. At any other time it would delay every client while
 * Postgres is idle.
 */
export type BackgroundScheduler = {
  /** A batch is sent to the log. */
  begin(): void
  /** The log answered the batch. */
  end(): void
  /** Resolves at once during a batch, and if there was none recently. Else it waits for the next batch, for a few milliseconds. */
  readonly yieldToCommands: YieldToCommands
}

/** @param comeBackMs answered clients send their next command within this time, milliseconds */
export const createBackgroundScheduler = ({
  monotonicMs = (): number => performance.now(),
  comeBackMs = 6,
} = {}): BackgroundScheduler => {
  let underWay = 0
  let endedMs = Number.NEGATIVE_INFINITY
  let waiting: (() => void)[] = []
  return {
    begin() {
      underWay += 1
      const toWake = waiting
      waiting = []
      // In the next turn, because the batch is sent in this one.
      if (toWake.length > 0)
        setImmediate(() => {
          for (const wake of toWake) wake()
        })
    },
    end() {
      underWay -= 1
      endedMs = monotonicMs()
    },
    async yieldToCommands() {
      await nextTurn()
      const leftMs = endedMs + comeBackMs - monotonicMs()
      if (underWay > 0 || leftMs <= 0) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        waiting.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
  }
}
