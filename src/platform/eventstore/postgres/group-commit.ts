import { appendBytes, assertItems, refusalOf } from '../checks.ts'
import type { AppendItem, ItemOutcome } from '../port.ts'
import { cutBatch, type Waiting } from './cut.ts'

/** Items that may wait in one process; beyond it they are answered `unavailable` at once. */
const maxWaitingItems = 50_000

export type BatchReport = { readonly items: number; readonly bytes: number; readonly durationMs: number }

export type GroupCommit = {
  appendAll(items: readonly AppendItem[]): Promise<readonly ItemOutcome[]>
  /** Writes what waits, then takes nothing more. */
  close(): Promise<void>
}

type Pending = Waiting & { readonly settle: (outcome: ItemOutcome) => void }

/** Why no log takes the item, or what it weighs. */
const weigh = ({ appends }: AppendItem): number | ItemOutcome => {
  let total = 0
  for (const append of appends) {
    const bytes = appendBytes(append)
    const cause = refusalOf(append, bytes)
    if (cause !== null) return { status: 'rejected', cause, landed: [] }
    total += bytes
  }
  return total
}

/**
 * Group commit: whatever arrives while a batch is on its way shares the next one, so the cost of a commit is shared by
 * all who wait for it. One batch is in flight at a time.
 */
export const createGroupCommit = (
  send: (items: readonly AppendItem[]) => Promise<readonly ItemOutcome[]>,
  onBatch: (report: BatchReport) => void,
): GroupCommit => {
  let queue: Pending[] = []
  let writing: Promise<void> | null = null
  let closed = false

  const writeAll = async (): Promise<void> => {
    while (queue.length > 0) {
      const { batch, rest } = cutBatch(queue)
      queue = rest
      const startedMs = performance.now()
      const outcomes = await send(batch.map(({ item }) => item))
      for (const [index, { settle }] of batch.entries()) settle(outcomes[index]!)
      const bytes = batch.reduce((sum, each) => sum + each.bytes, 0)
      onBatch({ items: batch.length, bytes, durationMs: performance.now() - startedMs })
    }
    writing = null
  }

  /** From a microtask, so that all that one turn of the program appends shares a batch. */
  const wake = (): void => {
    writing ??= Promise.resolve().then(writeAll)
  }

  const submit = (item: AppendItem): Promise<ItemOutcome> | ItemOutcome => {
    if (item.appends.length === 0) return { status: 'landed', appended: [] }
    const bytes = weigh(item)
    if (typeof bytes !== 'number') return bytes
    const refuse = (why: string): ItemOutcome => ({
      status: 'unavailable',
      cause: new Error(why),
      landed: [],
    })
    if (closed) return refuse('the log is closed')
    if (queue.length >= maxWaitingItems) return refuse(`${maxWaitingItems} appends wait already`)
    return new Promise((settle) => {
      queue.push({ item, bytes, settle })
      wake()
    })
  }

  return {
    appendAll: async (items) => {
      assertItems(items)
      return Promise.all(items.map(submit))
    },
    close: async () => {
      closed = true
      await writing
    },
  }
}
