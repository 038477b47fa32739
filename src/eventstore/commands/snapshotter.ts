import type { MonotonicClock } from '../../clock.ts'
import type { RunnerLimits } from './limits.ts'
import type { CommandRunnerDeps, SnapshotStore } from './ports.ts'
import type { FoldPoint, Slot } from './slots.ts'

export type Snapshotter = {
  /** Has a snapshot taken when one is due. */
  consider(slot: Slot): void
  /** Snapshots that wait or are being written. */
  underWay(): number
}

type SnapshotterDeps = Pick<CommandRunnerDeps, 'log' | 'logger' | 'hooks'> & {
  readonly store: SnapshotStore | undefined
  readonly limits: RunnerLimits
  readonly monotonicMs: MonotonicClock
  readonly onIdle: () => void
}

type Due = { readonly slot: Slot; readonly point: FoldPoint }

/** Writes snapshots one after another, off the append path: an append never waits for one, and a failed one is only logged. */
export const createSnapshotter = (deps: SnapshotterDeps): Snapshotter => {
  const { limits, store } = deps
  const waiting: Due[] = []
  let running = false

  const isDue = (slot: Slot): boolean => {
    const { fold, point } = slot
    if (fold.snapshot === undefined || point === null) return false
    const { everyEvents } = fold.snapshot
    const events = point.revision - slot.snapshotRevision
    if (events <= (everyEvents ?? limits.snapshotMinEvents)) return false
    if (deps.monotonicMs() - slot.snapshotAtMs < limits.snapshotEveryMs) return false
    return everyEvents !== undefined || events > fold.snapshot.entries(point.state)
  }

  const write = async (to: SnapshotStore, { slot, point }: Due): Promise<void> => {
    const { stream, fold } = slot
    try {
      const state = fold.snapshot!.toText(point.state)
      const logId = await deps.log.logId()
      deps.hooks?.at('before-snapshot')
      const { revision, eventId, recordedAtMs } = point
      await to.save({
        stream,
        logId,
        fold: fold.name,
        version: fold.version,
        revision,
        eventId,
        recordedAtMs,
        state,
      })
      deps.hooks?.at('after-snapshot')
      slot.snapshotRevision = Math.max(slot.snapshotRevision, revision)
    } catch (err) {
      deps.logger.warn({ err, stream }, 'a snapshot could not be written')
    }
  }

  const run = async (to: SnapshotStore): Promise<void> => {
    running = true
    for (let due = waiting.shift(); due !== undefined; due = waiting.shift()) {
      // The batch that made it due is answered first.
      await new Promise((resolve) => setImmediate(resolve))
      await write(to, due)
    }
    running = false
    deps.onIdle()
  }

  return {
    consider(slot) {
      if (store === undefined || waiting.length >= limits.snapshotQueue || !isDue(slot)) return
      slot.snapshotAtMs = deps.monotonicMs()
      waiting.push({ slot, point: slot.point! })
      if (!running) void run(store)
    },
    underWay: () => waiting.length + (running ? 1 : 0),
  }
}
