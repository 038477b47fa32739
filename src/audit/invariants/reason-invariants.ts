import { depositRefundIdOf } from '../../domain/deposits/decide-refund.ts'
import type { DepositEvent, DepositOpened } from '../../domain/deposits/events.ts'
import {
  maxFailures,
  retryAfterMs,
  type TopupEvent,
  topupCents,
  topupDepositIdOf,
  topupIdOf,
} from '../../domain/deposits/topups.ts'
import { type UnmatchedMovement, unmatchedIdOf } from '../../domain/deposits/unmatched-movements.ts'
import { manualStream } from '../../domain/ledger/decide-manual.ts'
import type { ManualMovement } from '../../domain/ledger/manual-movements.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import { unmatchedStream } from '../../kernel/streams.ts'
import {
  column,
  nullable,
  type RowKey,
  type RowOf,
  readTable,
} from '../../platform/projections/read-model.ts'
import {
  type Context,
  eventRules,
  inDollars,
  invariant,
  type Recorded,
  recordedMs,
  rowKey,
  subjectOf,
} from './invariant.ts'
import { lowestMicros, walletsTable } from './wallet-invariants.ts'

/** A deposit, and its credits in the ledger. */
export const depositsTable = readTable({
  name: 'audit_deposits',
  columns: {
    depositId: column.text(),
    accountId: column.text(),
    customerId: nullable(column.text()),
    /** The gateway that the ledger's credit must name. */
    gateway: column.text(),
    invoicedMicros: column.bigint(),
    creditedMicros: column.bigint(),
    /** The last reported sum of its payments; null before the first report. */
    settledMicros: nullable(column.bigint()),
    /** The closing time of its invoice; null without an invoice. */
    closesMs: nullable(column.bigint()),
    /** `open`, `processing` or `closed`. */
    state: column.text(),
    lastPosition: column.bigint(),
  },
  key: ['depositId'],
})
/** A recorded payment of a deposit, and its progress. */
export const paymentsTable = readTable({
  name: 'audit_payments',
  columns: {
    depositId: column.text(),
    paymentId: column.text(),
    amountMicros: column.bigint(),
    /** The ledger has the payment. */
    credited: column.boolean(),
    /** The deposit has recorded that. */
    marked: column.boolean(),
    lastPosition: column.bigint(),
  },
  key: ['depositId', 'paymentId'],
})
/** A refund of a deposit that was requested here. */
export const depositRefundsTable = readTable({
  name: 'audit_deposit_refunds',
  columns: {
    refundId: column.text(),
    depositId: column.text(),
    accountId: column.text(),
    amountMicros: column.bigint(),
    /** `requested`, `made`, `refused`, or `canceled` after it was made. */
    state: column.text(),
    /** The wallet holds its amount. */
    held: column.boolean(),
    lastPosition: column.bigint(),
  },
  key: ['refundId'],
})
/** A payment at its gateway. It is credited once, in one ledger. */
const creditsTable = readTable({
  name: 'audit_gateway_credits',
  columns: { gateway: column.text(), paymentId: column.text(), depositId: column.text() },
  key: ['gateway', 'paymentId'],
})
/** A manual movement as recorded. `state`: `recorded`, `moved`, `applied` or `withdrawn`. */
export const manualTable = readTable({
  name: 'audit_manual',
  columns: {
    stream: column.text(),
    recorded: column.jsonb<ManualMovement>(),
    state: column.text(),
    lastPosition: column.bigint(),
  },
  key: ['stream'],
})

type DepositRow = RowOf<typeof depositsTable>
type ManualRow = RowOf<typeof manualTable>
type LedgerRecord = Recorded<'WalletCredited' | 'WalletAdjusted' | 'CustomerCredited' | 'CustomerAdjusted'>

