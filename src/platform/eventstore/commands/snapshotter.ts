import type { MonotonicClock } from '../../../kernel/clock.ts'
import type { RunnerLimits } from './limits.ts'
import type { CommandRunnerDeps, SnapshotStore } from './ports.ts'
import type { FoldPoint, Slot } from './slots.ts'

export type Snapshotter = {
  /** Has a snapshot taken when one is due. */
  consider(slot: Slot): void
  /** Takes those of the slots that would cost the next process most, as long as there is time. */
  finish(slots: readonly Slot[]): Promise<void>
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
  /** Those whose snapshot waits or is being written: a second one would say nearly the same. */
  const asked = new Set<Slot>()
  let running = false

  const newEvents = ({ fold, point, snapshotRevision }: Slot): number =>
    fold.snapshot === undefined || point === null ? 0 : point.revision - snapshotRevision

  const isDue = (slot: Slot): boolean => {
    const { fold, point } = slot
    if (fold.snapshot === undefined || point === null) return false
    const { everyEvents } = fold.snapshot
    const events = newEvents(slot)
    if (events <= (everyEvents ?? limits.snapshotMinEvents)) return false
    const isSoon = deps.monotonicMs() - slot.snapshotAtMs < limits.snapshotEveryMs
    if (everyEvents !== undefined) return !isSoon
    // A snapshot costs what its state holds, so a state doubles before the next one. Not more than that: each order leaves an
    // entry, and a wallet that had to get more new events than entries would never get its first. Where a doubling would
    // be too much to read, an eighth has to pay for it; and where orders come so fast that twice as much gathers within
    // the interval, the interval does not count.
    const entries = fold.snapshot.entries(point.state)
    const tail = Math.max(limits.snapshotTailEvents, entries / 8)
    if (isSoon) return point.revision - slot.snapshotAskedRevision > 2 * tail
    return events > Math.min(entries / 2, tail)
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
      asked.delete(due.slot)
    }
    running = false
    deps.onIdle()
  }

  return {
    consider(slot) {
      if (store === undefined || waiting.length >= limits.snapshotQueue) return
      if (asked.has(slot) || !isDue(slot)) return
      slot.snapshotAtMs = deps.monotonicMs()
      slot.snapshotAskedRevision = slot.point!.revision
      asked.add(slot)
      waiting.push({ slot, point: slot.point! })
      if (!running) void run(store)
    },
    async finish(slots) {
      if (store === undefined) return
      const endMs = deps.monotonicMs() + limits.snapshotCloseMs
      const due = slots
        .filter((slot) => newEvents(slot) > limits.snapshotCloseEvents)
        .sort((a, b) => newEvents(b) - newEvents(a))
      for (const slot of due) {
        if (deps.monotonicMs() >= endMs) return
        await write(store, { slot, point: slot.point! })
      }
    },
    underWay: () => waiting.length + (running ? 1 : 0),
  }
}
