import type { Clock } from '../kernel/clock.ts'
import type { EventLog, StoredEvent } from '../platform/eventstore/port.ts'
import { createTimeCheck, timeRule } from './checks/event-times.ts'
import type { Violation } from './violations.ts'

const pageSize = 5_000

/**
 * Events whose time of recording was in the future, in the order of the log. Reads the whole log: only verifications
 * and operators' commands call it.
 */
export const eachRecordedEarly = async function* (
  { log, clock }: { readonly log: Pick<EventLog, 'readAll' | 'readStream'>; readonly clock: Clock },
  { after }: { readonly after: number },
): AsyncGenerator<Violation> {
  const check = createTimeCheck(log, clock)
  let ordinal = 1
  for (let page: readonly StoredEvent[] = []; ; ) {
    page = await log.readAll(page.at(-1)?.position ?? 0, pageSize)
    const times = await check(page, ordinal)
    ordinal += page.length
    for (const [index, { id, type, stream, position }] of page.entries()) {
      const problem = times[index]!.problem
      if (problem !== null && position > after)
        yield {
          position,
          eventId: id,
          eventType: type,
          stream,
          accountId: null,
          rule: timeRule,
          problem,
          decision: null,
        }
    }
    if (page.length < pageSize) return
  }
}
