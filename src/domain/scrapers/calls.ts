import { applyDecided, type Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  flag,
  group,
  hex,
  id,
  integer,
  micros,
  number,
  oneOf,
  orAbsent,
  orNull,
  type ShapeValue,
  text,
  time,
} from '../../kernel/event-fields.ts'
import type { AccountId, ScrapeId } from '../../kernel/ids.ts'
import { scrapeStream } from '../../kernel/streams.ts'

/**
 * The outcomes of a call. The first four are results: a retry gets them again. The others are failures, after which the
 * same `X-Request-Id` is tried again. `interrupted` is a call whose process ended before it had a result.
 */
const scrapeOutcomes = [
  'found',
  'empty',
  'target_not_found',
  'target_restricted',
  'bad_input',
  'provider_failed',
  'upstream_credits_exhausted',
  'upstream_auth_rejected',
  'scraper_unavailable',
  'overloaded',
  'interrupted',
] as const
export type ScrapeOutcome = (typeof scrapeOutcomes)[number]

/**
 * Whether an outcome is charged (docs/guides/scrapers.md, "What is billed"). A cached answer repeats an outcome that was
 * charged before.
 */
export const isBilled = (outcome: ScrapeOutcome, cached: boolean): boolean =>
  !cached && (outcome === 'found' || outcome === 'target_not_found')

/** Whether a retry gets this outcome again and not another try. */
export const isResult = (outcome: ScrapeOutcome): boolean =>
  outcome === 'found' ||
  outcome === 'target_not_found' ||
  outcome === 'empty' ||
  outcome === 'target_restricted'

const stream = 'scrape-{scrape}'

/** The common fields of both events of a `scrape-{id}` stream. */
const call = {
  scrapeId: id<ScrapeId>('scr', 'the call'),
  accountId: id<AccountId>('acc', 'the account that pays'),
  attempt: integer('tries', 'above 0', 'counts the tries under one `X-Request-Id`, from 1'),
  platform: text('e.g. `tiktok`'),
  operation: text('e.g. `profile`'),
  keyId: orNull(id('key', 'the key of the request; null without a key')),
}

export const scrapeStarted = defineEvent('ScrapeStarted', {
  stream,
  means:
    'A process makes a call until the lease ends. Its price is held, unless a cached answer makes it free.',
  fields: {
    ...call,
    requestId: text('the `X-Request-Id`'),
    fingerprint: text('SHA-256 of platform, operation and body, which a retry must match'),
    priceMicros: micros('0 or more', 'the price of the call if it is billed'),
    leaseUntil: time('then another process may take it'),
    process: orAbsent(
      text('the process that makes it; another may take it as soon as this one is gone; absent: unknown'),
    ),
    pricesDigest: orAbsent(
      hex(32, 'the digest of its table of prices (`ScraperPricesSet`); absent in old events'),
    ),
  },
})
export type ScrapeStarted = EventOf<typeof scrapeStarted>

const bodyFields = {
  hash: text('SHA-256, lower-case hex'),
  bytes: integer('bytes', '0 or more', 'its length'),
}
/** The body of a result. It is stored outside the log for a day. */
export type ResultBody = ShapeValue<typeof bodyFields>

export const scrapeFinished = defineEvent('ScrapeFinished', {
  stream,
  means: 'The call is over; its hold is captured when it is billed, else released.',
  fields: {
    ...call,
    outcome: oneOf(
      scrapeOutcomes,
      'the first four are results, which a retry returns again; after the others, which are failures, the same `X-Request-Id` is called again',
    ),
    billed: flag('whether it is charged'),
    amountMicros: micros('0 or more', 'the charge: the price, or 0'),
    body: orNull(
      group(bodyFields, 'null for an outcome without a body, or with an unknown one; stored outside the log'),
    ),
    cached: flag('whether an earlier answer was used again, without a call to a provider'),
    creditsCharged: orNull(
      number('credits of the provider', '0 or more', "the provider's charge; null if unknown"),
    ),
  },
})
export type ScrapeFinished = EventOf<typeof scrapeFinished>

export const scrapeEventDefinitions = [scrapeStarted, scrapeFinished] as const
export type ScrapeEvent = EventOf<(typeof scrapeEventDefinitions)[number]>

/** The id of the hold of a try, in the ledger of its account. */
export const holdIdOf = (scrapeId: ScrapeId, attempt: number): string => `${scrapeId}.${attempt}`

const holdForm = /^(scr_[0-9a-f]{32})\.([1-9]\d{0,3})$/

/** The try of a hold; null for a hold with another purpose. */
export const attemptOfHold = (
  holdId: string,
): { readonly scrapeId: ScrapeId; readonly attempt: number } | null => {
  const [, scrapeId, attempt] = holdForm.exec(holdId) ?? []
  return scrapeId === undefined ? null : { scrapeId: scrapeId as ScrapeId, attempt: Number(attempt) }
}

/** The last try of an `X-Request-Id`, and its end; `finished` is null as long as it runs. */
export type Scrape = {
  readonly started: ScrapeStarted['data']
  readonly leaseUntilMs: number
  readonly finished: ScrapeFinished['data'] | null
}
/** Null: no call with this id was started. */
export type ScrapeState = Scrape | null

const evolve: Fold<ScrapeState, ScrapeEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'ScrapeStarted':
      return { started: event.data, leaseUntilMs: Date.parse(event.data.leaseUntil), finished: null }
    case 'ScrapeFinished':
      if (state === null || state.started.attempt !== event.data.attempt)
        throw new Error(`attempt ${event.data.attempt} of ${event.data.scrapeId} was never started`)
      return { ...state, finished: event.data }
    default: {
      const unknown: never = event
      throw new Error(`unknown scrape event ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The scrape after events that were just decided.
 * @throws if there is no scrape and no event starts one
 */
export const scrapeAfter = (state: ScrapeState, events: readonly ScrapeEvent[]): Scrape => {
  const after = applyDecided(scrapeFold, state, events, 0)
  if (after === null) throw new Error('no event makes no scrape')
  return after
}

/** The state of `scrape-{id}`. It has at most two events per try, and the number of tries is limited. */
export const scrapeFold: Fold<ScrapeState, ScrapeEvent> = {
  name: 'scrape',
  version: 1,
  initial: null,
  usedOnce: true,
  evolve,
}

/** The stream reference of a scrape for a command. */
export const scrapeRef = (scrape: ScrapeId) => ({ stream: scrapeStream(scrape), fold: scrapeFold })
