import type { AppendItem, ItemOutcome, StoredEvent } from '../port.ts'

type Seen = Pick<StoredEvent, 'position' | 'id'>

/**
 * The newest event that this process has read or written. While the log has it, it has all that the process knows:
 * positions are given in the order of commits, and nothing is ever taken out.
 */
export type NewestSeen = {
  read(events: readonly Seen[]): void
  sent(items: readonly AppendItem[], outcomes: readonly ItemOutcome[]): void
  /** Null before the first. */
  newest(): Seen | null
}

export const createNewestSeen = (): NewestSeen => {
  let newest: Seen | null = null
  const see = (position: number, id: string): void => {
    if (newest === null || position > newest.position) newest = { position, id }
  }
  return {
    read: (events) => {
      for (const { position, id } of events) see(position, id)
    },
    sent: (items, outcomes) => {
      for (const [index, { appends }] of items.entries()) {
        const outcome = outcomes[index]!
        if (outcome.status === 'landed')
          see(outcome.appended.at(-1)!.position, appends.at(-1)!.events.at(-1)!.id)
      }
    },
    newest: () => newest,
  }
}
