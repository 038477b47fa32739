import { createEntryStream, type Entry } from '../../../src/domain/finance/entries.ts'
import type { Moment } from '../../../src/features/finance/input-forms.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { decode } from '../../platform/projections/engine.ts'

export type FoldedEvent = { readonly position: number; readonly at: string; readonly entry: Entry | null }

/** The events whose entries are up to a moment, of those that were in the log up to `head`. */
export const upTo = (
  events: readonly FoldedEvent[],
  moment: Moment,
  head = Number.POSITIVE_INFINITY,
): readonly FoldedEvent[] =>
  moment.kind === 'position'
    ? events.filter(({ position }) => position <= moment.position)
    : events.filter(
        ({ position, at, entry }) => position <= head && Date.parse(entry?.at ?? at) <= moment.atMs,
      )

/** Every event of a log with its accounting time and its postings. */
export const foldLog = async (log: EventLog): Promise<readonly FoldedEvent[]> => {
  const entries = createEntryStream()
  return (await log.readAll(0, 1_000_000)).map((stored) => {
    const entry = entries.next(decode(stored))
    return { position: stored.position, at: entries.time?.at as string, entry }
  })
}

/** Balances by `book account` after some events; zero ones are left out. */
export const balancesOf = (events: readonly FoldedEvent[]): Map<string, bigint> => {
  const balances = new Map<string, bigint>()
  for (const { entry } of events)
    for (const { book, account, debitMicros, creditMicros } of entry?.postings ?? []) {
      const key = `${book} ${account}`
      balances.set(key, (balances.get(key) ?? 0n) + BigInt(debitMicros) - BigInt(creditMicros))
    }
  return new Map([...balances].filter(([, balance]) => balance !== 0n).sort(([a], [b]) => (a < b ? -1 : 1)))
}
