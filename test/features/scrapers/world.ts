import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { ledgerRef } from '../../../src/domain/ledger/fold.ts'
import { scrapeRef } from '../../../src/domain/scrapers/calls.ts'
import { scraperOf } from '../../../src/domain/scrapers/scraper-table.ts'
import { answerOf } from '../../../src/features/scrapers/call-answer.ts'
import type { CallOwner } from '../../../src/features/scrapers/call-owner.ts'
import type {
  ScrapeFailure,
  ScrapeInput,
  ScrapeOutcome,
} from '../../../src/features/scrapers/provider-port.ts'
import { createScrapes, type ScrapeRequest } from '../../../src/features/scrapers/scrape.ts'
import { createResults } from '../../../src/features/scrapers/stored-results.ts'
import type { CrashPoint } from '../../../src/kernel/crash-points.ts'
import { type AccountId, type KeyId, scrapeIdOf } from '../../../src/kernel/ids.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { readStreamState } from '../../../src/platform/commands/command.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { ApiError } from '../../../src/platform/http/errors.ts'
import { buyer, cause, serviceWorld } from '../accounts/world.ts'

/** A row of a kind that most are: $0.0030. */
export const subreddit = scraperOf('reddit', 'subreddit')!
export const bodyOf = (name: string) => ({ subreddit: name })
export const priceMicros = subreddit.priceMicros

/** The provider's answer to the n-th call, from 1; a promise keeps the call running. */
export type Answers = (input: ScrapeInput, n: number) => ScrapeOutcome | Promise<ScrapeOutcome>

export const found = (data: unknown): ScrapeOutcome => ({
  kind: 'found',
  data,
  nextCursor: null,
})
export const failed: ScrapeFailure = { kind: 'failed', code: 'provider_failed', retryAfterSeconds: 1 }

/** A provider for the tests of the service only; those over HTTP use the stand-in. */
export const provider = (answers: Answers) => {
  const calls: ScrapeInput[] = []
  let places = 0
  return {
    calls,
    /** Places that are taken now. */
    places: () => places,
    scraping: {
      longestMs: () => 5_000,
      stateOf: () => 'live' as const,
      admit: () => {
        places += 1
        return {
          release: () => {
            places -= 1
          },
          call: async (input: ScrapeInput) => {
            calls.push(input)
            const outcome = await answers(input, calls.length)
            return { outcome, cost: { provider: 'sandbox' as const, creditsCharged: 1, tookMs: 1 } }
          },
        }
      },
    },
  }
}

/** The result for a caller of the service: the answer, or the refusal with its headers. */
export type Got =
  | { readonly status: 200; readonly text: string; readonly headers: Readonly<Record<string, string>> }
  | { readonly code: string; readonly headers: Readonly<Record<string, string>>; readonly extra: object }

/** The service of calls on a real log, in the given number of processes, with one provider. */
export const scrapeWorld = async (t: TestContext, answers: Answers, cents = 100) => {
  const world = await serviceWorld(t)
  const { pool } = world
  const { accountId, keyId } = await buyer(world, { scopes: ['scrape'] })
  if (cents > 0) await world.wallets.credit({ accountId, amountCents: cents, reference: 'start' }, cause)
  const platform = provider(answers)
  const clock = { aheadMs: 0 }
  const now = () => Date.now() + clock.aheadMs
  const results = createResults({ pool, clock: now, isLogHere: true })

  const open = (
    { runner, log }: { runner: CommandRunner; log: EventLog },
    dies?: CrashPoint,
    owner: Pick<CallOwner, 'id'> = { id: () => null },
  ) => {
    const scrapes = createScrapes({
      runner,
      log,
      results,
      clock: now,
      scraping: platform.scraping,
      owner,
      hooks: {
        at: (point) => {
          if (point === dies) throw new Error(`it dies at ${point}`)
        },
      },
    })
    t.after(scrapes.stop)
    const call = async (
      requestId: string,
      body: object = bodyOf('AskReddit'),
      more: Partial<ScrapeRequest> = {},
    ) => {
      const request = {
        accountId,
        keyId: keyId as KeyId,
        capKeyId: keyId as KeyId,
        cap: null,
        requestId,
        fresh: false,
        row: subreddit,
        body,
        ...more,
      }
      try {
        const { bytes, headers } = answerOf(await scrapes.call(request as ScrapeRequest))
        return { status: 200, text: bytes.toString('utf8'), headers } as const
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        return { code: error.code, headers: error.headers ?? {}, extra: error.extra ?? {} }
      }
    }
    return { scrapes, call }
  }

  const wallet = async () => {
    const { state } = await readStreamState(world.log, ledgerRef(accountId as AccountId))
    return { available: state.availableMicros, held: state.heldMicros }
  }
  const scrape = async (requestId: string) =>
    (await readStreamState(world.log, scrapeRef(scrapeIdOf(accountId as AccountId, requestId)))).state

  return {
    ...world,
    accountId: accountId as AccountId,
    keyId,
    clock,
    now,
    results,
    provider: platform,
    open,
    here: open(world),
    there: open({ runner: world.elsewhere.runner, log: world.log }),
    wallet,
    scrape,
  }
}

/** The answer was given. */
export const bodyIn = (got: Got) => {
  assert.ok('text' in got, JSON.stringify(got))
  return JSON.parse(got.text)
}
