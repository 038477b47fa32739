import type { DepositEvent, DepositOpened } from '../../domain/deposits/events.ts'
import { manualStream } from '../../domain/ledger/decide-manual.ts'
import type {
  CustomerAdjusted,
  CustomerCredited,
  WalletAdjusted,
  WalletCredited,
} from '../../domain/ledger/events.ts'
import type { ManualMovement, ManualMovementEvent } from '../../domain/ledger/manual-movements.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** A deposit, and its credits in the ledger. */
type DepositRow = {
  deposit_id: string
  account_id: string
  customer_id: string | null
  /** The gateway that the ledger's credit must name. */
  gateway: string
  invoiced_micros: number
  credited_micros: number
  /** The last reported sum of its payments; null before the first report. */
  settled_micros: number | null
  /** The closing time of its invoice; null without an invoice. */
  closes_ms: number | null
  state: 'open' | 'processing' | 'closed'
  last_position: number
}

/** A recorded payment of a deposit, and its progress. */
type PaymentRow = {
  deposit_id: string
  payment_id: string
  amount_micros: number
  /** `credited`: the ledger has the payment. `marked`: the deposit has recorded that. */
  credited: boolean
  marked: boolean
  last_position: number
}

/** A payment at its gateway. It is credited once, in one ledger. */
type CreditRow = { gateway: string; payment_id: string; deposit_id: string }

/** A manual movement as recorded. */
type ManualRow = {
  stream: string
  recorded: string
  state: 'recorded' | 'moved' | 'applied' | 'withdrawn'
  last_position: number
}

export const depositsTable: Table<DepositRow> = {
  name: 'audit_deposits',
  columns: {
    deposit_id: { type: 'text' },
    account_id: { type: 'text' },
    customer_id: { type: 'text', nullable: true },
    gateway: { type: 'text' },
    invoiced_micros: { type: 'bigint' },
    credited_micros: { type: 'bigint' },
    settled_micros: { type: 'bigint', nullable: true },
    closes_ms: { type: 'bigint', nullable: true },
    state: { type: 'text' },
    last_position: { type: 'bigint' },
  },
  key: ['deposit_id'],
  indexes: [],
}
export const paymentsTable: Table<PaymentRow> = {
  name: 'audit_payments',
  columns: {
    deposit_id: { type: 'text' },
    payment_id: { type: 'text' },
    amount_micros: { type: 'bigint' },
    credited: { type: 'boolean' },
    marked: { type: 'boolean' },
    last_position: { type: 'bigint' },
  },
  key: ['deposit_id', 'payment_id'],
  indexes: [],
}
const creditsTable: Table<CreditRow> = {
  name: 'audit_gateway_credits',
  columns: { gateway: { type: 'text' }, payment_id: { type: 'text' }, deposit_id: { type: 'text' } },
  key: ['gateway', 'payment_id'],
  indexes: [],
}
export const manualTable: Table<ManualRow> = {
  name: 'audit_manual',
  columns: {
    stream: { type: 'text' },
    recorded: { type: 'text' },
    state: { type: 'text' },
    last_position: { type: 'bigint' },
  },
  key: ['stream'],
  indexes: [],
}

type ReasonRuleEvent = RecordedEvent<
  DepositEvent | ManualMovementEvent | WalletCredited | WalletAdjusted | CustomerCredited | CustomerAdjusted
>
type Report = (rule: string, problem: string) => void

const ledgerPrefix = 'ledger-'
const ownerOf = ({ stream }: RecordedEvent): string => stream.slice(ledgerPrefix.length)

/** A credit of a payment in the ledger. */
type Credit = {
  readonly depositId: string
  readonly gateway: string
  readonly paymentId: string
  readonly customerId: string | null
  readonly amountMicros: number
}

const creditIn = (event: ReasonRuleEvent): Credit | null => {
  if (event.type === 'CustomerCredited') {
    const { depositId, gateway, reference, customerId, amountMicros } = event.data
    return { depositId, gateway, paymentId: reference, customerId, amountMicros }
  }
  if (event.type !== 'WalletCredited' || event.data.source !== 'deposit') return null
  const { depositId, gateway, reference, amountMicros } = event.data
  return {
    depositId: depositId ?? 'no deposit',
    gateway: gateway ?? 'no gateway',
    paymentId: reference,
    customerId: null,
    amountMicros,
  }
}