/** A credit of a payment in the ledger; null for any other event. */
const creditIn = ({ type, data }: LedgerRecord) => {
  if (type === 'CustomerCredited') {
    const { depositId, gateway, reference: paymentId, customerId, amountMicros } = data
    return { depositId, gateway, paymentId, customerId, amountMicros }
  }
  if (type !== 'WalletCredited' || data.source !== 'deposit') return null
  const { depositId, gateway, reference: paymentId, amountMicros } = data
  return {
    depositId: depositId ?? 'no deposit',
    gateway: gateway ?? 'no gateway',
    paymentId,
    customerId: null,
    amountMicros,
  }
}

/** The manual movement of a ledger event; null for any other event. */
const movementIn = (event: LedgerRecord): ManualMovement | null => {
  const accountId = subjectOf(event)
  switch (event.type) {
    case 'WalletCredited': {
      const { source, reference, amountMicros } = event.data
      return source === 'manual' ? { kind: 'credit', accountId, reference, amountMicros } : null
    }
    case 'WalletAdjusted': {
      const {
        debtChangeMicros: _,
        receivableMicros: _old,
        owedAfterMicros: _owed,
        availableAfterMicros: _after,
        ...data
      } = event.data
      return { kind: 'adjustment', accountId, ...data }
    }
    case 'CustomerAdjusted': {
      const {
        debtChangeMicros: _,
        receivableMicros: _old,
        owedAfterMicros: _owed,
        creditAfterMicros: _credit,
        availableAfterMicros: _after,
        ...data
      } = event.data
      return { kind: 'customer', accountId, ...data }
    }
    default:
      return null
  }
}

/** The text of a movement with sorted fields. */
const movementText = (movement: ManualMovement): string =>
  JSON.stringify(Object.fromEntries(Object.entries(movement).sort(([a], [b]) => (a < b ? -1 : 1))))

/** The gateway of a credit: the provider's name for a wallet, the reference of the credentials for a customer. */
const gatewayOf = ({ customerId, provider, gatewayId }: DepositOpened['data']): string =>
  customerId === null ? provider : gatewayId

const checkCredit = (
  event: LedgerRecord,
  credit: NonNullable<ReturnType<typeof creditIn>>,
  { rows, report }: Context,
): void => {
  const { depositId, gateway, paymentId, customerId, amountMicros } = credit
  const deposit = rows.get(depositsTable, [depositId])
  const payment = rows.get(paymentsTable, [depositId, paymentId])
  const previous = rows.get(creditsTable, [gateway, paymentId])
  if (previous !== undefined)
    report(
      'payment-twice',
      `payment ${paymentId} of ${gateway} was credited before, for deposit ${previous.depositId}`,
    )
  rows.put(creditsTable, { gateway, paymentId, depositId })
  if (deposit === undefined || payment === undefined) {
    report('credit-unpaid', `no deposit ${depositId} received the payment ${paymentId} that it credits`)
    return
  }
  const { accountId } = deposit
  if (accountId !== subjectOf(event) || deposit.customerId !== customerId || deposit.gateway !== gateway)
    report(
      'credit-of-another',
      `deposit ${depositId} is of ${accountId}, ${deposit.customerId ?? 'no customer'}, at ${deposit.gateway}`,
    )
  if (payment.credited)
    report('credit-twice', `payment ${paymentId} of deposit ${depositId} was credited before`)
  if (payment.amountMicros !== amountMicros)
    report(
      'credit-amount',
      `${inDollars(amountMicros)} is credited, but deposit ${depositId} received ${inDollars(payment.amountMicros)}`,
    )
  rows.put(paymentsTable, { ...payment, credited: true, lastPosition: event.position })
}

