import type pg from 'pg'
import type { Logger } from 'pino'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import { scrapeRef } from '../../domain/scrapers/calls.ts'
import {
  type AttemptEnd,
  decideFinish,
  decideStart,
  type FinishAnswer,
  type ScrapeDraft,
  type StartAnswer,
} from '../../domain/scrapers/decide-call.ts'
import { type Clock, hasElapsed, isoTime, type MonotonicClock } from '../../kernel/clock.ts'
import type { Actor, Cause } from '../../kernel/event.ts'
import { type AccountId, newId, type ScrapeId } from '../../kernel/ids.ts'
import type { CommandOutcome, CommandRunner } from '../../platform/commands/command.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { worklist, worklistRound } from '../../platform/work/worklist.ts'
import { ownerLock } from './call-owner.ts'
import type { Results } from './stored-results.ts'

/** One attempt of a call: its scrape id and number. */
export type AttemptRef = {
  readonly scrapeId: ScrapeId
  readonly accountId: AccountId
  readonly attempt: number
}

/** The commands on calls. All of them reject as the command runner does. */
export type ScrapeCommands = {
  /** @param isNew The service just generated the id: no call exists under it, so its stream is not read first */
  start(draft: ScrapeDraft, cause: Cause, isNew: boolean): Promise<CommandOutcome<StartAnswer>>
  finish(attemptRef: AttemptRef, attemptEnd: AttemptEnd, cause: Cause): Promise<CommandOutcome<FinishAnswer>>
  /**
   * Ends an attempt whose process is gone. It is billed only if it stored a result that is still available. For a
   * finished attempt it only releases the rest of its hold.
   */
  settle(lapsed: AttemptRef): Promise<CommandOutcome<FinishAnswer>>
}

const sweeper: Actor = { kind: 'system', name: 'scrapes' }

/** An ending without a result. */
export const endWithoutResult = (
  outcome: AttemptEnd['outcome'],
  creditsCharged: number | null = null,
): AttemptEnd => ({
  outcome,
  body: null,
  cached: false,
  creditsCharged,
})

export const createScrapeCommands = (dependencies: {
  readonly runner: CommandRunner
  readonly results: Pick<Results, 'of'>
}): ScrapeCommands => {
  const { runner, results } = dependencies

  const finish: ScrapeCommands['finish'] = ({ scrapeId, accountId, attempt }, attemptEnd, cause) =>
    runner.run({
      ...cause,
      name: 'finish-scrape',
      streams: { scrape: scrapeRef(scrapeId), ledger: ledgerRef(accountId) },
      decide: (states) => decideFinish(states, { attempt, ending: attemptEnd }),
      account: accountId,
    })

  return {
    start: (draft, cause, isNew) =>
      runner.run({
        ...cause,
        name: 'start-scrape',
        streams: {
          scrape: { ...scrapeRef(draft.scrapeId), ...(isNew && { assume: 'absent' as const }) },
          ledger: ledgerRef(draft.accountId),
        },
        decide: (states, { nowMs }) => decideStart(states, draft, nowMs),
        account: draft.accountId,
      }),
    finish,
    settle: async (lapsed) => {
      const storedResult = await results.of(lapsed.scrapeId, lapsed.attempt)
      return finish(lapsed, storedResult ?? endWithoutResult('interrupted'), {
        actor: sweeper,
        correlationId: newId('run'),
      })
    },
  }
}

type OpenAttempt = { scrape_id: ScrapeId; account_id: AccountId; attempt: number }

/**
 * Until then the process that makes the call may end it, milliseconds: the clocks of processes differ, and a process that
 * lost its connection to Postgres connects again.
 */
const graceMs = 2_000
const cleanupIntervalMs = 60_000

/** The processes of open calls that Postgres does not know any more. */
export const absentCallOwners = async (pool: Pick<pg.Pool, 'query'>): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ process: string }>({
    name: 'scrapes-absent-owners',
    text: `with owners as materialized (
             select distinct process from read.open_scrapes where process is not null
           )
           select process from owners
            where not exists (
              select from pg_locks l
               where l.locktype = 'advisory' and l.granted and l.objsubid = 1
                 and (l.classid::bigint << 32 | l.objid::bigint)
                     = hashtextextended('farebox ' || $1::text || process, 0)
                 and l.database = (select oid from pg_database where datname = current_database()))`,
    values: [ownerLock('')],
  })
  return rows.map(({ process }) => process)
}

export const scrapeSweeper = worker({
  name: 'scrapes',
  about: 'Ends scraper calls whose process is gone and erases old results',
  trigger: { everyMs: 1_000, quietMs: 10_000 },
  per: 'process',
  process: 'server',
})

/**
 * Ends calls whose process is gone, or whose lease is over: calls with a stored result are billed, the holds of others are released. Also
 * erases expired results. Several processes may run it: ending a call is idempotent.
 */
export const startScrapeSweeper = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly results: Results
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
  readonly intervalMs?: number
}): RunningWorker => {
  const { scheduler, pool, results, clock, monotonicMs, logger } = dependencies
  const { settle } = createScrapeCommands(dependencies)
  let lastCleanupMs = Number.NEGATIVE_INFINITY
  /** When a process was first found absent, by the clock of this process. */
  let absentSinceMs: ReadonlyMap<string, number> = new Map()
  const findAbsent = () => async (): Promise<void> => {
    const nowMs = monotonicMs()
    const absent = await absentCallOwners(pool)
    absentSinceMs = new Map(absent.map((process) => [process, absentSinceMs.get(process) ?? nowMs]))
  }
  const goneProcesses = (): readonly string[] =>
    [...absentSinceMs].filter(([, sinceMs]) => sinceMs + graceMs <= monotonicMs()).map(([process]) => process)
  const lapsed = worklist<OpenAttempt>({
    name: 'open-scrapes',
    read: 'select * from read.open_scrapes where lease_until <= $1::timestamptz or process = any ($2::text[])',
    values: () => [isoTime(clock() - graceMs), goneProcesses()],
    key: { lease_until: 'timestamptz', hold_id: 'text' },
    limit: 100,
    atOnce: 8,
    work: async ({ scrape_id: scrapeId, account_id: accountId, attempt }) => {
      const { answer } = await settle({ scrapeId, accountId, attempt })
      logger.info({ scrapeId, attempt, outcome: answer.finished?.outcome }, 'an open scrape was ended')
    },
  })
  const cleanUp = () => async (): Promise<void> => {
    if (!hasElapsed(lastCleanupMs, clock(), cleanupIntervalMs)) return
    await results.forget()
    lastCleanupMs = clock()
  }
  return scheduler.start(scrapeSweeper, worklistRound(pool, [findAbsent, lapsed, cleanUp]), {
    everyMs: dependencies.intervalMs,
  })
}
