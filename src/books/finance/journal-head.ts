import type { Progress } from '../../../projections/engine/progress.ts'
import { ReadsBehind } from '../../../projections/engine/reads.ts'
import { books } from '../../../projections/groups.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { createGathered } from '../../platform/postgres/gathered.ts'

/** Gives the log's head, once the journal has passed it; calls at once share a look at the log. */
export const createJournalHead = ({
  log,
  progress,
  timeoutMs = 2000,
}: {
  readonly log: Pick<EventLog, 'head'>
  readonly progress: Pick<Progress, 'reached'>
  /** How long it waits for the journal; default 2,000. */
  readonly timeoutMs?: number | undefined
}): (() => Promise<number>) => {
  const headOf = createGathered<'log', number>(async () => new Map([['log', await log.head()]]))
  /** @throws ReadsBehind */
  return async () => {
    const position = (await headOf('log')) ?? 0
    if (await progress.reached(books.name, position, timeoutMs)) return position
    throw new ReadsBehind('the journal has not come as far as the log; try again')
  }
}