const checkLedger = (event: LedgerRecord, context: Context): void => {
  const credit = creditIn(event)
  if (credit !== null) checkCredit(event, credit, context)
  const movement = movementIn(event)
  if (movement === null) return
  const { rows, report } = context
  const row = rows.get(manualTable, [manualStream(movement)])
  const moved = movementText(movement)
  if (row === undefined || row.state === 'withdrawn') {
    report('movement-unrecorded', `no record requests a movement of ${moved}`)
    return
  }
  const recorded = movementText(row.recorded)
  if (recorded !== moved) report('movement-changed', `it moves ${moved}, recorded was ${recorded}`)
  if (row.state !== 'recorded') report('movement-twice', `${moved} was moved before`)
  rows.put(manualTable, { ...row, state: 'moved', lastPosition: event.position })
}

type HoldRecord = Recorded<'FundsHeld' | 'HoldReleased'>

/** The refund that a hold is for; null: it is for a call (scrape-invariants.ts). */
const heldRefundId = ({ data }: HoldRecord): string | null =>
  data.depositId === undefined ? null : data.holdId

const checkRefundHold = (event: HoldRecord, { rows, report }: Context): void => {
  const refundId = heldRefundId(event)
  if (refundId === null) return
  const { depositId, amountMicros } = event.data
  const refund = rows.get(depositRefundsTable, [refundId])
  const isStart = event.type === 'FundsHeld'
  if (refund?.depositId !== depositId || refund?.accountId !== subjectOf(event)) {
    report('hold-without-refund', `no refund ${refundId} of ${depositId} was requested for this account`)
    return
  }
  if (isStart && refund.state !== 'requested')
    report('hold-without-refund', `refund ${refundId} was ${refund.state} before`)
  if (refund.amountMicros !== amountMicros)
    report(
      'refund-hold-amount',
      `${inDollars(amountMicros)} is held for a refund of ${inDollars(refund.amountMicros)}`,
    )
  rows.put(depositRefundsTable, { ...refund, held: isStart, lastPosition: event.position })
}

/**
 * Every movement of a wallet or of a customer's credit has an earlier reason: a payment of a deposit, or a record. Money
 * is held for requested refunds, in their amount.
 */
export const reasonRules = eventRules({
  name: 'audit-reasons',
  version: 5,
  tables: [creditsTable],
  kind: 'ledger-',
  reads: (event): RowKey[] => {
    if (event.type === 'FundsHeld' || event.type === 'HoldReleased') {
      const refundId = heldRefundId(event)
      return refundId === null ? [] : [rowKey(depositRefundsTable, refundId)]
    }
    const credit = creditIn(event)
    if (credit !== null)
      return [
        rowKey(depositsTable, credit.depositId),
        rowKey(paymentsTable, credit.depositId, credit.paymentId),
        rowKey(creditsTable, credit.gateway, credit.paymentId),
      ]
    const movement = movementIn(event)
    return movement === null ? [] : [rowKey(manualTable, manualStream(movement))]
  },
  on: {
    WalletCredited: checkLedger,
    WalletAdjusted: checkLedger,
    CustomerCredited: checkLedger,
    CustomerAdjusted: checkLedger,
    FundsHeld: checkRefundHold,
    HoldReleased: checkRefundHold,
  },
})

/** Checks that the outcome of a movement names the recorded movement. */
const checkNamed = (
  { data }: Recorded<'ManualMovementApplied' | 'ManualMovementWithdrawn'>,
  row: ManualRow | undefined,
  { report }: Context,
): void => {
  if (row === undefined) return
  const { accountId, reference } = row.recorded
  if (accountId !== data.accountId || reference !== data.reference)
    report(
      'movement-of-another',
      `${reference} of ${accountId} was recorded here, not ${data.reference} of ${data.accountId}`,
    )
}

