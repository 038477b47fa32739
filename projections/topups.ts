import type { DepositInvoiceCreated } from '../src/domain/deposits/events.ts'
import type { TopupEvent } from '../src/domain/deposits/topups.ts'
import { minTopupCents, pauseIdOf, retryAfterMs } from '../src/domain/deposits/topups.ts'
import { isTakenBack } from '../src/domain/ledger/adjustment-reasons.ts'
import type { WalletAdjusted } from '../src/domain/ledger/events.ts'
import { isoTime } from '../src/kernel/clock.ts'
import type { RecordedEvent } from '../src/kernel/event.ts'
import { centsToMicros } from '../src/kernel/money.ts'
import { ownerOf } from '../src/kernel/streams.ts'
import { column, nullable, type RowOf, readModel, readTable } from '../src/platform/projections/read-model.ts'

/** The automatic top-up of a wallet: what a worker needs to find the wallets that may need one. */
const topupsTable = readTable({
  name: 'auto_topups',
  columns: {
    accountId: column.text(),
    hasCard: column.boolean(),
    /** Whether a top-up is paid by an invoice, without a saved card. */
    byInvoice: column.boolean(),
    /** Null: automatic top-up is off. */
    thresholdMicros: nullable(column.bigint()),
    /** The smallest amount of a top-up. */
    leastCents: column.bigint(),
    monthlyMaxCents: column.bigint(),
    /** The calendar month in UTC of the last top-up, `yyyy-mm`, and the sum of its top-ups. */
    month: column.text(),
    monthCents: column.bigint(),
    /** A requested top-up, which is neither paid nor failed. */
    openTopupId: nullable(column.text()),
    /** Its deposit, if it is paid by an invoice. */
    invoicedDepositId: nullable(column.text()),
    retryAt: nullable(column.timestamptz()),
    /** `due`: a refund, a dispute or a block requires a pause. `paused`: until the customer resumes it. */
    pause: nullable(column.text<'due' | 'paused'>()),
    /** The month of the last notice that the maximum is reached, `yyyy-mm`. */
    limitMonth: column.text(),
  },
  key: ['accountId'],
  indexes: ['account_id where open_topup_id is not null', "account_id where pause = 'due'"],
})

type TopupRow = RowOf<typeof topupsTable>

/** What is mailed once: failed top-ups, invoices of top-ups, and pauses. */
const noticesTable = readTable({
  name: 'topup_notices',
  columns: {
    position: column.bigint(),
    /** The top-up, or the pause. */
    topupId: column.text(),
    notice: column.text<'failed' | 'invoice' | 'paused'>(),
    accountId: column.text(),
    at: column.timestamptz(),
  },
  key: ['position'],
  appendOnly: true,
})

const topupEvents: ReadonlySet<string> = new Set<(TopupEvent | DepositInvoiceCreated)['type']>([
  'PaymentMethodSaved',
  'PaymentMethodRemoved',
  'TopupSettingsChanged',
  'TopupTurnedOff',
  'TopupPaused',
  'TopupResumed',
  'TopupRequested',
  'TopupPaid',
  'TopupFailed',
  'DepositInvoiceCreated',
])

const isTopup = (event: RecordedEvent): event is RecordedEvent<TopupEvent | DepositInvoiceCreated> =>
  topupEvents.has(event.type)

/** Whether automatic top-up must pause after it: money was taken from the wallet at its provider, or a block. */
const isIncident = (event: RecordedEvent): boolean => {
  if (event.type === 'AccountBlocked') return true
  return event.type === 'WalletAdjusted' && isTakenBack((event as RecordedEvent<WalletAdjusted>).data)
}

const noTopups = (accountId: string): TopupRow => ({
  accountId,
  hasCard: false,
  byInvoice: false,
  thresholdMicros: null,
  leastCents: minTopupCents,
  monthlyMaxCents: 0,
  month: '',
  monthCents: 0,
  openTopupId: null,
  invoicedDepositId: null,
  retryAt: null,
  pause: null,
  limitMonth: '',
})

const changeOf = (row: TopupRow, event: RecordedEvent<TopupEvent>): Partial<TopupRow> => {
  const { recordedAt } = event.metadata
  switch (event.type) {
    case 'PaymentMethodSaved':
      return { hasCard: true, retryAt: null }
    case 'PaymentMethodRemoved':
      return { hasCard: false }
    case 'TopupSettingsChanged': {
      const { thresholdCents, amountCents, monthlyMaxCents, method } = event.data
      return {
        byInvoice: method === 'crypto',
        thresholdMicros: centsToMicros(thresholdCents),
        leastCents: amountCents ?? minTopupCents,
        monthlyMaxCents,
        retryAt: null,
        limitMonth: '',
      }
    }
    case 'TopupTurnedOff':
      return { thresholdMicros: null, pause: row.pause === 'due' ? null : row.pause }
    case 'TopupPaused':
      return event.data.reason === 'monthly_maximum'
        ? { limitMonth: recordedAt.slice(0, 7) }
        : { pause: 'paused' }
    case 'TopupResumed':
      return { pause: null, retryAt: null }
    case 'TopupRequested': {
      const month = recordedAt.slice(0, 7)
      const before = row.month === month ? row.monthCents : 0
      const { topupId, depositId, amountCents } = event.data
      return {
        openTopupId: topupId,
        invoicedDepositId: row.byInvoice ? depositId : null,
        month,
        monthCents: before + amountCents,
      }
    }
    case 'TopupPaid':
      return { openTopupId: null, invoicedDepositId: null, retryAt: null }
    case 'TopupFailed': {
      const { failures, amountCents } = event.data
      return {
        openTopupId: null,
        invoicedDepositId: null,
        monthCents: row.monthCents - amountCents,
        retryAt: isoTime(Date.parse(recordedAt) + (retryAfterMs[failures - 1] ?? 0)),
      }
    }
    default:
      return event satisfies never
  }
}

/** Read by `src/features/deposits/auto-topup.ts` and `topup-mails.ts`. */
export const topups = readModel({
  name: 'topups',
  version: 4,
  tables: [topupsTable, noticesTable],
  reads: (event) => {
    if (isTopup(event)) return [{ table: topupsTable.name, key: [event.data.accountId] }]
    return isIncident(event) ? [{ table: topupsTable.name, key: [ownerOf(event.stream)] }] : []
  },
  apply: (event, rows) => {
    if (isIncident(event)) {
      const row = rows.get(topupsTable, [ownerOf(event.stream)])
      if (row && row.thresholdMicros !== null && row.pause === null)
        rows.put(topupsTable, { ...row, pause: 'due' })
    }
    if (!isTopup(event)) return
    const { accountId } = event.data
    const { position, metadata } = event
    const notice = { position, accountId, at: metadata.recordedAt }
    const row = rows.get(topupsTable, [accountId]) ?? noTopups(accountId)
    if (event.type === 'DepositInvoiceCreated') {
      const { openTopupId: topupId, invoicedDepositId } = row
      if (topupId !== null && invoicedDepositId === event.data.depositId)
        rows.add(noticesTable, { ...notice, topupId, notice: 'invoice' })
      return
    }
    rows.put(topupsTable, { ...row, ...changeOf(row, event as RecordedEvent<TopupEvent>) })
    if (event.type === 'TopupFailed')
      rows.add(noticesTable, { ...notice, topupId: event.data.topupId, notice: 'failed' })
    if (event.type === 'TopupPaused')
      rows.add(noticesTable, { ...notice, topupId: pauseIdOf(event.id), notice: 'paused' })
  },
})
