import type { EventLog } from '../src/platform/eventstore/port.ts'

const page = 1_000

/** Milliseconds to read a whole log and do nothing with it: the limit of everything that is folded from it. */
export const readAlone = async (log: EventLog): Promise<number> => {
  const startedMs = performance.now()
  for (let after = 0; ; ) {
    const events = await log.readAll(after, page)
    if (events.length === 0) return performance.now() - startedMs
    after = events.at(-1)?.position ?? after
  }
}
