import type { Logger } from 'pino'
import { type Poller, startPoller } from './poller.ts'
import { createTally } from './tally.ts'

/** What there is room for. */
export type Room<Owner> = {
  /** Items in all. */
  readonly total: number
  /** Items of one owner, those that are under way among them. */
  readonly each: number
  /** How many of each owner are under way, of those who have any. */
  readonly underWay: ReadonlyMap<Owner, number>
}

export type FairQueue = Poller & {
  /** Something may be due: does not wait for the next round. */
  wake(): void
}

/**
 * Works a queue off, at most so many items at once in all and of one owner, and waits for none of them: what hangs ends by
 * itself, and holds up its owner at most.
 * @param options `before` runs before each round; `claim` gives items that are due to this caller alone; `work` never rejects
 */
export const startFairQueue = <Owner, Item>(options: {
  readonly name: string
  readonly intervalMs: number
  readonly atOnce: { readonly total: number; readonly each: number }
  readonly before?: () => Promise<void>
  readonly claim: (room: Room<Owner>) => Promise<readonly Item[]>
  readonly ownerOf: (item: Item) => Owner
  readonly work: (item: Item) => Promise<void>
  readonly logger: Logger
}): FairQueue => {
  const { name, intervalMs, atOnce, before, claim, ownerOf, work, logger } = options
  const running = new Set<Promise<void>>()
  const underWay = createTally<Owner>()
  /** Something may be due that was not begun for want of room. */
  let more = false
  let woken = false
  let stopped = false

  const begin = (item: Item): void => {
    const owner = ownerOf(item)
    underWay.add(owner)
    const over = work(item).finally(() => {
      running.delete(over)
      underWay.remove(owner)
      if (more) wake()
    })
    running.add(over)
  }

  const round = async (): Promise<void> => {
    woken = false
    await before?.()
    for (;;) {
      const total = atOnce.total - running.size
      const { each } = atOnce
      more = total <= 0 || [...underWay.all().values()].some((count) => count >= each)
      if (total <= 0) return
      const items = await claim({ total, each, underWay: underWay.all() })
      if (items.length === 0) return
      for (const item of items) begin(item)
    }
  }

  const poller = startPoller({ name, intervalMs, work: round, logger })
  const wake = (): void => {
    if (woken || stopped) return
    woken = true
    void poller.runNow().catch(() => undefined) // logged by the poller, which comes back to it
  }
  return {
    ...poller,
    wake,
    stop: async () => {
      stopped = true
      await poller.stop()
      await Promise.all(running)
    },
  }
}
