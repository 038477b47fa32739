import type { MonotonicClock } from '../../../kernel/clock.ts'
import type { RunnerLimits } from './limits.ts'

/** Decides when the commands that wait are enough for a batch, so that those that are about to come share it. */
export type Gathering = {
  /** A batch of `commands` landed after `tookMs`, while `waiting` others waited. */
  landed(batch: { readonly commands: number; readonly waiting: number; readonly tookMs: number }): void
  /** Whether these should wait for more. When that is over without another command, `onOver` is called. */
  waits(waiting: number): boolean
  stop(): void
}

type Deps = {
  readonly limits: Pick<RunnerLimits, 'gatherMs' | 'batchCommands'>
  readonly monotonicMs: MonotonicClock
  readonly onOver: () => void
}

/** The share of the commands that were open at the landing: not all of their clients come back. */
const expectedShare = 0.9
/** How much larger than the last batch the next one may be asked to be: a burst that is over is soon forgotten. */
const growth = 1.5

/**
 * When a batch lands, its clients are about to ask again, while those that waited could go at once. Two half batches would
 * then take turns, and pay twice for what a batch costs whatever its size. So the next batch waits until about as many
 * commands are there as were open, but no longer than the last append took, and `gatherMs` at most: the wait for a commit
 * is never much more than doubled, and a client that comes alone never waits.
 */
export const createGathering = ({ limits, monotonicMs, onOver }: Deps): Gathering => {
  let enough = 0
  let untilMs = 0
  let timer: NodeJS.Timeout | null = null

  const stop = (): void => {
    if (timer !== null) clearTimeout(timer)
    timer = null
  }

  return {
    landed: ({ commands, waiting, tookMs }) => {
      const open = Math.min(commands + waiting, limits.batchCommands)
      enough = Math.min(Math.ceil(expectedShare * open), Math.ceil(growth * commands))
      untilMs = monotonicMs() + Math.min(tookMs, limits.gatherMs)
    },
    waits: (waiting) => {
      const leftMs = untilMs - monotonicMs()
      if (waiting < enough && leftMs > 0) {
        timer ??= setTimeout(() => {
          timer = null
          onOver()
        }, leftMs)
        return true
      }
      stop()
      enough = 0
      return false
    },
    stop,
  }
}
