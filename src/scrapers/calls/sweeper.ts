import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { AccountId, ScrapeId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Poller } from '../../platform/work/poller.ts'
import { startWorklists, worklist } from '../../platform/work/worklist.ts'
import { createScrapeCommands } from './commands.ts'
import type { Results } from './results.ts'

type Open = { scrape_id: ScrapeId; account_id: AccountId; attempt: number }

/** Clocks of processes may differ by as much; until then the one that is at work may end it. */
const graceMs = 2_000
const forgetEveryMs = 60_000

/**
 * Ends calls whose process has gone: those that left a result are billed, the others give back what they held. And erases
 * results that nobody can have any more. Several processes may run it; ending a call twice does nothing the second time.
 */
export const startScrapeSweeper = (deps: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly results: Results
  readonly clock: Clock
  readonly logger: Logger
  readonly intervalMs?: number
}): Poller => {
  const { pool, results, clock, logger } = deps
  const { settle } = createScrapeCommands(deps)
  let forgottenMs = Number.NEGATIVE_INFINITY
  const lapsed = worklist<Open>({
    name: 'open-scrapes',
    read: 'select * from read.open_scrapes where lease_until <= $1::timestamptz',
    values: () => [isoTime(clock() - graceMs)],
    key: { lease_until: 'timestamptz', hold_id: 'text' },
    limit: 100,
    atOnce: 8,
    work: async ({ scrape_id: scrapeId, account_id: accountId, attempt }) => {
      const { answer } = await settle({ scrapeId, accountId, attempt })
      logger.info({ scrapeId, attempt, outcome: answer.finished?.outcome }, 'an open scrape was ended')
    },
  })
  const forget = () => async (): Promise<void> => {
    if (clock() < forgottenMs + forgetEveryMs) return
    await results.forget()
    forgottenMs = clock()
  }
  const intervalMs = deps.intervalMs ?? 1_000
  return startWorklists({ name: 'scrapes', intervalMs, pool, logger, lists: [lapsed, forget] })
}
