import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { isBilled, isResult, type ScrapeOutcome, scrapeFold } from '../../../src/domain/scrapers/calls.ts'
import {
  type AttemptEnd,
  decideFinish,
  decideStart,
  maxAttempts,
  type ScrapeDraft,
  type ScrapeStates,
} from '../../../src/domain/scrapers/decide-call.ts'
import { type AccountId, type KeyId, scrapeIdOf } from '../../../src/kernel/ids.ts'
import type { CapCovers } from '../../../src/kernel/scopes.ts'
import { ledgerStream, scrapeStream } from '../../../src/kernel/streams.ts'
import fc from '../../support/fast-check.ts'
import { appendTo, buyer, credit, emptyWorld, stateOf, type World } from '../../support/world.ts'

const startMs = Date.parse('2026-11-21T00:00:00.000Z')
const leaseMs = 45_000
const scrapeIdFor = (requestId: string) => scrapeIdOf(buyer as AccountId, requestId)

const draftOf = (requestId: string, more: Partial<ScrapeDraft> = {}): ScrapeDraft => ({
  scrapeId: scrapeIdFor(requestId),
  accountId: buyer,
  keyId: 'key_one' as KeyId,
  requestId,
  platform: 'reddit',
  operation: 'subreddit',
  fingerprint: 'fingerprint',
  priceMicros: 3_000,
  leaseMs,
  isFree: false,
  capKeyId: 'key_one',
  cap: null,
  ...more,
})

const statesIn = (world: World, requestId: string): ScrapeStates => ({
  scrape: stateOf(world, scrapeStream(scrapeIdFor(requestId)), scrapeFold),
  ledger: stateOf(world, ledgerStream(buyer), ledgerFold),
})

const ending = (outcome: ScrapeOutcome): AttemptEnd => ({
  outcome,
  body: null,
  cached: false,
  creditsCharged: null,
})

/** A wallet with exactly this much, by a hold of the rest. */
const walletOf = (micros: number): World => {
  const world = credit(emptyWorld, 100, startMs)
  const rest = draftOf('rest', { priceMicros: 1_000_000 - micros })
  return appendTo(world, decideStart(statesIn(world, 'rest'), rest, startMs).appends, startMs)
}

test('a wallet that is short by one micro-dollar holds nothing; one with the exact amount is emptied', () => {
  const short = decideStart(statesIn(walletOf(2_999), 'a'), draftOf('a'), startMs)
  assert.deepEqual(short.appends, [])
  assert.deepEqual(short.answer, {
    kind: 'refused',
    refusal: {
      code: 'insufficient_balance',
      balanceCents: 0,
      amountCents: 1,
      shortfallCents: 1,
      shortfallMicros: 1,
    },
  })
  const world = walletOf(3_000)
  const exact = decideStart(statesIn(world, 'a'), draftOf('a'), startMs)
  assert.equal(exact.answer.kind, 'started')
  assert.equal(statesIn(appendTo(world, exact.appends, startMs), 'a').ledger.availableMicros, 0)
})

test('an id allows a limited number of attempts', () => {
  let world = credit(emptyWorld, 100, startMs)
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    world = appendTo(world, decideStart(statesIn(world, 'a'), draftOf('a'), startMs).appends, startMs)
    const failed = { attempt, ending: ending('provider_failed') }
    world = appendTo(world, decideFinish(statesIn(world, 'a'), failed).appends, startMs)
  }
  assert.deepEqual(decideStart(statesIn(world, 'a'), draftOf('a'), startMs), {
    appends: [],
    answer: { kind: 'spent' },
  })
  assert.equal(statesIn(world, 'a').ledger.availableMicros, 1_000_000)
})

const outcomes: readonly ScrapeOutcome[] = [
  'found',
  'empty',
  'target_not_found',
  'target_restricted',
  'bad_input',
  'provider_failed',
  'scraper_unavailable',
  'interrupted',
]

type Step =
  | { readonly kind: 'start'; readonly id: string; readonly other: boolean; readonly written: number }
  | {
      readonly kind: 'finish'
      readonly id: string
      readonly outcome: ScrapeOutcome
      readonly written: number
    }
  | { readonly kind: 'wait'; readonly ms: number }

