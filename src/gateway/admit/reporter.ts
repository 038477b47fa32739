import { randomUUID } from 'node:crypto'

/** Counts a batch, unless it was counted before. Returns whether it counted it now. */
type CountBatch = (reporter: string, sequence: number) => Promise<boolean>

/** Names the batches of one sender, so that `work.traffic_reporters` lets each be counted once. */
export type Reporter = {
  /** Begins the next batch. */
  nextBatch(): void
  /** Sends the current batch, or awaits its running send. Rejects if the outcome is unknown: send it again. */
  send(count: CountBatch): Promise<void>
}

/**
 * @param dependencies `name` is unique: no other reporter ever uses it. `onRefused` is called for a batch that was sent
 * for the first time and yet refused as counted before: someone changed `work.traffic_reporters`. The batch, and all
 * later ones, are then counted under a new name.
 */
export const createReporter = (dependencies: {
  readonly name: string
  readonly onRefused: (error: Error) => void
}): Reporter => {
  let { name } = dependencies
  let sequence = 0
  let isFirstSend = true
  let running: Promise<void> | null = null

  const attempt = async (count: CountBatch): Promise<Error | null> => {
    const mayBeCounted = !isFirstSend
    isFirstSend = false
    return (await count(name, sequence)) || mayBeCounted
      ? null
      : new Error(
          `work.traffic_reporters was changed: it has batch ${sequence} of ${name}, which was never sent`,
        )
  }

  const sendOnce = async (count: CountBatch): Promise<void> => {
    const refusal = await attempt(count)
    if (refusal === null) return
    dependencies.onRefused(refusal)
    name = `${dependencies.name}/${randomUUID()}`
    isFirstSend = true
    const secondRefusal = await attempt(count)
    if (secondRefusal === null) return
    isFirstSend = true
    throw secondRefusal
  }

  return {
    nextBatch: () => {
      sequence += 1
      isFirstSend = true
    },
    send: (count) => {
      running ??= sendOnce(count).finally(() => {
        running = null
      })
      return running
    },
  }
}
