import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { StoredEvent } from '../../../platform/eventstore/port.ts'
import type { PeriodClosed } from '../../periods/events.ts'
import { closedOf, createPeriodFold, differenceOf } from '../../periods/report.ts'
import { type Findings, placeOf } from './finding.ts'

/** Makes the report of every month anew and holds each closing against it (docs/periods.md). */
export const createPeriodCheck = (findings: Findings) => {
  const fold = createPeriodFold()
  const closings = new Map<string, PeriodClosed['data']>()
  let stopped = false

  const problemOf = ({ data }: PeriodClosed): string | null => {
    const made = closings.get(data.period)
    return made === undefined ? `${data.period} was closed before it was over` : differenceOf(data, made)
  }

  const takeOne = (stored: StoredEvent, event: RecordedEvent, ordinal: number): void => {
    for (const report of fold.take(event)) closings.set(report.period, closedOf(report))
    if (event.type !== 'PeriodClosed') return
    const problem = problemOf(event as RecordedEvent<PeriodClosed>)
    if (problem !== null)
      findings.add({ where: 'event', check: 'periods', event: placeOf(stored, ordinal), problem })
  }

  return {
    /** The next events of the log and what they were read as; `firstOrdinal` is that of the first. */
    take(page: readonly StoredEvent[], events: readonly RecordedEvent[], firstOrdinal: number): void {
      if (stopped) return
      try {
        for (const [at, event] of events.entries()) takeOne(page[at] as StoredEvent, event, firstOrdinal + at)
      } catch {
        // An event that cannot be booked: the check of the postings says which and why.
        stopped = true
      }
    },
  }
}