const id = fc.constantFrom('a', 'b', 'c')
/** How many appends of a decision land: all of them, or a prefix as a crash leaves it. */
const written = fc.constantFrom(2, 2, 2, 1)
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant('start' as const),
      id,
      other: fc.constantFrom(false, false, true),
      written,
    }),
    fc.record({ kind: fc.constant('finish' as const), id, outcome: fc.constantFrom(...outcomes), written }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1_000, leaseMs) }),
  ),
  { maxLength: 40 },
)

test('an id is charged at most once, for a result, and its hold ends, for any retries, duplicates, crashes and endings', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 0, max: 3 }), (list, prices) => {
      const wealth = 3_000 * prices + 2_999
      let world = walletOf(wealth)
      let nowMs = startMs
      for (const step of list) {
        if (step.kind === 'wait') {
          nowMs += step.ms
          continue
        }
        const states = statesIn(world, step.id)
        const fingerprint = step.kind === 'start' && step.other ? 'other' : 'fingerprint'
        if (step.kind === 'start') {
          const { appends } = decideStart(states, draftOf(step.id, { fingerprint }), nowMs)
          world = appendTo(world, appends.slice(0, step.written), nowMs)
        } else if (states.scrape) {
          const { attempt } = states.scrape.started
          // Only who holds the money has a result to bill.
          const held = states.ledger.holds.has(`${states.scrape.started.scrapeId}.${attempt}`)
          const outcome = held ? step.outcome : 'interrupted'
          const { appends } = decideFinish(states, { attempt, ending: ending(outcome) })
          world = appendTo(world, appends.slice(0, step.written), nowMs)
        }
        assert.ok(statesIn(world, step.id).ledger.availableMicros >= 0)
      }
      // The sweeper ends the remaining calls.
      for (const left of ['a', 'b', 'c']) {
        const { scrape } = statesIn(world, left)
        if (scrape === null) continue
        for (let attempt = 1; attempt <= scrape.started.attempt; attempt += 1) {
          const lapsed = { attempt, ending: ending('interrupted') }
          world = appendTo(world, decideFinish(statesIn(world, left), lapsed).appends, nowMs)
          const again = decideFinish(statesIn(world, left), lapsed)
          assert.deepEqual(again.appends, [], 'ending it again does nothing')
        }
      }
      const { ledger } = statesIn(world, 'a')
      const charged = ['a', 'b', 'c'].filter(
        (each) => statesIn(world, each).scrape?.finished?.billed === true,
      )
      assert.equal(ledger.availableMicros, wealth - 3_000 * charged.length)
      assert.equal(ledger.holds.size, 1, 'nothing but the hold of the rest is open')
      for (const each of charged) {
        const finished = statesIn(world, each).scrape!.finished!
        assert.ok(isBilled(finished.outcome, finished.cached) && isResult(finished.outcome))
      }
    }),
    { numRuns: 300 },
  )
})

test('a call counts against a cap that covers everything while its price is held and once it is billed', () => {
  const start = (world: World, requestId: string, covers: CapCovers) =>
    decideStart(
      statesIn(world, requestId),
      draftOf(requestId, { priceMicros: 6_000, cap: { cents: 1, covers } }),
      startMs,
    )
  const wallet = credit(emptyWorld, 100, startMs)
  const first = start(wallet, 'a', 'everything')
  assert.equal(first.answer.kind, 'started')
  const held = appendTo(wallet, first.appends, startMs)
  const refusal = { code: 'spend_cap_reached', capCents: 1, spentCents: 1, amountCents: 1 }
  assert.deepEqual(start(held, 'b', 'everything').answer, { kind: 'refused', refusal })
  assert.equal(start(held, 'b', 'orders').answer.kind, 'started')
  const ended = (outcome: ScrapeOutcome) =>
    appendTo(
      held,
      decideFinish(statesIn(held, 'a'), { attempt: 1, ending: ending(outcome) }).appends,
      startMs,
    )
  assert.deepEqual(start(ended('found'), 'b', 'everything').answer, { kind: 'refused', refusal })
  assert.equal(start(ended('provider_failed'), 'b', 'everything').answer.kind, 'started')
})
