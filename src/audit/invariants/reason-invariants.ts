import type { DepositEvent, DepositOpened } from '../../domain/deposits/events.ts'
import { manualStream } from '../../domain/ledger/decide-manual.ts'
import type { ManualMovement } from '../../domain/ledger/manual-movements.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { RowKey } from '../../platform/projections/read-model.ts'
import {
  bigint,
  boolean,
  type Context,
  eventRules,
  inDollars,
  invariant,
  json,
  nullable,
  type Recorded,
  type RowOf,
  rowKey,
  ruleTable,
  subjectOf,
  text,
} from './invariant.ts'

/** A deposit, and its credits in the ledger. */
export const depositsTable = ruleTable('audit_deposits', {
  deposit_id: text,
  account_id: text,
  customer_id: nullable(text),
  /** The gateway that the ledger's credit must name. */
  gateway: text,
  invoiced_micros: bigint,
  credited_micros: bigint,
  /** The last reported sum of its payments; null before the first report. */
  settled_micros: nullable(bigint),
  /** The closing time of its invoice; null without an invoice. */
  closes_ms: nullable(bigint),
  /** `open`, `processing` or `closed`. */
  state: text,
  last_position: bigint,
})
/** A recorded payment of a deposit, and its progress. */
export const paymentsTable = ruleTable(
  'audit_payments',
  {
    deposit_id: text,
    payment_id: text,
    amount_micros: bigint,
    /** The ledger has the payment. */
    credited: boolean,
    /** The deposit has recorded that. */
    marked: boolean,
    last_position: bigint,
  },
  ['deposit_id', 'payment_id'],
)
/** A payment at its gateway. It is credited once, in one ledger. */
const creditsTable = ruleTable(
  'audit_gateway_credits',
  { gateway: text, payment_id: text, deposit_id: text },
  ['gateway', 'payment_id'],
)
/** A manual movement as recorded. `state`: `recorded`, `moved`, `applied` or `withdrawn`. */
export const manualTable = ruleTable('audit_manual', {
  stream: text,
  recorded: json<ManualMovement>(),
  state: text,
  last_position: bigint,
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
        availableAfterMicros: _after,
        ...data
      } = event.data
      return { kind: 'adjustment', accountId, ...data }
    }
    case 'CustomerAdjusted': {
      const {
        debtChangeMicros: _,
        receivableMicros: _old,
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
      `payment ${paymentId} of ${gateway} was credited before, for deposit ${previous.deposit_id}`,
    )
  rows.put(creditsTable, { gateway, payment_id: paymentId, deposit_id: depositId })
  if (deposit === undefined || payment === undefined) {
    report('credit-unpaid', `no deposit ${depositId} received the payment ${paymentId} that it credits`)
    return
  }
  const { account_id, customer_id, gateway: expectedGateway } = deposit
  if (account_id !== subjectOf(event) || customer_id !== customerId || expectedGateway !== gateway)
    report(
      'credit-of-another',
      `deposit ${depositId} is of ${account_id}, ${customer_id ?? 'no customer'}, at ${expectedGateway}`,
    )
  if (payment.credited)
    report('credit-twice', `payment ${paymentId} of deposit ${depositId} was credited before`)
  if (payment.amount_micros !== amountMicros)
    report(
      'credit-amount',
      `${inDollars(amountMicros)} is credited, but deposit ${depositId} received ${inDollars(payment.amount_micros)}`,
    )
  rows.put(paymentsTable, { ...payment, credited: true, last_position: event.position })
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
  rows.put(manualTable, { ...row, state: 'moved', last_position: event.position })
}

/** Every movement of a wallet or of a customer's credit has an earlier reason: a payment of a deposit, or a record. */
export const reasonRules = eventRules({
  name: 'audit-reasons',
  version: 4,
  tables: [creditsTable],
  kind: 'ledger-',
  reads: (event): RowKey[] => {
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
      return { stream, recorded: data, state: 'recorded', last_position: 0 }
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
  else if (deposit.account_id !== accountId)
    report('deposit-of-another', `deposit ${depositId} is of ${deposit.account_id}`)
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
 * that it reports is the sum of its payments.
 */
export const depositRules = invariant({
  name: 'audit-deposits',
  version: 1,
  table: depositsTable,
  tables: [paymentsTable],
  kind: 'deposit-',
  key: ({ data }) => data.depositId,
  reads: ({ data }) => ('paymentId' in data ? [rowKey(paymentsTable, data.depositId, data.paymentId)] : []),
  on: {
    DepositOpened: (event, deposit, context) => {
      checkNamedDeposit(event, deposit, context)
      const { depositId, accountId, customerId, amountCents } = event.data
      if (deposit !== undefined) context.report('deposit-twice', `deposit ${depositId} was opened before`)
      return {
        deposit_id: depositId,
        account_id: accountId,
        customer_id: customerId,
        gateway: gatewayOf(event.data),
        invoiced_micros: centsToMicros(amountCents),
        credited_micros: 0,
        settled_micros: null,
        closes_ms: null,
        state: 'open',
        last_position: 0,
      }
    },
    DepositInvoiceCreated: changing(({ data }) => ({ closes_ms: Date.parse(data.expiresAt) })),
    DepositProcessing: changing(() => ({ state: 'processing' })),
    DepositPaymentReceived: (event, deposit, context) => {
      checkNamedDeposit(event, deposit, context)
      if (deposit === undefined) return
      const { depositId, paymentId, amountMicros } = event.data
      const { rows, report } = context
      if (rows.get(paymentsTable, [depositId, paymentId]) !== undefined)
        report('received-twice', `payment ${paymentId} was received before`)
      rows.put(paymentsTable, {
        deposit_id: depositId,
        payment_id: paymentId,
        amount_micros: amountMicros,
        credited: false,
        marked: false,
        last_position: event.position,
      })
    },
    DepositPaymentCredited: changing(({ data, position }, { credited_micros }, { rows, report }) => {
      const { depositId, paymentId, amountMicros } = data
      const payment = rows.get(paymentsTable, [depositId, paymentId])
      if (!payment?.credited)
        report('marked-uncredited', `it says that payment ${paymentId} is credited, and no ledger credits it`)
      if (payment?.marked) report('marked-twice', `payment ${paymentId} was marked as credited before`)
      if (payment !== undefined && payment.amount_micros !== amountMicros)
        report(
          'marked-amount',
          `${inDollars(payment.amount_micros)} was received, not ${inDollars(amountMicros)}`,
        )
      if (payment !== undefined)
        rows.put(paymentsTable, { ...payment, marked: true, last_position: position })
      return { credited_micros: credited_micros + amountMicros }
    }),
    DepositSettled: changing(({ data: { creditedMicros } }, { credited_micros }, { report }) => {
      if (creditedMicros !== credited_micros)
        report(
          'deposit-sum',
          `it says that ${inDollars(creditedMicros)} was credited, its payments come to ${inDollars(credited_micros)}`,
        )
      return { state: 'closed', settled_micros: creditedMicros }
    }),
    DepositExpired: changing(() => ({ state: 'closed' })),
    DepositFailed: changing(() => ({ state: 'closed' })),
    DepositChangeReported: changing(() => ({})),
    DepositChangeReviewed: changing(() => ({})),
  },
})
