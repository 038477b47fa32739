import type { ScrapeBatchEvent } from '../../domain/scrapers/batches.ts'
import { holdIdOf, isBilled, isResult, type ScrapeFinished } from '../../domain/scrapers/calls.ts'
import { pricesDigest } from '../../domain/scrapers/prices.ts'
import { rowName } from '../../domain/scrapers/scraper.ts'
import { scrapeBatchIdOf } from '../../kernel/ids.ts'
import { scrapeBatchStream, scraperPricesStream } from '../../kernel/streams.ts'
import { column, nullable, type RowOf, readTable } from '../../platform/projections/read-model.ts'
import {
  type Context,
  eventRules,
  inDollars,
  invariant,
  type Recorded,
  recordedMs,
  rowKey,
} from './invariant.ts'

/** An accepted batch. `facts`: JSON, the fields that both of its events share. */
export const batchesTable = readTable({
  name: 'audit_batches',
  columns: {
    batchId: column.text(),
    facts: column.text(),
    finished: column.boolean(),
    lastPosition: column.bigint(),
  },
  key: ['batchId'],
})

const batchRow = (
  { data }: Recorded<ScrapeBatchEvent['type']>,
  finished: boolean,
): RowOf<typeof batchesTable> => {
  const { batchId, accountId, platform, operation, inputs } = data
  const facts = JSON.stringify({ accountId, platform, operation, inputs })
  return { batchId, facts, finished, lastPosition: 0 }
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
      const { batchId, inputs, found, empty, notFound, restricted, failed, canceledCalls = 0 } = event.data
      const calls = found + empty + notFound + restricted + failed + canceledCalls
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

const pricesTable = readTable({
  name: 'audit_scraper_prices',
  columns: { digest: column.text(), scraper: column.text(), priceMicros: column.bigint() },
  key: ['digest', 'scraper'],
})
/** The time of recording of the first price table: one row. */
const sinceTable = readTable({
  name: 'audit_scraper_prices_since',
  columns: { name: column.text(), setMs: column.bigint() },
  key: ['name'],
})
const sinceKey = rowKey(sinceTable, 'first')

const checkPrices = (event: Recorded<'ScraperPricesSet'>, { rows, report }: Context): void => {
  const { digest, prices } = event.data
  if (rows.get(sinceTable, ['first']) === undefined)
    rows.put(sinceTable, { name: 'first', setMs: recordedMs(event) })
  const computedDigest = pricesDigest(prices)
  // Stored under its real digest, so that it cannot replace a table that calls name.
  for (const { scraper, priceMicros } of prices)
    rows.put(pricesTable, { digest: computedDigest, scraper, priceMicros })
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
    if (since !== undefined && recordedMs(event) > since.setMs + olderVersionsMs)
      report(
        'scrape-price',
        `it names no table of prices, as a version of before ${new Date(since.setMs).toISOString()} did`,
      )
    return
  }
  const price = rows.get(pricesTable, [digest, scraper])
  if (price === undefined) report('scrape-price', `no table ${digest} before it has a price of ${scraper}`)
  else if (price.priceMicros !== priceMicros)
    report(
      'scrape-price',
      `${scraper} costs ${inDollars(price.priceMicros)} by its table, not ${inDollars(priceMicros)}`,
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
export const triesTable = readTable({
  name: 'audit_scrapes',
  columns: {
    holdId: column.text(),
    accountId: column.text(),
    platform: column.text(),
    priceMicros: column.bigint(),
    fingerprint: column.text(),
    held: column.boolean(),
    /** Null while the attempt runs. */
    outcome: nullable(column.text()),
    /** The charged amount. */
    amountMicros: column.bigint(),
    /** The hold was captured or released. */
    isHoldOver: column.boolean(),
    lastPosition: column.bigint(),
  },
  key: ['holdId'],
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
  const holdId = holdIdOf(scrapeId, attempt)
  if (started !== undefined) report('scrape-twice', `try ${holdId} was started before`)
  const previousId = previousAttemptId(data)
  if (previousId !== null) {
    const previous = rows.get(triesTable, [previousId])
    if (previous === undefined || previous.outcome === null)
      report('scrape-order', `try ${holdId} was started before the one before it was over`)
    else if (isResult(previous.outcome as ScrapeFinished['data']['outcome']))
      report('scrape-after-result', `try ${holdId} was started after a result: ${previous.outcome}`)
    if (previous !== undefined && (previous.fingerprint !== fingerprint || previous.accountId !== accountId))
      report('scrape-changed', `try ${holdId} asks for something else than the one before it`)
  }
  return {
    holdId,
    accountId,
    platform,
    priceMicros,
    fingerprint,
    held: false,
    outcome: null,
    amountMicros: 0,
    isHoldOver: false,
    lastPosition: 0,
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
  const { holdId } = row
  const isDue = isBilled(outcome, cached)
  if (accountId !== row.accountId)
    report('scrape-of-another', `try ${holdId} is of ${row.accountId}, not of ${accountId}`)
  if (row.outcome !== null) report('scrape-ends-twice', `try ${holdId} ended before: ${row.outcome}`)
  if (billed !== isDue)
    report(
      'scrape-billed',
      `${cached ? 'a cached answer' : outcome} is ${isDue ? '' : 'not '}charged, whatever it says`,
    )
  const dueMicros = isDue ? row.priceMicros : 0
  if (amountMicros !== dueMicros)
    report('scrape-amount', `${outcome} comes to ${inDollars(dueMicros)}, not ${inDollars(amountMicros)}`)
  if (billed && !row.held) report('scrape-unheld', `try ${holdId} is charged, but nothing was held for it`)
  return { ...row, outcome, amountMicros: dueMicros }
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
  if (event.stream !== `ledger-${row.accountId}` || platform !== row.platform)
    report('hold-of-another', `hold ${holdId} is for ${row.platform} and ${row.accountId}`)
  if (event.type === 'FundsHeld') {
    if (amountMicros !== row.priceMicros)
      report(
        'hold-price',
        `${inDollars(amountMicros)} is held for a scrape that costs ${inDollars(row.priceMicros)}`,
      )
    return { ...row, held: true }
  }
  const chargedMicros = event.type === 'HoldCaptured' ? amountMicros : 0
  if (row.outcome === null) report('hold-before-end', `hold ${holdId} ended before its scrape did`)
  else if (chargedMicros !== row.amountMicros)
    report(
      'capture-without-result',
      `${row.outcome} comes to ${inDollars(row.amountMicros)}, but ${inDollars(chargedMicros)} was charged`,
    )
  return { ...row, isHoldOver: true }
}

/**
 * Money is held for started scrapes, at their price. Each attempt ends once and is charged exactly when its outcome is
 * billed. Its hold ends accordingly (docs/decisions/0054).
 */
export const scrapeRules = invariant({
  name: 'audit-scrapes',
  version: 5,
  table: triesTable,
  key: ({ data }) => {
    if (!('holdId' in data)) return holdIdOf(data.scrapeId, data.attempt)
    // Holds for refunds of deposits: reason-invariants.ts.
    return 'depositId' in data ? null : data.holdId
  },
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