/** A manual movement is recorded, moved and then applied, or withdrawn before it was moved. */
export const manualRules = invariant({
  name: 'audit-manual',
  version: 1,
  table: manualTable,
  kind: 'deposit-',
  key: ({ stream }) => stream,
  on: {
    ManualMovementRecorded: ({ stream, data }, row, { report }) => {
      if (manualStream(data) !== stream)
        report('movement-elsewhere', `the stream of this movement is ${manualStream(data)}`)
      if (row !== undefined && row.state !== 'withdrawn') report('recorded-twice', 'it was recorded before')
      return { stream, recorded: data, state: 'recorded', lastPosition: 0 }
    },
    ManualMovementApplied: (event, row, context) => {
      checkNamed(event, row, context)
      if (row?.state !== 'moved')
        context.report('applied-unmoved', 'it says that the ledger has the movement, which it has not')
      return row && { ...row, state: 'applied' }
    },
    ManualMovementWithdrawn: (event, row, context) => {
      checkNamed(event, row, context)
      if (row?.state !== 'recorded')
        context.report('withdrawn-moved', 'it withdraws a movement that does not wait')
      return row && { ...row, state: 'withdrawn' }
    },
  },
})

type DepositRecord = Recorded<DepositEvent['type']>

/** Checks the deposit that an event names. The deposit must be open, and of the account. */
const checkNamedDeposit = (
  event: DepositRecord,
  deposit: DepositRow | undefined,
  { report }: Context,
): void => {
  const { depositId, accountId } = event.data
  if (event.stream !== `deposit-${depositId}`) report('deposit-elsewhere', `it is about deposit ${depositId}`)
  if (event.type === 'DepositOpened') return
  if (deposit === undefined) report('deposit-unknown', `deposit ${depositId} was never opened`)
  else if (deposit.accountId !== accountId)
    report('deposit-of-another', `deposit ${depositId} is of ${deposit.accountId}`)
}

type RefundEnd = Recorded<'DepositRefundMade' | 'DepositRefundRefused'>

/**
 * The states that an end of a refund may follow. A refused one may still be made: a call that was under way succeeded.
 */
const statesBefore: Readonly<Record<string, readonly string[]>> = {
  made: ['requested', 'refused'],
  refused: ['requested'],
  canceled: ['requested', 'refused', 'made'],
}

/** A requested refund ends once. One that was made may be canceled by the provider. */
const endRefund = (event: RefundEnd, { rows, report }: Context): void => {
  const { refundId, depositId } = event.data
  const refund = rows.get(depositRefundsTable, [refundId])
  const isCanceled = event.data.providerRefundId !== undefined
  const state = event.type === 'DepositRefundMade' ? 'made' : isCanceled ? 'canceled' : 'refused'
  if (refund === undefined || refund.depositId !== depositId) {
    report('refund-unrequested', `refund ${refundId} of this deposit was not requested`)
    return
  }
  if (!statesBefore[state]?.includes(refund.state))
    report('refund-ended-twice', `refund ${refundId} was ${refund.state} before`)
  if (state !== 'made' && refund.held)
    report('refused-refund-held', `the amount of the ${state} refund ${refundId} is still held`)
  rows.put(depositRefundsTable, { ...refund, state, lastPosition: event.position })
}

/** A check that the event names a known deposit, and the changes of its row. */
const changing =
  <Event extends DepositRecord>(
    changes: (event: Event, deposit: DepositRow, context: Context) => Partial<DepositRow>,
  ) =>
  (event: Event, deposit: DepositRow | undefined, context: Context): DepositRow | undefined => {
    checkNamedDeposit(event, deposit, context)
    return deposit && { ...deposit, ...changes(event, deposit, context) }
  }

/**
 * A deposit receives each of its payments once, and marks it as credited once, after the ledger credited it. The sum
 * that it reports is the sum of its payments. A refund is requested once, of at most what was credited, and ends once.
 */
