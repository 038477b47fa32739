import type { EventLog, StoredEvent } from './port.ts'

/** Events of one page: memory holds two pages, whatever the length of the log. */
const pageSize = 2_000

/**
 * The log from behind `start` (0: its beginning) through a position, page by page; the next page is read while this one is worked on.
 * @param limit events of a page
 * @throws LogUnavailable
 */
export async function* readLog(
  log: Pick<EventLog, 'readAll'>,
  through: number,
  limit = pageSize,
  start = 0,
): AsyncGenerator<readonly StoredEvent[]> {
  const read = (after: number): Promise<readonly StoredEvent[]> => {
    const page = log.readAll(after, limit)
    // It is awaited later; a failure before that is not unhandled.
    page.catch(() => undefined)
    return page
  }
  let next = read(start)
  for (;;) {
    const page = await next
    const last = page.at(-1)
    if (last === undefined) return
    const more = page.length === limit && last.position < through
    if (more) next = read(last.position)
    const events = last.position <= through ? page : page.filter(({ position }) => position <= through)
    if (events.length > 0) yield events
    if (!more) return
  }
}
