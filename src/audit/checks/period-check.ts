import type { PeriodClosed } from '../../domain/periods/events.ts'
import {
  type Closings,
  closingsOf,
  createPeriodFold,
  differenceOf,
  type PeriodReport,
} from '../../features/finance/index.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { ReadEvent } from './event-reader.ts'
import { eventLocationOf, type Findings } from './finding.ts'

/** Rebuilds the report of every month and compares each closing with it (docs/periods.md). */
export const createPeriodCheck = (findings: Findings) => {
  const fold = createPeriodFold()
  const closings = new Map<string, Closings>()

  const problemOf = ({ data }: PeriodClosed): string | null => {
    const expected = closings.get(data.period)
    return expected === undefined
      ? `${data.period} was closed before it was over`
      : differenceOf(data, expected)
  }

  const reportsUpTo = (event: RecordedEvent): readonly PeriodReport[] => {
    try {
      return fold.take(event)
    } catch {
      // The event cannot be booked; the check of the postings reports the reason. Its amounts are missing in its month.
      fold.passBy(event.id)
      return []
    }
  }

  const checkEvent = ({ stored, event, ordinal }: ReadEvent): void => {
    if (event === null) {
      fold.passBy(stored.id)
      return
    }
    for (const report of reportsUpTo(event)) closings.set(report.period, closingsOf(report))
    if (event.type !== 'PeriodClosed') return
    const problem = problemOf(event as RecordedEvent<PeriodClosed>)
    if (problem !== null)
      findings.add({ where: 'event', check: 'periods', event: eventLocationOf(stored, ordinal), problem })
  }

  return {
    /** Takes the next events of the log in decoded form. */
    take(page: readonly ReadEvent[]): void {
      for (const readEvent of page) checkEvent(readEvent)
    },
  }
}