export const depositRules = invariant({
  name: 'audit-deposits',
  version: 4,
  table: depositsTable,
  tables: [paymentsTable, depositRefundsTable],
  kind: 'deposit-',
  key: ({ data }) => data.depositId,
  reads: ({ data }) => {
    if ('paymentId' in data) return [rowKey(paymentsTable, data.depositId, data.paymentId)]
    return 'refundId' in data ? [rowKey(depositRefundsTable, data.refundId)] : []
  },
  on: {
    DepositOpened: (event, deposit, context) => {
      checkNamedDeposit(event, deposit, context)
      const { depositId, accountId, customerId, amountCents } = event.data
      if (deposit !== undefined) context.report('deposit-twice', `deposit ${depositId} was opened before`)
      return {
        depositId,
        accountId,
        customerId,
        gateway: gatewayOf(event.data),
        invoicedMicros: centsToMicros(amountCents),
        creditedMicros: 0,
        settledMicros: null,
        closesMs: null,
        state: 'open',
        lastPosition: 0,
      }
    },
    DepositInvoiceCreated: changing(({ data }) => ({ closesMs: Date.parse(data.expiresAt) })),
    DepositProcessing: changing(() => ({ state: 'processing' })),
    DepositPaymentReceived: (event, deposit, context) => {
      checkNamedDeposit(event, deposit, context)
      if (deposit === undefined) return
      const { depositId, paymentId, amountMicros } = event.data
      const { rows, report } = context
      if (rows.get(paymentsTable, [depositId, paymentId]) !== undefined)
        report('received-twice', `payment ${paymentId} was received before`)
      rows.put(paymentsTable, {
        depositId,
        paymentId,
        amountMicros,
        credited: false,
        marked: false,
        lastPosition: event.position,
      })
    },
    DepositPaymentCredited: changing(({ data, position }, { creditedMicros }, { rows, report }) => {
      const { depositId, paymentId, amountMicros } = data
      const payment = rows.get(paymentsTable, [depositId, paymentId])
      if (!payment?.credited)
        report('marked-uncredited', `it says that payment ${paymentId} is credited, and no ledger credits it`)
      if (payment?.marked) report('marked-twice', `payment ${paymentId} was marked as credited before`)
      if (payment !== undefined && payment.amountMicros !== amountMicros)
        report(
          'marked-amount',
          `${inDollars(payment.amountMicros)} was received, not ${inDollars(amountMicros)}`,
        )
      if (payment !== undefined) rows.put(paymentsTable, { ...payment, marked: true, lastPosition: position })
      return { creditedMicros: creditedMicros + amountMicros }
    }),
    DepositSettled: changing(({ data: { creditedMicros } }, deposit, { report }) => {
      if (creditedMicros !== deposit.creditedMicros)
        report(
          'deposit-sum',
          `it says that ${inDollars(creditedMicros)} was credited, its payments come to ${inDollars(deposit.creditedMicros)}`,
        )
      return { state: 'closed', settledMicros: creditedMicros }
    }),
    DepositExpired: changing(() => ({ state: 'closed' })),
    DepositFailed: changing(() => ({ state: 'closed' })),
    DepositCanceled: changing(() => ({ state: 'closed' })),
    DepositChangeReported: changing(() => ({})),
    DepositChangeReviewed: changing(() => ({})),
    DepositRefundRequested: changing(
      ({ data, position }, { accountId, creditedMicros }, { rows, report }) => {
        const { refundId, depositId, amountCents, reference } = data
        if (refundId !== depositRefundIdOf(depositId, reference))
          report('refund-of-another-reason', 'the id of the refund is not the one of its deposit and reason')
        if (rows.get(depositRefundsTable, [refundId]) !== undefined)
          report('refund-requested-twice', `refund ${refundId} was requested before`)
        if (centsToMicros(amountCents) > creditedMicros)
          report(
            'refund-above-credit',
            `it refunds ${inDollars(centsToMicros(amountCents))} of ${inDollars(creditedMicros)}`,
          )
        rows.put(depositRefundsTable, {
          refundId,
          depositId,
          accountId,
          amountMicros: centsToMicros(amountCents),
          state: 'requested',
          held: false,
          lastPosition: position,
        })
        return {}
      },
    ),
    DepositRefundMade: changing((event, _, context) => {
      endRefund(event, context)
      return {}
    }),
    DepositRefundRefused: changing((event, _, context) => {
      endRefund(event, context)
      return {}
    }),
  },
})

