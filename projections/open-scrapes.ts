import type { FundsHeld, HoldCaptured, HoldReleased } from '../src/domain/ledger/events.ts'
import { attemptOfHold, holdIdOf, type ScrapeEvent } from '../src/domain/scrapers/calls.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId, ScrapeId } from '../src/kernel/ids.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  column,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** An open attempt of a scrape: it is running, or its money hold is open. */
const openScrapesTable = readTable({
  name: 'open_scrapes',
  columns: {
    holdId: column.text(),
    scrapeId: column.text(),
    accountId: column.text(),
    attempt: column.bigint(),
    running: column.boolean(),
    held: column.boolean(),
    /** Until this time it belongs to the process that works on it. */
    leaseUntil: column.timestamptz(),
  },
  key: ['holdId'],
  indexes: ['lease_until'],
})

export type OpenScrapeRow = RowOf<typeof openScrapesTable>

type HoldEvent = RecordedEvent<ScrapeEvent | FundsHeld | HoldCaptured | HoldReleased>

/** The money hold that an event of a scrape belongs to. Null: the event belongs to no hold. */
const holdIn = (recorded: RecordedEvent): string | null => {
  const event = recorded as HoldEvent
  switch (event.type) {
    case 'ScrapeStarted':
    case 'ScrapeFinished':
      return holdIdOf(event.data.scrapeId, event.data.attempt)
    case 'FundsHeld':
    case 'HoldCaptured':
    case 'HoldReleased':
      return attemptOfHold(event.data.holdId) === null ? null : event.data.holdId
    default:
      return null
  }
}

const putOrRemove = (rows: Rows, row: OpenScrapeRow): void => {
  if (row.running || row.held) rows.put(openScrapesTable, row)
  else rows.remove(openScrapesTable, [row.holdId])
}

/** A money hold whose attempt is finished. A log that can lose the end of a decision may append it late. */
const lateHold = (event: HoldEvent, holdId: string): OpenScrapeRow => {
  const { scrapeId, attempt } = attemptOfHold(holdId)!
  return {
    holdId,
    scrapeId: scrapeId satisfies ScrapeId,
    accountId: ownerOf(event.stream) as AccountId,
    attempt,
    running: false,
    held: true,
    leaseUntil: event.metadata.recordedAt,
  }
}

/**
 * Read by the sweeper of scrapes: attempts of processes that ended, and money holds that are open after their
 * attempt. Postgres appends start and hold, and finish and end of the hold, in one commit. A row that is inserted and
 * removed within one batch is never written.
 */
export const openScrapes = readModel({
  name: 'open-scrapes',
  version: 1,
  tables: [openScrapesTable],
  reads: (event) => {
    const holdId = holdIn(event)
    return holdId === null ? [] : [{ table: openScrapesTable.name, key: [holdId] }]
  },
  apply: (recorded, rows) => {
    const holdId = holdIn(recorded)
    if (holdId === null) return
    const event = recorded as HoldEvent
    const row = rows.get(openScrapesTable, [holdId])
    switch (event.type) {
      case 'ScrapeStarted': {
        const { scrapeId, accountId, attempt, leaseUntil } = event.data
        return rows.put(openScrapesTable, {
          holdId,
          scrapeId,
          accountId,
          attempt,
          running: true,
          held: false,
          leaseUntil,
        })
      }
      case 'FundsHeld':
        return rows.put(openScrapesTable, row ? { ...row, held: true } : lateHold(event, holdId))
      case 'ScrapeFinished':
        return row && putOrRemove(rows, { ...row, running: false })
      case 'HoldCaptured':
      case 'HoldReleased':
        return row && putOrRemove(rows, { ...row, held: false })
    }
  },
})
