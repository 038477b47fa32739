import { setTimeout as sleep } from 'node:timers/promises'
import {
  isResult,
  type Scrape,
  type ScrapeFinished,
  type ScrapeState,
  scrapeRef,
} from '../../domain/scrapers/calls.ts'
import { checkInput, comparableInput, type InputRefusal } from '../../domain/scrapers/check-input.ts'
import { type AttemptEnd, maxAttempts } from '../../domain/scrapers/decide-call.ts'
import { decidePrices, scraperPrices, scraperPricesRef } from '../../domain/scrapers/prices.ts'
import type { ScraperRow } from '../../domain/scrapers/scraper.ts'
import { scraperOf } from '../../domain/scrapers/scraper-table.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash-points.ts'
import { requestDigest } from '../../kernel/digest.ts'
import type { Actor, Cause } from '../../kernel/event.ts'
import { type AccountId, newId, type ScrapeId, scrapeIdOf } from '../../kernel/ids.ts'
import { canonical, withoutNulls } from '../../kernel/json-text.ts'
import { dollarsOfMicros } from '../../kernel/money.ts'
import { scrapeStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readStreamState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Caller } from '../../platform/http/auth.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { JsonBytes } from '../../platform/http/route.ts'
import { refuseForPayment } from '../wallet/index.ts'
import { type FinishedCall, refusalOf } from './call-answer.ts'
import { createScrapeCommands, endWithoutResult } from './call-commands.ts'
import type { CallOwner } from './call-owner.ts'
import {
  type CacheDays,
  type CallSlot,
  isScrapeFailure,
  type ScrapeInput,
  type Scraping,
} from './provider-port.ts'
import type { CachedAnswer, Results } from './stored-results.ts'

/** The caller: an API key of the account, or a person with a console session and without a key. */
type ScrapeCaller =
  | Pick<Caller, 'keyId' | 'capKeyId' | 'cap'>
  | { readonly keyId: null; readonly actor: Extract<Actor, { readonly kind: 'session' }> }

export type ScrapeRequest = ScrapeCaller & {
  readonly accountId: AccountId
  /** The idempotency key of the call within its account. */
  readonly requestId: string
  /** Whether the service just generated the id. */
  readonly fresh: boolean
  readonly row: ScraperRow
  readonly body: Readonly<Record<string, unknown>>
  /** The accepted age of an earlier answer of the account; if missing, the answer is always fetched. */
  readonly maxAgeDays?: CacheDays
  /** The time to which the age counts, milliseconds; default: now. */
  readonly acceptedAtMs?: number
}

export type Scrapes = {
  /** For each input: whether a call would get an earlier answer, for free. */
  cached(
    accountId: AccountId,
    row: ScraperRow,
    inputs: readonly ScrapeInput[],
    maxAgeDays: CacheDays | undefined,
    atMs: number,
  ): Promise<readonly boolean[]>
  /** @throws ApiError scraper_unavailable: a call without an earlier answer would fail */
  requireProvider(row: ScraperRow): void
  /**
   * Makes a call and bills it by its outcome, or answers the existing call with its id, whatever the current wallet and
   * scraper are. It ends within the time limit of the row's provider plus some seconds. If another request works on the
   * same id, this one waits for it.
   * `answerOf` makes its answer.
   * @throws ApiError: bad_input, unknown_field, idempotency_conflict, spend_cap_reached, insufficient_balance,
   * provider_failed, upstream_credits_exhausted, upstream_auth_rejected, scraper_unavailable, overloaded;
   * CommandOverload
   */
  call(request: ScrapeRequest): Promise<FinishedCall>
  /** Whether a call with this id has a result. */
  hasResult(accountId: AccountId, requestId: string): Promise<boolean>
  /** The call with this id, as an earlier request; null if it has no result. */
  finished(accountId: AccountId, requestId: string): Promise<FinishedCall | null>
  /** Aborts calls in progress and waits for them. A call that is not fetched yet ends as failed. */
  stop(): Promise<void>
}

