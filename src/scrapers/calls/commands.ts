import { type AccountId, newId, type ScrapeId } from '../../kernel/ids.ts'
import { ledgerRef } from '../../money/ledger/fold.ts'
import type { CommandOutcome, CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Actor, Cause } from '../../platform/eventstore/event.ts'
import {
  decideFinish,
  decideStart,
  type Ending,
  type FinishAnswer,
  type ScrapeDraft,
  type StartAnswer,
} from './decide.ts'
import { scrapeRef } from './fold.ts'
import type { Results } from './results.ts'

/** A try, by its id and its number. */
export type Try = {
  readonly scrapeId: ScrapeId
  readonly accountId: AccountId
  readonly attempt: number
}

/** What is written of calls. All of it rejects as the command runner does. */
export type ScrapeCommands = {
  /** @param fresh The service made the id just now: no call stands under it, and its stream is not looked at first */
  start(draft: ScrapeDraft, cause: Cause, fresh: boolean): Promise<CommandOutcome<StartAnswer>>
  finish(ended: Try, ending: Ending, cause: Cause): Promise<CommandOutcome<FinishAnswer>>
  /**
   * Ends a try whose process has gone: it is billed exactly when it left a result that can be had. It does nothing to one
   * that is over, but to what is left of its hold.
   */
  settle(lapsed: Try): Promise<CommandOutcome<FinishAnswer>>
}

const sweeper: Actor = { kind: 'system', name: 'scrapes' }

/** An ending without a result. */
export const endingOf = (outcome: Ending['outcome'], creditsCharged: number | null = null): Ending => ({
  outcome,
  body: null,
  cached: false,
  creditsCharged,
})

export const createScrapeCommands = (deps: {
  readonly runner: CommandRunner
  readonly results: Pick<Results, 'of'>
}): ScrapeCommands => {
  const { runner, results } = deps

  const finish: ScrapeCommands['finish'] = ({ scrapeId, accountId, attempt }, ending, cause) =>
    runner.run({
      ...cause,
      name: 'finish-scrape',
      streams: { scrape: scrapeRef(scrapeId), ledger: ledgerRef(accountId) },
      decide: (states) => decideFinish(states, { attempt, ending }),
      account: accountId,
    })

  return {
    start: (draft, cause, fresh) =>
      runner.run({
        ...cause,
        name: 'start-scrape',
        streams: {
          scrape: { ...scrapeRef(draft.scrapeId), ...(fresh && { assume: 'absent' as const }) },
          ledger: ledgerRef(draft.accountId),
        },
        decide: (states, { nowMs }) => decideStart(states, draft, nowMs),
        account: draft.accountId,
      }),
    finish,
    settle: async (lapsed) => {
      const kept = await results.of(lapsed.scrapeId, lapsed.attempt)
      return finish(lapsed, kept ?? endingOf('interrupted'), { actor: sweeper, correlationId: newId('run') })
    },
  }
}
