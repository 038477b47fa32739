import type { ScrapeBatchEvent } from '../../domain/scrapers/batches.ts'
import { holdIdOf, isBilled, isResult, type ScrapeFinished } from '../../domain/scrapers/calls.ts'
import { pricesDigest } from '../../domain/scrapers/prices.ts'
import { rowName } from '../../domain/scrapers/scraper.ts'
import { scrapeBatchIdOf } from '../../kernel/ids.ts'
import { scrapeBatchStream, scraperPricesStream } from '../../kernel/streams.ts'
import {
  bigint,
  boolean,
  type Context,
  eventRules,
  inDollars,
  invariant,
  nullable,
  type Recorded,
  type RowOf,
  recordedMs,
  rowKey,
  ruleTable,
  text,
} from './invariant.ts'

/** An accepted batch. `facts`: JSON, the fields that both of its events share. */
export const batchesTable = ruleTable('audit_batches', {
  batch_id: text,
  facts: text,
  finished: boolean,
  last_position: bigint,
})

const batchRow = (
  { data }: Recorded<ScrapeBatchEvent['type']>,
  finished: boolean,
): RowOf<typeof batchesTable> => {
  const { batchId, accountId, platform, operation, inputs } = data
  const facts = JSON.stringify({ accountId, platform, operation, inputs })
  return { batch_id: batchId, facts, finished, last_position: 0 }
}

/**
 * A batch is accepted once, under the id of its request. It finishes once, with the number of calls that it was
 * accepted with.
 */
export const batchRules = invariant({
  name: 'audit-batches',
  version: 2,
  table: batchesTable,
  key: ({ data }) => data.batchId,
  on: {
    ScrapeBatchAccepted: (event, row, { report }) => {
      const { batchId, accountId, requestId } = event.data
      const expectedId = scrapeBatchIdOf(accountId, requestId)
      if (row !== undefined) report('scrape-batch', `batch ${batchId} was taken on before`)
      else if (expectedId !== batchId)
        report('scrape-batch', `the batch of request ${requestId} is ${expectedId}`)
      else if (event.stream !== scrapeBatchStream(batchId))
        report('scrape-batch', `it is about batch ${batchId}`)
      return batchRow(event, false)
    },
    ScrapeBatchFinished: (event, row, { report }) => {
      const { batchId, inputs, found, empty, notFound, restricted, failed } = event.data
      const calls = found + empty + notFound + restricted + failed
      const next = batchRow(event, true)
      if (row === undefined) report('scrape-batch', `batch ${batchId} was never taken on`)
      else if (row.finished) report('scrape-batch', `batch ${batchId} was over before`)
      else if (row.facts !== next.facts)
        report('scrape-batch', `it is ${next.facts}, and ${row.facts} was taken on`)
      else if (calls !== inputs)
        report('scrape-batch', `it has ${inputs} calls, and ${calls} of them came to something`)
      return next
    },
  },
})

/**
 * How long after the first price table a process of an older version, which names no table, may still sell calls.
 * Milliseconds.
 */
const olderVersionsMs = 24 * 60 * 60 * 1000

const pricesTable = ruleTable('audit_scraper_prices', { digest: text, scraper: text, price_micros: bigint }, [
  'digest',
  'scraper',
])
/** The time of recording of the first price table: one row. */
const sinceTable = ruleTable('audit_scraper_prices_since', { name: text, set_ms: bigint })
const sinceKey = rowKey(sinceTable, 'first')

const checkPrices = (event: Recorded<'ScraperPricesSet'>, { rows, report }: Context): void => {
  const { digest, prices } = event.data
  if (rows.get(sinceTable, ['first']) === undefined)
    rows.put(sinceTable, { name: 'first', set_ms: recordedMs(event) })
  const computedDigest = pricesDigest(prices)
  // Stored under its real digest, so that it cannot replace a table that calls name.
  for (const { scraper, priceMicros } of prices)
    rows.put(pricesTable, { digest: computedDigest, scraper, price_micros: priceMicros })
  if (event.stream !== scraperPricesStream)
    report('scrape-price', `prices are set in ${scraperPricesStream} alone`)
  else if (computedDigest !== digest)
    report('scrape-price', `it names the digest ${digest}, its prices come to ${computedDigest}`)
}

const checkPrice = (event: Recorded<'ScrapeStarted'>, { rows, report }: Context): void => {
  const { pricesDigest: digest, priceMicros } = event.data
  const scraper = rowName(event.data)
  if (digest === undefined) {
    const since = rows.get(sinceTable, ['first'])
    if (since !== undefined && recordedMs(event) > since.set_ms + olderVersionsMs)
      report(
        'scrape-price',
        `it names no table of prices, as a version of before ${new Date(since.set_ms).toISOString()} did`,
      )
    return
  }
  const price = rows.get(pricesTable, [digest, scraper])
  if (price === undefined) report('scrape-price', `no table ${digest} before it has a price of ${scraper}`)
  else if (price.price_micros !== priceMicros)
    report(
      'scrape-price',
      `${scraper} costs ${inDollars(price.price_micros)} by its table, not ${inDollars(priceMicros)}`,
    )
}

/**
 * The price of a call equals the price table that the call names. The digest of a table matches its prices, and the
 * table is in the log before the calls that name it. `scrapeRules` checks the hold and the charge.
 */
export const scrapePriceRules = eventRules({
  name: 'audit-scrape-prices',
  version: 2,
  tables: [pricesTable, sinceTable],
  reads: ({ type, data }) =>
    type === 'ScrapeStarted' && data.pricesDigest !== undefined
      ? [rowKey(pricesTable, data.pricesDigest, rowName(data))]
      : [sinceKey],
  on: { ScraperPricesSet: checkPrices, ScrapeStarted: checkPrice },
})