const unmatchedTable = readTable({
  name: 'audit_unmatched',
  columns: { itemId: column.text(), reported: column.jsonb<UnmatchedMovement>(), resolved: column.boolean() },
  key: ['itemId'],
})

/** The stream of the movement that books an item. */
const bookingStreamOf = ({ accountId, reference }: Recorded<'UnmatchedMovementResolved'>['data']) =>
  manualStream({ kind: 'adjustment', accountId: accountId ?? '', reference } as ManualMovement)

/** A movement without a known deposit is reported once, in the stream of its name, and resolved once. A booking precedes it. */
export const unmatchedRules = invariant({
  name: 'audit-unmatched',
  version: 2,
  table: unmatchedTable,
  kind: 'unmatched-',
  key: ({ data }) => data.itemId,
  reads: ({ data }) =>
    'accountId' in data && data.accountId !== null ? [rowKey(manualTable, bookingStreamOf(data))] : [],
  on: {
    UnmatchedMovementReported: ({ stream, data }, row, { report }) => {
      if (unmatchedStream(unmatchedIdOf(data)) !== stream || unmatchedIdOf(data) !== data.itemId)
        report('unmatched-elsewhere', `the item of ${data.reference} is ${unmatchedIdOf(data)}`)
      if (row !== undefined) report('unmatched-twice', `${data.reference} was reported before`)
      const figures = [data.reason, data.currency, data.amountMicros, data.happenedAt]
      if (figures.includes(null) && figures.some((figure) => figure !== null))
        report('unmatched-in-part', 'it has a part of the figures of a movement')
      return { itemId: data.itemId, reported: data, resolved: false }
    },
    UnmatchedMovementResolved: ({ stream, data }, row, { rows, report }) => {
      if (row !== undefined && row.reported.reference !== data.reference)
        report('unmatched-of-another', `item ${data.itemId} is ${row.reported.reference}`)
      const booking = data.accountId === null ? null : rows.get(manualTable, [bookingStreamOf(data)])
      if (booking !== null && booking?.state !== 'applied')
        report('unmatched-unbooked', `it says that it is booked to ${data.accountId}, which it is not`)
      if (
        booking &&
        row &&
        (booking.recorded.amountMicros !== row.reported.amountMicros || row.reported.currency !== 'usd')
      )
        report('unmatched-amount', `its booking moves ${inDollars(booking.recorded.amountMicros)}`)
      if (row === undefined || unmatchedStream(data.itemId) !== stream)
        report('unmatched-unknown', `item ${data.itemId} was not reported`)
      if (row?.resolved) report('unmatched-resolved-twice', `item ${data.itemId} was resolved before`)
      return row && { ...row, resolved: true }
    },
  },
})

/** The automatic top-up of a wallet, as its events say. */
export const topupsTable = readTable({
  name: 'audit_topups',
  columns: {
    accountId: column.text(),
    methodReference: nullable(column.text()),
    /** Null: it is off. */
    monthlyMaxCents: nullable(column.bigint()),
    thresholdCents: column.bigint(),
    amountCents: nullable(column.bigint()),
    targetBalanceCents: nullable(column.bigint()),
    /** Whether its top-ups are paid by invoices, without a saved card. */
    byInvoice: column.boolean(),
    requests: column.bigint(),
    failures: column.bigint(),
    retryAtMs: column.bigint(),
    paused: column.boolean(),
    month: column.text(),
    monthCents: column.bigint(),
    openTopupId: nullable(column.text()),
    openCents: column.bigint(),
    openByInvoice: column.boolean(),
    lastPosition: column.bigint(),
  },
  key: ['accountId'],
})

