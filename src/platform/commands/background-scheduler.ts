import { setImmediate as nextTurn } from 'node:timers/promises'

/** Gives the rest of the process a turn, and resolves when work that can wait may go on. */
export type YieldToCommands = () => Promise<void>

/** One turn of the event loop, which under load is all that came in meanwhile. */
const yieldToEventLoop: YieldToCommands = () => nextTurn()

/** Gives no turn to anybody. */
export const noYield: YieldToCommands = () => Promise.resolve()

/**
 * Gives way for as long as the work is in good time, then no more: work that the lulls are too short for takes the time
 * that it needs, else it falls behind for as long as the load lasts.
 */
export const yieldWhileOnTime =
  (yieldToCommands: YieldToCommands, isInTime: () => boolean): YieldToCommands =>
  () =>
    isInTime() ? yieldToCommands() : noYield()

/** As `yieldToCommands`, but each n-th time the others of this process get one turn in any case. */
export const yieldEvery = (n: number, yieldToCommands: YieldToCommands): YieldToCommands => {
  let steps = 0
  return () => {
    steps += 1
    return steps % n === 0 ? yieldToEventLoop() : yieldToCommands()
  }
}

/** How long work that is due waits for lulls. */
export const maxYieldMs = 60

/**
 * Under load the main thread decides a batch of commands, sends it, and has nothing to do until the log answers, for
 * some milliseconds. Folding and sealing wait for these lulls: done between the answers of one batch and the next one
 * they hold up every client, and Postgres idles meanwhile.
 */
export type BackgroundScheduler = {
  /** A batch of commands goes to the log. */
  begin(): void
  /** The log has answered it. */
  end(): void
  /** Resolves at once during a batch or when none was lately; else when the next batch is sent, or none comes. */
  readonly yieldToCommands: YieldToCommands
}

/** @param comeBackMs milliseconds within which answered clients ask again, if at all; a batch gathers for at most 4 */
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
      const woken = waiting
      waiting = []
      // In the next turn: what is to be sent goes out in this one.
      if (woken.length > 0)
        setImmediate(() => {
          for (const wake of woken) wake()
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