/** The state of an attempt of a scrape in the log so far, by its hold. */
export const triesTable = ruleTable('audit_scrapes', {
  hold_id: text,
  account_id: text,
  platform: text,
  price_micros: bigint,
  fingerprint: text,
  held: boolean,
  /** Null while the attempt runs. */
  outcome: nullable(text),
  /** The charged amount. */
  amount_micros: bigint,
  /** The hold was captured or released. */
  is_hold_over: boolean,
  last_position: bigint,
})
type AttemptRow = RowOf<typeof triesTable>
type HoldEvent = Recorded<'FundsHeld' | 'HoldCaptured' | 'HoldReleased'>

/** The attempt before the one that an event starts. */
const previousAttemptId = ({ scrapeId, attempt }: Recorded<'ScrapeStarted'>['data']): string | null =>
  attempt > 1 ? holdIdOf(scrapeId, attempt - 1) : null

const checkStart = (
  { data }: Recorded<'ScrapeStarted'>,
  started: AttemptRow | undefined,
  { rows, report }: Context,
): AttemptRow => {
  const { scrapeId, accountId, attempt, platform, priceMicros, fingerprint } = data
  const hold_id = holdIdOf(scrapeId, attempt)
  if (started !== undefined) report('scrape-twice', `try ${hold_id} was started before`)
  const previousId = previousAttemptId(data)
  if (previousId !== null) {
    const previous = rows.get(triesTable, [previousId])
    if (previous === undefined || previous.outcome === null)
      report('scrape-order', `try ${hold_id} was started before the one before it was over`)
    else if (isResult(previous.outcome as ScrapeFinished['data']['outcome']))
      report('scrape-after-result', `try ${hold_id} was started after a result: ${previous.outcome}`)
    if (previous !== undefined && (previous.fingerprint !== fingerprint || previous.account_id !== accountId))
      report('scrape-changed', `try ${hold_id} asks for something else than the one before it`)
  }
  return {
    hold_id,
    account_id: accountId,
    platform,
    price_micros: priceMicros,
    fingerprint,
    held: false,
    outcome: null,
    amount_micros: 0,
    is_hold_over: false,
    last_position: 0,
  }
}

const checkFinish = (
  { data }: Recorded<'ScrapeFinished'>,
  row: AttemptRow | undefined,
  { report }: Context,
): AttemptRow | undefined => {
  const { scrapeId, attempt, accountId, outcome, cached, billed, amountMicros } = data
  if (row === undefined) {
    report('hold-without-scrape', `no scrape was started for hold ${holdIdOf(scrapeId, attempt)}`)
    return
  }
  const { hold_id, account_id } = row
  const isDue = isBilled(outcome, cached)
  if (accountId !== account_id)
    report('scrape-of-another', `try ${hold_id} is of ${account_id}, not of ${accountId}`)
  if (row.outcome !== null) report('scrape-ends-twice', `try ${hold_id} ended before: ${row.outcome}`)
  if (billed !== isDue)
    report(
      'scrape-billed',
      `${cached ? 'a cached answer' : outcome} is ${isDue ? '' : 'not '}charged, whatever it says`,
    )
  const dueMicros = isDue ? row.price_micros : 0
  if (amountMicros !== dueMicros)
    report('scrape-amount', `${outcome} comes to ${inDollars(dueMicros)}, not ${inDollars(amountMicros)}`)
  if (billed && !row.held) report('scrape-unheld', `try ${hold_id} is charged, but nothing was held for it`)
  return { ...row, outcome, amount_micros: dueMicros }
}

const checkHold = (
  event: HoldEvent,
  row: AttemptRow | undefined,
  { report }: Context,
): AttemptRow | undefined => {
  const { holdId, platform, amountMicros } = event.data
  if (row === undefined) {
    report('hold-without-scrape', `no scrape was started for hold ${holdId}`)
    return
  }
  if (event.stream !== `ledger-${row.account_id}` || platform !== row.platform)
    report('hold-of-another', `hold ${holdId} is for ${row.platform} and ${row.account_id}`)
  if (event.type === 'FundsHeld') {
    if (amountMicros !== row.price_micros)
      report(
        'hold-price',
        `${inDollars(amountMicros)} is held for a scrape that costs ${inDollars(row.price_micros)}`,
      )
    return { ...row, held: true }
  }
  const chargedMicros = event.type === 'HoldCaptured' ? amountMicros : 0
  if (row.outcome === null) report('hold-before-end', `hold ${holdId} ended before its scrape did`)
  else if (chargedMicros !== row.amount_micros)
    report(
      'capture-without-result',
      `${row.outcome} comes to ${inDollars(row.amount_micros)}, but ${inDollars(chargedMicros)} was charged`,
    )
  return { ...row, is_hold_over: true }
}

/**
 * Money is held for started scrapes, at their price. Each attempt ends once and is charged exactly when its outcome is
 * billed. Its hold ends accordingly (docs/decisions/0054-scrapes.md).
 */
export const scrapeRules = invariant({
  name: 'audit-scrapes',
  version: 4,
  table: triesTable,
  key: ({ data }) => ('holdId' in data ? data.holdId : holdIdOf(data.scrapeId, data.attempt)),
  reads: ({ type, data }) => {
    const previousId = type === 'ScrapeStarted' ? previousAttemptId(data) : null
    return previousId === null ? [] : [rowKey(triesTable, previousId)]
  },
  on: {
    ScrapeStarted: checkStart,
    ScrapeFinished: checkFinish,
    FundsHeld: checkHold,
    HoldCaptured: checkHold,
    HoldReleased: checkHold,
  },
})