type TopupRow = RowOf<typeof topupsTable>
type TopupRecord = Recorded<TopupEvent['type']>

const noTopup = (accountId: string): TopupRow => ({
  accountId,
  methodReference: null,
  monthlyMaxCents: null,
  thresholdCents: 0,
  amountCents: null,
  targetBalanceCents: null,
  byInvoice: false,
  requests: 0,
  failures: 0,
  retryAtMs: 0,
  paused: false,
  month: '',
  monthCents: 0,
  openTopupId: null,
  openCents: 0,
  openByInvoice: false,
  lastPosition: 0,
})

/** A check that the event is of the account of its stream, and the changes of its row. */
const ofTopup =
  <Event extends TopupRecord>(
    changes: (event: Event, row: TopupRow, context: Context) => Partial<TopupRow>,
  ) =>
  (event: Event, before: TopupRow | undefined, context: Context): TopupRow => {
    const { accountId } = event.data
    if (subjectOf(event) !== accountId)
      context.report('topup-elsewhere', `it is about the top-up of ${accountId}`)
    const row = before ?? noTopup(accountId)
    return { ...row, ...changes(event, row, context) }
  }

const checkOpen = (topupId: string, { openTopupId }: TopupRow, { report }: Context): void => {
  if (openTopupId !== topupId) report('topup-not-open', `top-up ${topupId} is not open`)
}

/** Decides the amount of a request again. The wallet may have changed between the decision and the event. */
const checkAmount = (
  event: Extract<TopupRecord, { readonly type: 'TopupRequested' }>,
  row: TopupRow,
  { rows, report }: Context,
): void => {
  const { accountId, amountCents } = event.data
  const { monthlyMaxCents, thresholdCents } = row
  if (monthlyMaxCents === null) return
  const atMs = recordedMs(event)
  const lowest = lowestMicros(rows.get(walletsTable, [accountId]), atMs)
  const highest = centsToMicros(thresholdCents) - 1
  if (lowest > highest)
    report(
      'topup-above-threshold',
      `the balance was ${inDollars(lowest)} or more, and the threshold is ${inDollars(highest + 1)}`,
    )
  if (atMs < row.retryAtMs)
    report('topup-early', `after its last failure the next one is from ${isoTime(row.retryAtMs)}`)
  const state = {
    ...row,
    settings: { ...row, monthlyMaxCents },
    retryAtMs: 0,
    method: true,
    open: null,
    pause: null,
  }
  const least = topupCents(state, highest, atMs)
  const most = topupCents(state, Math.min(lowest, highest), atMs)
  if (least === null || most === null || amountCents < least || amountCents > most)
    report(
      'topup-amount',
      least === null || most === null
        ? 'the maximum of the month allows none'
        : `by settings and balance it is from ${inDollars(centsToMicros(least))} to ${inDollars(centsToMicros(most))}`,
    )
}

/**
 * An automatic top-up is requested only while it is on and a card is saved or it is paid by an invoice, one at a time,
 * below the threshold, with the amount of the settings, never above the maximum of a month, and not while it is paused.
 * It is paid once, after its deposit was credited (an invoice: perhaps in part), or fails once.
 */
