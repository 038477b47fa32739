import type { MonotonicClock } from '../../../kernel/clock.ts'
import type { Answers } from './answers.ts'
import type { RunnerLimits } from './limits.ts'
import { isFrozen } from './pending.ts'
import type { Queue } from './queue.ts'

const sweepMs = 100

export type Sweeper = {
  /** Looks after the queue as long as something waits in it. */
  watch(): void
  stop(): void
}

/** Turns away commands that wait too long, so that no client waits without bound. */
export const createSweeper = (deps: {
  readonly limits: RunnerLimits
  readonly queue: Queue
  readonly answers: Answers
  readonly monotonicMs: MonotonicClock
}): Sweeper => {
  const { limits, queue, answers } = deps
  let timer: NodeJS.Timeout | undefined

  const sweep = (): void => {
    timer = undefined
    const now = deps.monotonicMs()
    const late = queue.take(queue.length(), (pending) => {
      const waitedMs = now - pending.arrivedMs
      return waitedMs > limits.queueWaitMs || (waitedMs > limits.frozenWaitMs && isFrozen(pending))
    })
    for (const pending of late)
      if (isFrozen(pending))
        answers.overload(pending, 'frozen', 'an earlier append of this stream has no outcome yet')
      else answers.overload(pending, 'wait', `${pending.command.name} waited too long`)
    watch()
  }
  const watch = (): void => {
    if (timer === undefined && queue.length() > 0) timer = setTimeout(sweep, sweepMs)
  }
  return { watch, stop: () => clearTimeout(timer) }
}
