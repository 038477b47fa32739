import type { ReadModel, Rows, Table } from '../../../../projections/engine/read-model.ts'
import type { FundsHeld, HoldCaptured, HoldReleased } from '../../../money/ledger/events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import {
  holdIdOf,
  isBilled,
  isResult,
  type ScrapeEvent,
  type ScrapeFinished,
  type ScrapeStarted,
} from '../../../scrapers/calls/events.ts'
import { inDollars, violate } from './violation.ts'

/** What the log has said of a try of a scrape so far, by its hold. */
type TryRow = {
  hold_id: string
  account_id: string
  platform: string
  price_micros: number
  fingerprint: string
  held: boolean
  /** Null while it runs. */
  outcome: string | null
  /** What it is charged. */
  amount_micros: number
  /** Its hold was captured or released. */
  is_hold_over: boolean
  last_position: number
}

export const triesTable: Table<TryRow> = {
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

type Known = RecordedEvent<ScrapeEvent | FundsHeld | HoldCaptured | HoldReleased>
type Say = (rule: string, problem: string) => void

const holdIn = (recorded: RecordedEvent): string | null => {
  const event = recorded as Known
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

/** The try before the one that an event starts. */
const formerOf = (recorded: RecordedEvent): string | null => {
  const { type, data } = recorded as Known
  return type === 'ScrapeStarted' && data.attempt > 1 ? holdIdOf(data.scrapeId, data.attempt - 1) : null
}

const start = (
  { scrapeId, accountId, attempt, platform, priceMicros, fingerprint }: ScrapeStarted['data'],
  { before, former }: { readonly before: TryRow | undefined; readonly former: TryRow | undefined },
  say: Say,
): TryRow => {
  const holdId = holdIdOf(scrapeId, attempt)
  if (before !== undefined) say('scrape-twice', `try ${holdId} was started before`)
  if (attempt > 1) {
    if (former === undefined || former.outcome === null)
      say('scrape-order', `try ${holdId} was started before the one before it was over`)
    else if (isResult(former.outcome as ScrapeFinished['data']['outcome']))
      say('scrape-after-result', `try ${holdId} was started after a result: ${former.outcome}`)
    if (former !== undefined && (former.fingerprint !== fingerprint || former.account_id !== accountId))
      say('scrape-changed', `try ${holdId} asks for something else than the one before it`)
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

const finish = (
  row: TryRow,
  { accountId, outcome, cached, billed, amountMicros }: ScrapeFinished['data'],
  say: Say,
): TryRow => {
  const due = isBilled(outcome, cached)
  if (accountId !== row.account_id)
    say('scrape-of-another', `try ${row.hold_id} is of ${row.account_id}, not of ${accountId}`)
  if (row.outcome !== null) say('scrape-ends-twice', `try ${row.hold_id} ended before: ${row.outcome}`)
  if (billed !== due)
    say(
      'scrape-billed',
      `${cached ? 'a cached answer' : outcome} is ${due ? '' : 'not '}charged, whatever it says`,
    )
  const dueMicros = due ? row.price_micros : 0
  if (amountMicros !== dueMicros)
    say('scrape-amount', `${outcome} comes to ${inDollars(dueMicros)}, not ${inDollars(amountMicros)}`)
  if (billed && !row.held) say('scrape-unheld', `try ${row.hold_id} is charged, but nothing was held for it`)
  return { ...row, outcome, amount_micros: dueMicros }
}

const moveHold = (
  row: TryRow,
  event: RecordedEvent<FundsHeld | HoldCaptured | HoldReleased>,
  say: Say,
): TryRow => {
  const { platform, amountMicros } = event.data
  if (event.stream !== `ledger-${row.account_id}` || platform !== row.platform)
    say('hold-of-another', `hold ${row.hold_id} is for ${row.platform} and ${row.account_id}`)
  if (event.type === 'FundsHeld') {
    if (amountMicros !== row.price_micros)
      say(
        'hold-price',
        `${inDollars(amountMicros)} is held for a scrape that costs ${inDollars(row.price_micros)}`,
      )
    return { ...row, held: true }
  }
  const dueMicros = event.type === 'HoldCaptured' ? amountMicros : 0
  if (row.outcome === null) say('hold-before-end', `hold ${row.hold_id} ended before its scrape did`)
  else if (dueMicros !== row.amount_micros)
    say(
      'capture-without-result',
      `${row.outcome} comes to ${inDollars(row.amount_micros)}, but ${inDollars(dueMicros)} was charged`,
    )
  return { ...row, is_hold_over: true }
}

const after = (row: TryRow, event: Exclude<Known, { readonly type: 'ScrapeStarted' }>, say: Say): TryRow =>
  event.type === 'ScrapeFinished'
    ? finish(row, event.data, say)
    : moveHold(row, event as RecordedEvent<FundsHeld | HoldCaptured | HoldReleased>, say)

/**
 * Money is held for scrapes that were started, at their price; each ends once, and is charged exactly when its outcome is;
 * its hold ends as that says (docs/decisions/0054-scrapes.md).
 */
export const scrapeRules: ReadModel = {
  name: 'audit-scrapes',
  version: 3,
  tables: [triesTable],
  takes: { types: new Set(['ScrapeStarted', 'ScrapeFinished', 'FundsHeld', 'HoldCaptured', 'HoldReleased']) },
  reads: (event) =>
    [holdIn(event), formerOf(event)].flatMap((holdId) =>
      holdId === null ? [] : [{ table: triesTable.name, key: [holdId] }],
    ),
  apply: (recorded, rows: Rows) => {
    const holdId = holdIn(recorded)
    if (holdId === null) return
    const event = recorded as Known
    const say: Say = (rule, problem) => violate(rows, event, rule, problem)
    const before = rows.get(triesTable, [holdId])
    if (event.type === 'ScrapeStarted') {
      const formerId = formerOf(event)
      const former = formerId === null ? undefined : rows.get(triesTable, [formerId])
      rows.put(triesTable, { ...start(event.data, { before, former }, say), last_position: event.position })
      return
    }
    if (before === undefined) return say('hold-without-scrape', `no scrape was started for hold ${holdId}`)
    rows.put(triesTable, { ...after(before, event, say), last_position: event.position })
  },
}
