import type { DepositEvent } from '../src/domain/deposits/events.ts'
import type {
  CustomerCharged,
  FundsHeld,
  HoldCaptured,
  HoldReleased,
  WalletDebited,
} from '../src/domain/ledger/events.ts'
import type { ManualMovement, ManualMovementEvent } from '../src/domain/ledger/manual-movements.ts'
import type { OrderEvent } from '../src/domain/orders/events.ts'
import { attemptOfHold, holdIdOf, type ScrapeEvent } from '../src/domain/scrapers/calls.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import type { AccountId, ScrapeId } from '../src/kernel/ids.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import {
  column,
  nullable,
  type RowOf,
  type Rows,
  readModel,
  readTable,
} from '../src/platform/projections/read-model.ts'

/** An open step of an order: its outcome after the debit, or a refund that was decided and not yet appended. */
const openOrdersTable = readTable({
  name: 'open_orders',
  columns: {
    orderId: column.text(),
    /** `outcome`, or the id of the refund. */
    step: column.text(),
    /** The account of the debit event, which contains the whole order; null for a refund (see the order's stream). */
    accountId: nullable(column.text()),
    debitRevision: nullable(column.bigint()),
    openedAt: column.timestamptz(),
  },
  key: ['orderId', 'step'],
  indexes: ['opened_at'],
})

/**
 * Read by the completion reactor. On Postgres a debit and its outcome are appended in one commit, so a row is
 * inserted and removed within one batch and nothing is written. After a crash between two appends on EventStoreDB the
 * row remains.
 */
export const openOrders = readModel({
  name: 'open-orders',
  version: 4,
  tables: [openOrdersTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<WalletDebited | CustomerCharged | OrderEvent>
    switch (event.type) {
      case 'WalletDebited':
      case 'CustomerCharged':
        return rows.insert(openOrdersTable, {
          orderId: event.data.order.orderId,
          step: 'outcome',
          accountId: event.data.order.accountId,
          debitRevision: event.revision,
          openedAt: event.metadata.recordedAt,
        })
      case 'OrderCompleted':
        return rows.remove(openOrdersTable, [event.data.order.orderId, 'outcome'])
      case 'OrderFulfilled':
      case 'OrderFailed':
        return rows.remove(openOrdersTable, [event.data.orderId, 'outcome'])
      case 'RefundDecided':
        return rows.insert(openOrdersTable, {
          orderId: event.data.orderId,
          step: event.data.refundId,
          accountId: null,
          debitRevision: null,
          openedAt: event.metadata.recordedAt,
        })
      case 'OrderRefunded':
        return rows.remove(openOrdersTable, [event.data.orderId, event.data.refundId])
    }
  },
})

/** A manual movement that was recorded and neither applied nor withdrawn. */
const openMovementsTable = readTable({
  name: 'open_movements',
  columns: {
    movementId: column.text(),
    movement: column.jsonb<ManualMovement>(),
    openedAt: column.timestamptz(),
  },
  key: ['movementId'],
  indexes: ['opened_at'],
})

/**
 * Read by `src/features/wallet/wallet-service.ts`. On Postgres a movement is appended in one commit, so a row is
 * inserted and removed within one batch and nothing is written. After a crash between two appends on EventStoreDB the
 * row remains.
 */
export const openMovements = readModel({
  name: 'open-movements',
  version: 2,
  tables: [openMovementsTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<ManualMovementEvent>
    switch (event.type) {
      case 'ManualMovementRecorded':
        return rows.insert(openMovementsTable, {
          movementId: ownerOf(event.stream),
          movement: event.data,
          openedAt: event.metadata.recordedAt,
        })
      case 'ManualMovementApplied':
      case 'ManualMovementWithdrawn':
        return rows.remove(openMovementsTable, [ownerOf(event.stream)])
    }
  },
})

/** A refund of a deposit that was requested, and neither made nor refused. */
const openDepositRefundsTable = readTable({
  name: 'open_deposit_refunds',
  columns: {
    refundId: column.text(),
    depositId: column.text(),
    requestedAt: column.timestamptz(),
  },
  key: ['refundId'],
  indexes: ['requested_at, refund_id'],
})

/** Read by `src/features/deposits/refund-deposit.ts`. */
export const openDepositRefunds = readModel({
  name: 'open-deposit-refunds',
  version: 1,
  tables: [openDepositRefundsTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<DepositEvent>
    switch (event.type) {
      case 'DepositRefundRequested':
        return rows.insert(openDepositRefundsTable, {
          refundId: event.data.refundId,
          depositId: event.data.depositId,
          requestedAt: event.metadata.recordedAt,
        })
      case 'DepositRefundMade':
      case 'DepositRefundRefused':
        return rows.remove(openDepositRefundsTable, [event.data.refundId])
    }
  },
})

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
    /** This process; null: unknown. */
    process: nullable(column.text()),
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
    process: null,
  }
}

/**
 * Read by the sweeper of scrapes: attempts of processes that ended, and money holds that are open after their
 * attempt. Postgres appends start and hold, and finish and end of the hold, in one commit. A row that is inserted and
 * removed within one batch is never written.
 */
export const openScrapes = readModel({
  name: 'open-scrapes',
  version: 2,
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
        const { scrapeId, accountId, attempt, leaseUntil, process = null } = event.data
        return rows.put(openScrapesTable, {
          holdId,
          scrapeId,
          accountId,
          attempt,
          running: true,
          held: false,
          leaseUntil,
          process,
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
