import type { FundsHeld, HoldCaptured, HoldReleased } from '../../domain/ledger/events.ts'
import type { ScrapeBatchEvent } from '../../domain/scrapers/batches.ts'
import {
  holdIdOf,
  isBilled,
  isResult,
  type ScrapeEvent,
  type ScrapeFinished,
  type ScrapeStarted,
} from '../../domain/scrapers/calls.ts'
import type { ScraperPricesSet } from '../../domain/scrapers/price-events.ts'
import { pricesDigest } from '../../domain/scrapers/prices.ts'
import { rowName } from '../../domain/scrapers/scraper.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { scrapeBatchIdOf } from '../../kernel/ids.ts'
import { scrapeBatchStream, scraperPricesStream } from '../../kernel/streams.ts'
import type { ReadModel, RowKey, Rows, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** An accepted batch. `facts`: JSON, the fields that both of its events share. */
type BatchRow = { batch_id: string; facts: string; finished: boolean; last_position: number }

export const batchesTable: Table<BatchRow> = {
  name: 'audit_batches',
  columns: {
    batch_id: { type: 'text' },
    facts: { type: 'text' },
    finished: { type: 'boolean' },
    last_position: { type: 'bigint' },
  },
  key: ['batch_id'],
  indexes: [],
}

const isBatch = (event: RecordedEvent): event is RecordedEvent<ScrapeBatchEvent> =>
  event.type === 'ScrapeBatchAccepted' || event.type === 'ScrapeBatchFinished'

const factsOf = ({ accountId, platform, operation, inputs }: ScrapeBatchEvent['data']): string =>
  JSON.stringify({ accountId, platform, operation, inputs })

/**
 * A batch is accepted once, under the id of its request. It finishes once, with the number of calls that it was
 * accepted with.
 */
export const batchRules: ReadModel = {
  name: 'audit-batches',
  version: 1,
  tables: [batchesTable],
  takes: { types: new Set(['ScrapeBatchAccepted', 'ScrapeBatchFinished']) },
  reads: (event) => (isBatch(event) ? [{ table: batchesTable.name, key: [event.data.batchId] }] : []),
  apply: (event, rows) => {
    if (!isBatch(event)) return
    const { batchId } = event.data
    const row = rows.get(batchesTable, [batchId])
    const facts = factsOf(event.data)
    const report = (problem: string): void => recordViolation(rows, event, 'scrape-batch', problem)
    const putRow = (finished: boolean): void =>
      rows.put(batchesTable, { batch_id: batchId, facts, finished, last_position: event.position })
    if (event.type === 'ScrapeBatchAccepted') {
      const { accountId, requestId } = event.data
      if (row !== undefined) report(`batch ${batchId} was taken on before`)
      else if (scrapeBatchIdOf(accountId, requestId) !== batchId)
        report(`the batch of request ${requestId} is ${scrapeBatchIdOf(accountId, requestId)}`)
      else if (event.stream !== scrapeBatchStream(batchId)) report(`it is about batch ${batchId}`)
      putRow(false)
      return
    }
    const { inputs, found, empty, notFound, restricted, failed } = event.data
    const calls = found + empty + notFound + restricted + failed
    if (row === undefined) report(`batch ${batchId} was never taken on`)
    else if (row.finished) report(`batch ${batchId} was over before`)
    else if (row.facts !== facts) report(`it is ${facts}, and ${row.facts} was taken on`)
    else if (calls !== inputs) report(`it has ${inputs} calls, and ${calls} of them came to something`)
    putRow(true)
  },
}

/**
 * How long after the first price table a process of an older version, which names no table, may still sell calls.
 * Milliseconds.
 */
const olderVersionsMs = 24 * 60 * 60 * 1000

type PriceRow = { digest: string; scraper: string; price_micros: number }
/** The time of recording of the first price table: one row. */
type SinceRow = { name: 'first'; set_ms: number }

const pricesTable: Table<PriceRow> = {
  name: 'audit_scraper_prices',
  columns: { digest: { type: 'text' }, scraper: { type: 'text' }, price_micros: { type: 'bigint' } },
  key: ['digest', 'scraper'],
  indexes: [],
}
const sinceTable: Table<SinceRow> = {
  name: 'audit_scraper_prices_since',
  columns: { name: { type: 'text' }, set_ms: { type: 'bigint' } },
  key: ['name'],
  indexes: [],
}

const isScrapeStart = (event: RecordedEvent): event is RecordedEvent<ScrapeStarted> =>
  event.type === 'ScrapeStarted'
const isPriceTable = (event: RecordedEvent): event is RecordedEvent<ScraperPricesSet> =>
  event.type === 'ScraperPricesSet'

const sinceKey: RowKey = { table: sinceTable.name, key: ['first'] }

const setPrices = (event: RecordedEvent<ScraperPricesSet>, rows: Rows): string | null => {
  const { digest, prices } = event.data
  if (rows.get(sinceTable, ['first']) === undefined)
    rows.put(sinceTable, { name: 'first', set_ms: Date.parse(event.metadata.recordedAt) })
  const computedDigest = pricesDigest(prices)
  // Stored under its real digest, so that it cannot replace a table that calls name.
  for (const { scraper, priceMicros } of prices)
    rows.put(pricesTable, { digest: computedDigest, scraper, price_micros: priceMicros })
  if (event.stream !== scraperPricesStream) return `prices are set in ${scraperPricesStream} alone`
  return computedDigest === digest
    ? null
    : `it names the digest ${digest}, its prices come to ${computedDigest}`
}

const startProblem = (event: RecordedEvent<ScrapeStarted>, rows: Rows): string | null => {
  const { pricesDigest: digest, priceMicros } = event.data
  const scraper = rowName(event.data)
  if (digest === undefined) {
    const since = rows.get(sinceTable, ['first'])
    return since === undefined || Date.parse(event.metadata.recordedAt) <= since.set_ms + olderVersionsMs
      ? null
      : `it names no table of prices, as a version of before ${new Date(since.set_ms).toISOString()} did`
  }
  const price = rows.get(pricesTable, [digest, scraper])
  if (price === undefined) return `no table ${digest} before it has a price of ${scraper}`
  return price.price_micros === priceMicros
    ? null
    : `${scraper} costs ${inDollars(price.price_micros)} by its table, not ${inDollars(priceMicros)}`
}

/**
 * The price of a call equals the price table that the call names. The digest of a table matches its prices, and the
 * table is in the log before the calls that name it. `scrapeRules` checks the hold and the charge.
 */
export const scrapePriceRules: ReadModel = {
  name: 'audit-scrape-prices',
  version: 1,
  tables: [pricesTable, sinceTable],
  takes: { types: new Set(['ScraperPricesSet', 'ScrapeStarted']) },
  reads: (event): RowKey[] => {
    if (isPriceTable(event)) return [sinceKey]
    if (!isScrapeStart(event)) return []
    const { pricesDigest: digest } = event.data
    return digest === undefined
      ? [sinceKey]
      : [{ table: pricesTable.name, key: [digest, rowName(event.data)] }]
  },
  apply: (event, rows) => {
    const problem = isPriceTable(event)
      ? setPrices(event, rows)
      : isScrapeStart(event)
        ? startProblem(event, rows)
        : null
    if (problem !== null) recordViolation(rows, event, 'scrape-price', problem)
  },
}

/** The state of an attempt of a scrape in the log so far, by its hold. */
type AttemptRow = {
  hold_id: string
  account_id: string
  platform: string
  price_micros: number
  fingerprint: string
  held: boolean
  /** Null while the attempt runs. */
  outcome: string | null
  /** The charged amount. */
  amount_micros: number
  /** The hold was captured or released. */
  is_hold_over: boolean
  last_position: number
}

export const triesTable: Table<AttemptRow> = {
  name: 'audit_scrapes',
  columns: {
    hold_id: { type: 'text' },
    account_id: { type: 'text' },
    platform: { type: 'text' },
    price_micros: { type: 'bigint' },
    fingerprint: { type: 'text' },
    held: { type: 'boolean' },
    outcome: { type: 'text', nullable: true },
    amount_micros: { type: 'bigint' },
    is_hold_over: { type: 'boolean' },
    last_position: { type: 'bigint' },
  },
  key: ['hold_id'],
  indexes: [],
}

type ScrapeRuleEvent = RecordedEvent<ScrapeEvent | FundsHeld | HoldCaptured | HoldReleased>
type Report = (rule: string, problem: string) => void

const holdIdIn = (recorded: RecordedEvent): string | null => {
  const event = recorded as ScrapeRuleEvent
  switch (event.type) {
    case 'ScrapeStarted':
    case 'ScrapeFinished':
      return holdIdOf(event.data.scrapeId, event.data.attempt)
    case 'FundsHeld':
    case 'HoldCaptured':
    case 'HoldReleased':
      return event.data.holdId
    default:
      return null
  }
}

/** The attempt before the one that an event starts. */
const previousAttemptId = (recorded: RecordedEvent): string | null => {
  const { type, data } = recorded as ScrapeRuleEvent
  return type === 'ScrapeStarted' && data.attempt > 1 ? holdIdOf(data.scrapeId, data.attempt - 1) : null
}

const applyStart = (
  { scrapeId, accountId, attempt, platform, priceMicros, fingerprint }: ScrapeStarted['data'],
  {
    before,
    previousAttempt,
  }: { readonly before: AttemptRow | undefined; readonly previousAttempt: AttemptRow | undefined },
  report: Report,
): AttemptRow => {
  const holdId = holdIdOf(scrapeId, attempt)
  if (before !== undefined) report('scrape-twice', `try ${holdId} was started before`)
  if (attempt > 1) {
    if (previousAttempt === undefined || previousAttempt.outcome === null)
      report('scrape-order', `try ${holdId} was started before the one before it was over`)
    else if (isResult(previousAttempt.outcome as ScrapeFinished['data']['outcome']))
      report('scrape-after-result', `try ${holdId} was started after a result: ${previousAttempt.outcome}`)
    if (
      previousAttempt !== undefined &&
      (previousAttempt.fingerprint !== fingerprint || previousAttempt.account_id !== accountId)
    )
      report('scrape-changed', `try ${holdId} asks for something else than the one before it`)
  }
  return {
    hold_id: holdId,
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

const applyFinish = (
  row: AttemptRow,
  { accountId, outcome, cached, billed, amountMicros }: ScrapeFinished['data'],
  report: Report,
): AttemptRow => {
  const isDue = isBilled(outcome, cached)
  if (accountId !== row.account_id)
    report('scrape-of-another', `try ${row.hold_id} is of ${row.account_id}, not of ${accountId}`)
  if (row.outcome !== null) report('scrape-ends-twice', `try ${row.hold_id} ended before: ${row.outcome}`)
  if (billed !== isDue)
    report(
      'scrape-billed',
      `${cached ? 'a cached answer' : outcome} is ${isDue ? '' : 'not '}charged, whatever it says`,
    )
  const dueMicros = isDue ? row.price_micros : 0
  if (amountMicros !== dueMicros)
    report('scrape-amount', `${outcome} comes to ${inDollars(dueMicros)}, not ${inDollars(amountMicros)}`)
  if (billed && !row.held)
    report('scrape-unheld', `try ${row.hold_id} is charged, but nothing was held for it`)
  return { ...row, outcome, amount_micros: dueMicros }
}

const moveHold = (
  row: AttemptRow,
  event: RecordedEvent<FundsHeld | HoldCaptured | HoldReleased>,
  report: Report,
): AttemptRow => {
  const { platform, amountMicros } = event.data
  if (event.stream !== `ledger-${row.account_id}` || platform !== row.platform)
    report('hold-of-another', `hold ${row.hold_id} is for ${row.platform} and ${row.account_id}`)
  if (event.type === 'FundsHeld') {
    if (amountMicros !== row.price_micros)
      report(
        'hold-price',
        `${inDollars(amountMicros)} is held for a scrape that costs ${inDollars(row.price_micros)}`,
      )
    return { ...row, held: true }
  }
  const dueMicros = event.type === 'HoldCaptured' ? amountMicros : 0
  if (row.outcome === null) report('hold-before-end', `hold ${row.hold_id} ended before its scrape did`)
  else if (dueMicros !== row.amount_micros)
    report(
      'capture-without-result',
      `${row.outcome} comes to ${inDollars(row.amount_micros)}, but ${inDollars(dueMicros)} was charged`,
    )
  return { ...row, is_hold_over: true }
}

const applyEvent = (
  row: AttemptRow,
  event: Exclude<ScrapeRuleEvent, { readonly type: 'ScrapeStarted' }>,
  report: Report,
): AttemptRow =>
  event.type === 'ScrapeFinished'
    ? applyFinish(row, event.data, report)
    : moveHold(row, event as RecordedEvent<FundsHeld | HoldCaptured | HoldReleased>, report)

/**
 * Money is held for started scrapes, at their price. Each attempt ends once and is charged exactly when its outcome is
 * billed. Its hold ends accordingly (docs/decisions/0054-scrapes.md).
 */
export const scrapeRules: ReadModel = {
  name: 'audit-scrapes',
  version: 3,
  tables: [triesTable],
  takes: { types: new Set(['ScrapeStarted', 'ScrapeFinished', 'FundsHeld', 'HoldCaptured', 'HoldReleased']) },
  reads: (event) =>
    [holdIdIn(event), previousAttemptId(event)].flatMap((holdId) =>
      holdId === null ? [] : [{ table: triesTable.name, key: [holdId] }],
    ),
  apply: (recorded, rows: Rows) => {
    const holdId = holdIdIn(recorded)
    if (holdId === null) return
    const event = recorded as ScrapeRuleEvent
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    const before = rows.get(triesTable, [holdId])
    if (event.type === 'ScrapeStarted') {
      const attemptIdBefore = previousAttemptId(event)
      const previousAttempt = attemptIdBefore === null ? undefined : rows.get(triesTable, [attemptIdBefore])
      rows.put(triesTable, {
        ...applyStart(event.data, { before, previousAttempt }, report),
        last_position: event.position,
      })
      return
    }
    if (before === undefined) return report('hold-without-scrape', `no scrape was started for hold ${holdId}`)
    rows.put(triesTable, { ...applyEvent(before, event, report), last_position: event.position })
  },
}