export const topupRules = invariant({
  name: 'audit-topups',
  version: 4,
  table: topupsTable,
  kind: 'topup-',
  key: ({ data }) => data.accountId,
  reads: ({ type, data }) => {
    if (type === 'TopupRequested') return [rowKey(walletsTable, data.accountId)]
    return type === 'TopupPaid'
      ? [rowKey(depositsTable, topupDepositIdOf(data.accountId as AccountId, data.topupId))]
      : []
  },
  on: {
    PaymentMethodSaved: ofTopup(({ data: { methodReference } }) => ({
      methodReference,
      failures: 0,
      retryAtMs: 0,
    })),
    PaymentMethodRemoved: ofTopup(({ data }, { methodReference }, { report }) => {
      if (methodReference !== data.methodReference)
        report('topup-card-unknown', `the saved card is ${methodReference ?? 'none'}`)
      return { methodReference: null }
    }),
    TopupSettingsChanged: ofTopup(({ data: { accountId: _, method, ...settings } }) => ({
      ...settings,
      byInvoice: method === 'crypto',
      failures: 0,
      retryAtMs: 0,
    })),
    TopupTurnedOff: ofTopup(({ data }, { monthlyMaxCents, failures }, { report }) => {
      if (monthlyMaxCents === null) report('topup-off-twice', 'it was off before')
      if (data.reason === 'failures' && failures < maxFailures)
        report('topup-off-early', `it failed ${failures} times in a row`)
      return { monthlyMaxCents: null }
    }),
    TopupPaused: ofTopup(({ data }, { monthlyMaxCents, paused }, { report }) => {
      if (monthlyMaxCents === null) report('topup-pause-off', 'it is off')
      if (paused) report('topup-paused-twice', 'it was paused before')
      return { paused: data.reason !== 'monthly_maximum' }
    }),
    TopupResumed: ofTopup(() => ({ paused: false, failures: 0, retryAtMs: 0 })),
    TopupRequested: ofTopup((event, row, context) => {
      const { report } = context
      const { accountId, topupId, depositId, amountCents } = event.data
      const requests = row.requests + 1
      if (topupId !== topupIdOf(accountId as AccountId, requests))
        report('topup-id', `it is not the id of top-up ${requests} of ${accountId}`)
      if (depositId !== topupDepositIdOf(accountId as AccountId, topupId))
        report('topup-deposit', `deposit ${depositId} is not the one of ${topupId}`)
      if (row.monthlyMaxCents === null || (row.methodReference === null && !row.byInvoice))
        report('topup-off', 'it is off, or no card is saved')
      if (row.paused) report('topup-paused', 'it is paused until the customer resumes it')
      if (row.openTopupId !== null) report('topup-open', `top-up ${row.openTopupId} is open`)
      checkAmount(event, row, context)
      const month = event.metadata.recordedAt.slice(0, 7)
      const monthCents = (row.month === month ? row.monthCents : 0) + amountCents
      if (row.monthlyMaxCents !== null && monthCents > row.monthlyMaxCents)
        report('topup-above-maximum', `the top-ups of ${month} are above the maximum`)
      return {
        requests,
        month,
        monthCents,
        openTopupId: topupId,
        openCents: amountCents,
        openByInvoice: row.byInvoice,
        lastPosition: event.position,
      }
    }),
    TopupPaid: ofTopup(({ data: { accountId, topupId } }, row, context) => {
      checkOpen(topupId, row, context)
      const deposit = context.rows.get(depositsTable, [topupDepositIdOf(accountId as AccountId, topupId)])
      const leastMicros = row.openByInvoice ? 1 : centsToMicros(row.openCents)
      if (!deposit || deposit.creditedMicros < leastMicros)
        context.report('topup-uncredited', 'its deposit is not credited')
      return { openTopupId: null, failures: 0, retryAtMs: 0 }
    }),
    TopupFailed: ofTopup((event, row, context) => {
      const { topupId, amountCents, reason, failures } = event.data
      checkOpen(topupId, row, context)
      if (reason === 'invoice_expired' && !row.openByInvoice)
        context.report('topup-no-invoice', 'it is paid by the saved card')
      if (amountCents !== row.openCents)
        context.report('topup-failed-amount', `it requested ${inDollars(centsToMicros(row.openCents))}`)
      if (failures !== row.failures + 1)
        context.report('topup-failures', `it is failure ${row.failures + 1} in a row`)
      return {
        openTopupId: null,
        failures,
        retryAtMs: recordedMs(event) + (retryAfterMs[failures - 1] ?? 0),
        monthCents: row.monthCents - row.openCents,
      }
    }),
  },
})