/** @throws Error for another person's session: it may view an account, but never pays from its wallet */
const actorOf = (request: ScrapeRequest): Actor => {
  const { accountId, keyId } = request
  if (keyId !== null) return { kind: 'key', accountId, keyId }
  const { actor } = request
  if (actor.subjectId !== accountId)
    throw new Error(`session ${actor.sessionId} is of ${actor.subjectId} and cannot pay for ${accountId}`)
  return actor
}

const pricesActor: Actor = { kind: 'system', name: 'scrapes' }

/** Added to the provider's time limit in a lease: time to store the result and end the call, milliseconds. */
const marginMs = 15_000
/** Rounds for one id: a call that this request waits for may fail, and another process may retry it. */
const maxRounds = 3

const firstPollMs = 20
const maxPollMs = 500

/**
 * Equal for bodies of the same call, whatever the order of their fields. A body that is refused now may be that of a
 * known call, so it is compared as it was sent.
 */
export const comparableBody = (row: ScraperRow, body: Readonly<Record<string, unknown>>): unknown => {
  const checked = checkInput(row, body)
  return canonical(checked.ok ? comparableInput(row, checked.input) : withoutNulls(body))
}

/** Identifies the request of a retry. */
const fingerprintOf = ({ row, body, maxAgeDays }: ScrapeRequest): string =>
  requestDigest([row.platform, row.operation, comparableBody(row, body), ...(maxAgeDays ? [maxAgeDays] : [])])

const conflict = () =>
  refuse(
    'idempotency_conflict',
    'this X-Request-Id or Idempotency-Key was used before with another scraper or body; send a new one for a new call',
  )

const refuseInput = ({ code, message, details }: InputRefusal, where: string) =>
  code === 'unknown_field'
    ? refuse(code, where + message)
    : refuse(code, where + message, { details: where + details })

/**
 * The checked input of a scraper.
 * @param where prefix of a refusal, such as `input 3: `
 * @throws ApiError: bad_input, unknown_field
 */
export const inputOf = (
  row: ScraperRow,
  body: Readonly<Record<string, unknown>>,
  where = '',
): ScrapeInput => {
  const checked = checkInput(row, body)
  if (!checked.ok) throw refuseInput(checked.refusal, where)
  return checked.input
}

/** The same for equal inputs of an account; null: answers of the scraper are not used again. */
const cacheKeyOf = (accountId: AccountId, row: ScraperRow, input: ScrapeInput): string | null =>
  row.source.isCacheable
    ? requestDigest([accountId, row.platform, row.operation, canonical(comparableInput(row, input))])
    : null

/** The scraper of a request. @throws ApiError: unknown_scraper */
export const requireScraper = (platform: string, operation: string): ScraperRow => {
  const row = scraperOf(platform, operation)
  if (row === null)
    throw refuse('unknown_scraper', 'no scraper has this platform and operation; GET /v1/scrape lists them')
  return row
}

/** Where the result of a call comes from. */
type Source =
  | { readonly cached: CachedAnswer }
  | { readonly cached: null; readonly input: ScrapeInput; readonly callSlot: CallSlot }

/** The ending of an attempt and the bytes of its answer. */
type Fetched = { readonly ending: AttemptEnd } & Pick<FinishedCall, 'bytes' | 'details' | 'retryAfterS'>

/** A request with the values derived from it. */
type IdentifiedScrape = {
  readonly request: ScrapeRequest
  readonly scrapeId: ScrapeId
  readonly fingerprint: string
  readonly cause: Cause
}