/** The manual movement of a ledger event; null for any other event. */
const movementIn = (event: ReasonRuleEvent): ManualMovement | null => {
  const accountId = ownerOf(event)
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
        ...adjustment
      } = event.data
      return { kind: 'adjustment', accountId, ...adjustment }
    }
    case 'CustomerAdjusted': {
      const {
        debtChangeMicros: _,
        receivableMicros: _old,
        creditAfterMicros: _credit,
        availableAfterMicros: _after,
        ...adjustment
      } = event.data
      return { kind: 'customer', accountId, ...adjustment }
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

const checkCredit = (event: ReasonRuleEvent, credit: Credit, rows: Rows, report: Report): void => {
  const { depositId, gateway, paymentId, customerId, amountMicros } = credit
  const deposit = rows.get(depositsTable, [depositId])
  const payment = rows.get(paymentsTable, [depositId, paymentId])
  const previousCredit = rows.get(creditsTable, [gateway, paymentId])
  if (previousCredit !== undefined)
    report(
      'payment-twice',
      `payment ${paymentId} of ${gateway} was credited before, for deposit ${previousCredit.deposit_id}`,
    )
  rows.put(creditsTable, { gateway, payment_id: paymentId, deposit_id: depositId })
  if (deposit === undefined || payment === undefined) {
    report('credit-unpaid', `no deposit ${depositId} received the payment ${paymentId} that it credits`)
    return
  }
  const account = ownerOf(event)
  if (deposit.account_id !== account || deposit.customer_id !== customerId || deposit.gateway !== gateway)
    report(
      'credit-of-another',
      `deposit ${depositId} is of ${deposit.account_id}, ${deposit.customer_id ?? 'no customer'}, at ${deposit.gateway}`,
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

const checkMoved = (movement: ManualMovement, position: number, rows: Rows, report: Report): void => {
  const stream = manualStream(movement)
  const row = rows.get(manualTable, [stream])
  if (row === undefined || row.state === 'withdrawn') {
    report('movement-unrecorded', `nobody recorded that ${movementText(movement)} is to be moved`)
    return
  }
  if (row.recorded !== movementText(movement))
    report('movement-changed', `it moves ${movementText(movement)}, recorded was ${row.recorded}`)
  if (row.state !== 'recorded') report('movement-twice', `${movementText(movement)} was moved before`)
  rows.put(manualTable, { ...row, state: 'moved', last_position: position })
}

/** Checks that the outcome of a movement names the recorded movement. */
const checkNamed = (
  row: ManualRow | undefined,
  { accountId, reference }: { readonly accountId: string; readonly reference: string },
  report: Report,
): void => {
  if (row === undefined) return
  const recorded: ManualMovement = JSON.parse(row.recorded)
  if (recorded.accountId !== accountId || recorded.reference !== reference)
    report(
      'movement-of-another',
      `${recorded.reference} of ${recorded.accountId} was recorded here, not ${reference} of ${accountId}`,
    )
}

const checkManual = (event: RecordedEvent<ManualMovementEvent>, rows: Rows, report: Report): void => {
  const { stream, position: last_position } = event
  const row = rows.get(manualTable, [stream])
  switch (event.type) {
    case 'ManualMovementRecorded':
      if (manualStream(event.data) !== stream)
        report('movement-elsewhere', `the stream of this movement is ${manualStream(event.data)}`)
      if (row !== undefined && row.state !== 'withdrawn') report('recorded-twice', 'it was recorded before')
      rows.put(manualTable, { stream, recorded: movementText(event.data), state: 'recorded', last_position })
      return
    case 'ManualMovementApplied':
      checkNamed(row, event.data, report)
      if (row?.state !== 'moved')
        report('applied-unmoved', 'it says that the ledger has the movement, which it has not')
      if (row !== undefined) rows.put(manualTable, { ...row, state: 'applied', last_position })
      return
    case 'ManualMovementWithdrawn':
      checkNamed(row, event.data, report)
      if (row?.state !== 'recorded') report('withdrawn-moved', 'it withdraws a movement that does not wait')
      if (row !== undefined) rows.put(manualTable, { ...row, state: 'withdrawn', last_position })
      return
    default:
      event satisfies never
  }
}

/** The changes of a deposit's state by an event. */
const depositStateAfter = (event: DepositEvent): Partial<DepositRow> => {
  switch (event.type) {
    case 'DepositInvoiceCreated':
      return { closes_ms: Date.parse(event.data.expiresAt) }
    case 'DepositProcessing':
      return { state: 'processing' }
    case 'DepositSettled':
      return { state: 'closed', settled_micros: event.data.creditedMicros }
    case 'DepositExpired':
    case 'DepositFailed':
      return { state: 'closed' }
    default:
      return {}
  }
}

const checkDeposit = (event: RecordedEvent<DepositEvent>, rows: Rows, report: Report): void => {
  const { depositId, accountId } = event.data
  const { position: last_position } = event
  if (event.stream !== `deposit-${depositId}`) report('deposit-elsewhere', `it is about deposit ${depositId}`)
  const deposit = rows.get(depositsTable, [depositId])
  if (event.type === 'DepositOpened') {
    if (deposit !== undefined) report('deposit-twice', `deposit ${depositId} was opened before`)
    const { customerId, amountCents } = event.data
    rows.put(depositsTable, {
      deposit_id: depositId,
      account_id: accountId,
      customer_id: customerId,
      gateway: gatewayOf(event.data),
      invoiced_micros: centsToMicros(amountCents),
      credited_micros: 0,
      settled_micros: null,
      closes_ms: null,
      state: 'open',
      last_position,
    })
    return
  }
  if (deposit === undefined) {
    report('deposit-unknown', `deposit ${depositId} was never opened`)
    return
  }
  if (deposit.account_id !== accountId)
    report('deposit-of-another', `deposit ${depositId} is of ${deposit.account_id}`)
  if (event.type === 'DepositSettled' && event.data.creditedMicros !== deposit.credited_micros)
    report(
      'deposit-sum',
      `it says that ${inDollars(event.data.creditedMicros)} was credited, its payments come to ${inDollars(deposit.credited_micros)}`,
    )
  if (event.type !== 'DepositPaymentReceived' && event.type !== 'DepositPaymentCredited') {
    rows.put(depositsTable, { ...deposit, ...depositStateAfter(event), last_position })
    return
  }
  const { paymentId, amountMicros } = event.data
  const payment = rows.get(paymentsTable, [depositId, paymentId])
  if (event.type === 'DepositPaymentReceived') {
    if (payment !== undefined) report('received-twice', `payment ${paymentId} was received before`)
    rows.put(paymentsTable, {
      deposit_id: depositId,
      payment_id: paymentId,
      amount_micros: amountMicros,
      credited: false,
      marked: false,
      last_position,
    })
    return
  }
  if (payment === undefined || !payment.credited)
    report('marked-uncredited', `it says that payment ${paymentId} is credited, and no ledger credits it`)
  if (payment?.marked) report('marked-twice', `payment ${paymentId} was marked as credited before`)
  if (payment !== undefined && payment.amount_micros !== amountMicros)
    report(
      'marked-amount',
      `${inDollars(payment.amount_micros)} was received, not ${inDollars(amountMicros)}`,
    )
  if (payment !== undefined) rows.put(paymentsTable, { ...payment, marked: true, last_position })
  const credited_micros = deposit.credited_micros + amountMicros
  rows.put(depositsTable, { ...deposit, credited_micros, last_position })
}

const isManual = (event: ReasonRuleEvent): event is RecordedEvent<ManualMovementEvent> =>
  event.type === 'ManualMovementRecorded' ||
  event.type === 'ManualMovementApplied' ||
  event.type === 'ManualMovementWithdrawn'

const depositPrefix = 'deposit-'
const paymentIdOf = (event: RecordedEvent<DepositEvent>): string | null =>
  'paymentId' in event.data ? event.data.paymentId : null

/**
 * Every movement of a wallet or of a customer's credit has an earlier reason in another stream. A credit of a deposit
 * has the payment that the deposit received: once, for the exact amount, with the account and the gateway of the
 * deposit. A manual movement has its record. The statements of deposits and records about the ledger are true.
 */
export const reasonRules: ReadModel = {
  name: 'audit-reasons',
  version: 3,
  tables: [depositsTable, paymentsTable, creditsTable, manualTable],
  takes: { types: new Set(), streams: new Set([ledgerPrefix, depositPrefix]) },
  reads: (recorded) => {
    const event = recorded as ReasonRuleEvent
    if (event.stream.startsWith(ledgerPrefix)) {
      const credit = creditIn(event)
      if (credit !== null)
        return [
          { table: depositsTable.name, key: [credit.depositId] },
          { table: paymentsTable.name, key: [credit.depositId, credit.paymentId] },
          { table: creditsTable.name, key: [credit.gateway, credit.paymentId] },
        ]
      const movement = movementIn(event)
      return movement === null ? [] : [{ table: manualTable.name, key: [manualStream(movement)] }]
    }
    if (!event.stream.startsWith(depositPrefix)) return []
    if (isManual(event)) return [{ table: manualTable.name, key: [event.stream] }]
    const deposit = event as RecordedEvent<DepositEvent>
    const paymentId = paymentIdOf(deposit)
    const { depositId } = deposit.data
    return [
      { table: depositsTable.name, key: [depositId] },
      ...(paymentId === null ? [] : [{ table: paymentsTable.name, key: [depositId, paymentId] }]),
    ]
  },
  apply: (recorded, rows) => {
    const event = recorded as ReasonRuleEvent
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    if (event.stream.startsWith(ledgerPrefix)) {
      const credit = creditIn(event)
      if (credit !== null) return checkCredit(event, credit, rows, report)
      const movement = movementIn(event)
      if (movement !== null) checkMoved(movement, event.position, rows, report)
      return
    }
    if (!event.stream.startsWith(depositPrefix)) return
    if (isManual(event)) checkManual(event, rows, report)
    else checkDeposit(event as RecordedEvent<DepositEvent>, rows, report)
  },
}