export const createScrapes = (dependencies: {
  readonly runner: CommandRunner
  readonly log: EventLog
  readonly results: Results
  readonly scraping: Pick<Scraping, 'admit' | 'longestMs' | 'stateOf'>
  readonly clock: Clock
  readonly hooks: CrashHooks
  readonly owner: Pick<CallOwner, 'id'>
}): Scrapes => {
  const { runner, log, results, scraping, clock, hooks, owner } = dependencies
  const commands = createScrapeCommands(dependencies)
  const stopping = new AbortController()
  const running = new Map<
    ScrapeId,
    { readonly fingerprint: string; readonly completion: Promise<FinishedCall> }
  >()

  let priceRecording: Promise<unknown> | null = null

  /** Appends the prices before the first call that uses them. */
  const recordPrices = (): Promise<unknown> => {
    priceRecording ??= handle(
      runner,
      { name: 'set-scraper-prices', actor: pricesActor, correlationId: newId('run') },
      scraperPricesRef,
      (state) => decidePrices(state, scraperPrices),
    ).catch((error: unknown) => {
      priceRecording = null
      throw error
    })
    return priceRecording
  }

  /** A finished call that another process or an earlier request ended. */
  const finishedCallOf = async (
    { started }: Scrape,
    finished: ScrapeFinished['data'],
  ): Promise<FinishedCall> => {
    const [bytes, last] = await Promise.all([
      finished.body === null ? null : results.bytes(finished.scrapeId, finished.attempt),
      log.lastOf(scrapeStream(finished.scrapeId)),
    ])
    const { outcome, billed, cached } = finished
    const { priceMicros } = started
    const position = last?.position ?? null
    const noDetails = { details: null, retryAfterS: 1 }
    return {
      ...noDetails,
      outcome,
      billed,
      cached,
      priceMicros,
      bytes,
      position,
      availableMicros: null,
      replayed: true,
    }
  }

  const findResult = async (accountId: AccountId, requestId: string) => {
    const { state: scrape } = await readStreamState(log, scrapeRef(scrapeIdOf(accountId, requestId)))
    const finished = scrape?.finished
    return scrape && finished && isResult(finished.outcome) ? { scrape, finished } : null
  }

  /** Waits until an attempt is finished; null if its process is gone, or if another attempt follows it. */
  const waitFor = async ({ started, leaseUntilMs }: Scrape): Promise<FinishedCall | null> => {
    const ref = scrapeRef(started.scrapeId)
    for (let pauseMs = firstPollMs; ; pauseMs = Math.min(2 * pauseMs, maxPollMs)) {
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined)
      const { state } = await readStreamState(log, ref)
      if (state === null || state.started.attempt !== started.attempt) return null
      if (state.finished !== null)
        return state.finished.outcome === 'interrupted' ? null : finishedCallOf(state, state.finished)
      if (stopping.signal.aborted) throw refuseWithRetryAfter('overloaded', 'the service stops; try again', 1)
      if (clock() >= leaseUntilMs) return null
    }
  }

  /** Stores an earlier answer as the result of this call. */
  const reuse = async (
    { request: { requestId, row }, scrapeId }: IdentifiedScrape,
    attempt: number,
    { outcome, bytes: earlierBytes }: CachedAnswer,
  ): Promise<Fetched> => {
    const bytes =
      earlierBytes === null
        ? null
        : JsonBytes.of({
            ...JSON.parse(earlierBytes.toString('utf8')),
            requestId,
            billing: { priceUsd: dollarsOfMicros(row.priceMicros), billed: false },
            cached: true,
          }).bytes
    const result = { outcome, cached: true, creditsCharged: 0 } as const
    const body = await results.store(scrapeId, attempt, result, bytes, { key: null, maxAgeDays: null })
    return { ending: { ...result, body }, bytes, details: null, retryAfterS: null }
  }

  /** Fetches a call and stores its result. */
  const fetch = async (
    { request, scrapeId }: IdentifiedScrape,
    attempt: number,
    callSlot: CallSlot,
    input: ScrapeInput,
  ): Promise<Fetched> => {
    const { accountId, row, requestId, maxAgeDays = null } = request
    const { outcome, cost } = await callSlot.call(input, { signal: stopping.signal })
    const { creditsCharged } = cost
    hooks.at('scrape-fetched')
    const cache = { key: cacheKeyOf(accountId, row, input), maxAgeDays }
    const noDetails = { bytes: null, details: null, retryAfterS: null }
    if (outcome.kind === 'failed') {
      const { code, retryAfterSeconds: retryAfterS } = outcome
      return { ...noDetails, ending: endWithoutResult(code, creditsCharged), retryAfterS }
    }
    if (outcome.kind === 'bad_input') {
      const { kind, details } = outcome
      return { ...noDetails, ending: endWithoutResult(kind, creditsCharged), details }
    }
    if (outcome.kind === 'target_restricted')
      return { ...noDetails, ending: endWithoutResult(outcome.kind, creditsCharged) }
    if (outcome.kind === 'target_not_found') {
      const result = { outcome: outcome.kind, cached: false, creditsCharged }
      await results.store(scrapeId, attempt, result, null, cache)
      hooks.at('scrape-kept')
      return { ...noDetails, ending: { ...result, body: null } }
    }
    const { data, nextCursor } = outcome
    const isFound = outcome.kind === 'found'
    const { bytes } = JsonBytes.of({
      platform: row.platform,
      operation: row.operation,
      requestId,
      data,
      nextCursor,
      billing: { priceUsd: dollarsOfMicros(row.priceMicros), billed: isFound },
      fetchedAt: isoTime(clock()),
      cached: false,
    })
    const result = { outcome: isFound ? 'found' : 'empty', cached: false, creditsCharged } as const
    const body = await results.store(scrapeId, attempt, result, bytes, cache)
    hooks.at('scrape-kept')
    return { ...noDetails, ending: { ...result, body }, bytes }
  }

  /** Runs an attempt that belongs to this request: gets its result and ends it. */
  const continueAttempt = async (
    identified: IdentifiedScrape,
    { started }: Scrape,
    source: Source,
  ): Promise<FinishedCall> => {
    const { scrapeId, accountId, attempt, priceMicros } = started
    const attemptRef = { scrapeId, accountId, attempt }
    hooks.at('scrape-started')
    let fetched: Fetched
    try {
      fetched =
        source.cached === null
          ? await fetch(identified, attempt, source.callSlot, source.input)
          : await reuse(identified, attempt, source.cached)
    } catch (error) {
      // Nothing is billed without a result. If this append fails, the sweeper ends the attempt.
      await commands
        .finish(attemptRef, endWithoutResult('interrupted'), identified.cause)
        .catch(() => undefined)
      throw error
    }
    const { answer, position } = await commands.finish(attemptRef, fetched.ending, identified.cause)
    hooks.at('scrape-finished')
    const { finished, availableMicros } = answer
    const ended = { priceMicros, position, availableMicros, replayed: false }
    const { outcome = 'interrupted', billed = false, cached = false } = finished ?? {}
    // The sweeper was first, because this took longer than the lease: what was fetched is not the result.
    if (outcome === 'interrupted')
      return { ...ended, outcome, billed, cached, bytes: null, details: null, retryAfterS: 1 }
    const { bytes, details, retryAfterS } = fetched
    return { ...ended, outcome, billed, cached, bytes, details, retryAfterS }
  }

  /**
   * The call with this id when it has a result or is in progress; null when the id can be used.
   * @throws ApiError idempotency_conflict
   */
  const findFinished = async ({ scrapeId, fingerprint }: IdentifiedScrape): Promise<FinishedCall | null> => {
    const { state }: { state: ScrapeState } = await readStreamState(log, scrapeRef(scrapeId))
    if (state === null) return null
    if (state.started.fingerprint !== fingerprint) throw conflict()
    if (state.finished === null) return waitFor(state)
    return isResult(state.finished.outcome) ? finishedCallOf(state, state.finished) : null
  }

  /**
   * Checks a request, and finds an earlier answer or acquires a slot.
   * @throws ApiError; then no hold was placed and nothing was fetched
   */
  const prepare = async ({
    request: { accountId, row, body, maxAgeDays, acceptedAtMs = clock() },
  }: IdentifiedScrape): Promise<Source> => {
    const input = inputOf(row, body)
    const key = cacheKeyOf(accountId, row, input)
    const cached =
      maxAgeDays === undefined || key === null ? null : await results.cached(key, maxAgeDays, acceptedAtMs)
    if (cached !== null) return { cached }
    const callSlot = scraping.admit(row)
    if (isScrapeFailure(callSlot))
      throw refusalOf(callSlot.code, { details: null, retryAfterS: callSlot.retryAfterSeconds })
    return { cached, input, callSlot }
  }

  /** A known id answers its call, even if its scraper changed since. */
  const prepareUnlessKnown = async (identified: IdentifiedScrape): Promise<Source | FinishedCall> => {
    try {
      return await prepare(identified)
    } catch (refusal) {
      const finishedCall = identified.request.fresh ? null : await findFinished(identified)
      if (finishedCall === null) throw refusal
      return finishedCall
    }
  }

  const draftOf = ({ request, scrapeId, fingerprint }: IdentifiedScrape, isFree: boolean) => {
    const { accountId, keyId, requestId, row } = request
    const { platform, operation, priceMicros } = row
    const leaseMs = scraping.longestMs(row) + marginMs
    const { digest } = scraperPrices
    const { capKeyId, cap } = keyId === null ? { capKeyId: null, cap: null } : request
    const process = owner.id()
    const call = { scrapeId, accountId, keyId, requestId, platform, operation, fingerprint }
    return {
      ...call,
      ...(process !== null && { process }),
      priceMicros,
      pricesDigest: digest,
      leaseMs,
      isFree,
      capKeyId,
      cap,
    }
  }

  const perform = async (identified: IdentifiedScrape): Promise<FinishedCall> => {
    for (let round = 0; round < maxRounds; round += 1) {
      const source = await prepareUnlessKnown(identified)
      if ('outcome' in source) return source
      let waited: Scrape
      try {
        await recordPrices()
        const { answer } = await commands.start(
          draftOf(identified, source.cached !== null),
          identified.cause,
          identified.request.fresh,
        )
        switch (answer.kind) {
          case 'started':
            return await continueAttempt(identified, answer.scrape, source)
          case 'finished':
            return await finishedCallOf(answer.scrape, answer.finished)
          case 'conflict':
            throw conflict()
          case 'spent':
            throw refuse(
              'bad_input',
              `this X-Request-Id or Idempotency-Key failed ${maxAttempts} times; send a new one`,
              {
                details: 'X-Request-Id',
              },
            )
          case 'refused':
            throw refuseForPayment(answer.refusal, 'call')
          case 'running':
          case 'lapsed':
            waited = answer.scrape
            break
          default: {
            const unknown: never = answer
            throw new Error(`unknown answer ${JSON.stringify(unknown)}`)
          }
        }
      } finally {
        if (source.cached === null) source.callSlot.release()
      }
      const completion = clock() < waited.leaseUntilMs ? await waitFor(waited) : null
      if (completion) return completion
      await commands.settle(waited.started)
    }
    throw refuseWithRetryAfter('overloaded', 'the call under this X-Request-Id is not over; try again', 1)
  }

  const call = async (request: ScrapeRequest): Promise<FinishedCall> => {
    const { accountId, requestId } = request
    const scrapeId = scrapeIdOf(accountId, requestId)
    const fingerprint = fingerprintOf(request)
    const runningCall = running.get(scrapeId)
    if (runningCall) {
      if (runningCall.fingerprint !== fingerprint) throw conflict()
      return { ...(await runningCall.completion), availableMicros: null, replayed: true }
    }
    const cause: Cause = { actor: actorOf(request), correlationId: requestId }
    const completion = perform({ request, scrapeId, fingerprint, cause })
    running.set(scrapeId, { fingerprint, completion })
    try {
      return await completion
    } finally {
      running.delete(scrapeId)
    }
  }

  return {
    call,
    requireProvider: (row) => {
      if (scraping.stateOf(row) === 'unavailable')
        throw refusalOf('scraper_unavailable', { details: null, retryAfterS: null })
    },
    hasResult: async (accountId, requestId) => (await findResult(accountId, requestId)) !== null,
    finished: async (accountId, requestId) => {
      const found = await findResult(accountId, requestId)
      return found && finishedCallOf(found.scrape, found.finished)
    },
    cached: async (accountId, row, inputs, maxAgeDays, atMs) => {
      const keys = inputs.map((input) => cacheKeyOf(accountId, row, input))
      if (maxAgeDays === undefined) return keys.map(() => false)
      const found = await results.cachedKeys(
        keys.filter((key) => key !== null),
        maxAgeDays,
        atMs,
      )
      return keys.map((key) => key !== null && found.has(key))
    },
    stop: async () => {
      stopping.abort()
      await Promise.allSettled([...running.values()].map(({ completion }) => completion))
    },
  }
}
