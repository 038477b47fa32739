import { reversalReasons } from '../payments/payments.ts'
import type { LedgerEvent } from './events.ts'
import type { StatementLineEvent } from './statement-lines.ts'

/**
 * How each money event is booked, as data. The event dictionary shows it, and a program can do its bookings from it
 * alone. The service itself books with `postings.ts`. A test checks that both give the same postings.
 */
export type BookedLeg = {
  /** The service's book, or the reseller's own book. The latter only if the ledger's owner is a reseller. */
  readonly book: 'service' | 'reseller'
  /** `{field}` is replaced with the event's field, `{owner}` with the account of the ledger. */
  readonly account: string
  /**
   * The debit is the sum of these fields, each times its factor. An absent field is 0. A negative sum is a credit, and
   * 0 gives no leg.
   */
  readonly debit: Readonly<Record<string, 1 | -1>>
  /** The leg applies only if these fields have one of these values. */
  readonly when?: Readonly<Record<string, readonly string[]>>
}

const amount = { amountMicros: 1 } as const
const minusAmount = { amountMicros: -1 } as const
const cost = { costMicros: 1 } as const
const minusCost = { costMicros: -1 } as const

const service = (account: string, debit: BookedLeg['debit'], when?: BookedLeg['when']): BookedLeg =>
  when ? { book: 'service', account, debit, when } : { book: 'service', account, debit }
const reseller = (account: string, debit: BookedLeg['debit'], when?: BookedLeg['when']): BookedLeg =>
  when ? { book: 'reseller', account, debit, when } : { book: 'reseller', account, debit }

const wallet = 'liabilities:wallet:{owner}'
const holds = 'liabilities:holds:{owner}'
const debt = 'assets:receivable:{owner}'
const gateway = 'assets:gateway:{gateway}'
const adjustments = 'expenses:adjustments:{reason}'
const serviceWallet = 'assets:service-wallet'
const serviceDebt = 'liabilities:service-debt'
const adjustmentRevenue = 'revenue:adjustments:{reason}'
const ownUse = 'expenses:own-use'
const costOfSales = 'expenses:cost-of-sales'
const funding = 'equity:funding'
const sales = 'revenue:sales'
const credit = 'liabilities:customer:{customerId}'
const customerDebt = 'assets:receivable:customer:{customerId}'

const refundSource = { source: ['refund'] }
const depositSources = { source: ['deposit', 'manual'] }
const gatewayReasons = { reason: reversalReasons }
const manualReasons = { reason: ['correction', 'goodwill'] }
const badDebt = { reason: ['bad_debt'] }

type BookedEventType = (LedgerEvent | StatementLineEvent)['type']

const statementLegs: readonly BookedLeg[] = [
  service(gateway, { feeMicros: -1, payoutMicros: -1 }),
  service('expenses:gateway-fees:{gateway}', { feeMicros: 1 }),
  service('assets:bank', { payoutMicros: 1 }),
]

export const bookedLegs: Readonly<Record<BookedEventType, readonly BookedLeg[]>> = {
  WalletCredited: [
    service(gateway, amount, depositSources),
    service('revenue:orders:{family}', amount, refundSource),
    service(wallet, { amountMicros: -1, debtChangeMicros: -1, receivableMicros: 1 }),
    service(debt, { debtChangeMicros: 1, receivableMicros: -1 }),
    reseller(serviceWallet, { amountMicros: 1, debtChangeMicros: 1, receivableMicros: -1 }),
    reseller(serviceDebt, { debtChangeMicros: -1, receivableMicros: 1 }),
    reseller(funding, minusAmount, depositSources),
    reseller(ownUse, minusAmount, refundSource),
  ],
  WalletAdjusted: [
    service(gateway, amount, gatewayReasons),
    service(adjustments, amount, manualReasons),
    service('expenses:bad-debts', amount, badDebt),
    service(wallet, { amountMicros: -1, debtChangeMicros: -1, receivableMicros: -1 }),
    service(debt, { debtChangeMicros: 1, receivableMicros: 1 }),
    reseller(serviceWallet, { amountMicros: 1, debtChangeMicros: 1, receivableMicros: 1 }),
    reseller(serviceDebt, { debtChangeMicros: -1, receivableMicros: -1 }),
    reseller(funding, minusAmount, gatewayReasons),
    reseller(adjustmentRevenue, minusAmount, { reason: [...manualReasons.reason, ...badDebt.reason] }),
  ],
  WalletDebited: [
    service(wallet, amount),
    service('revenue:orders:{order.family}', minusAmount),
    reseller(ownUse, amount),
    reseller(serviceWallet, minusAmount),
  ],
  FundsHeld: [service(wallet, amount), service(holds, minusAmount)],
  HoldCaptured: [
    service(holds, amount),
    service('revenue:scrapes:{platform}', minusAmount),
    reseller(ownUse, amount),
    reseller(serviceWallet, minusAmount),
  ],
  HoldReleased: [
    service(holds, amount),
    service(wallet, { amountMicros: -1, debtChangeMicros: -1 }),
    service(debt, { debtChangeMicros: 1 }),
    reseller(serviceWallet, { debtChangeMicros: 1 }),
    reseller(serviceDebt, { debtChangeMicros: -1 }),
  ],
  CustomerCredited: [
    reseller(gateway, amount),
    reseller(credit, { amountMicros: -1, debtChangeMicros: -1, receivableMicros: 1 }),
    reseller(customerDebt, { debtChangeMicros: 1, receivableMicros: -1 }),
  ],
  CustomerCharged: [
    service(wallet, cost),
    service('revenue:orders:{order.family}', minusCost),
    reseller(credit, amount),
    reseller(sales, minusAmount),
    reseller(costOfSales, cost),
    reseller(serviceWallet, minusCost),
  ],
  CustomerRefunded: [
    service('revenue:orders:{family}', cost),
    service(wallet, { costMicros: -1, walletDebtChangeMicros: -1, walletReceivableMicros: 1 }),
    service(debt, { walletDebtChangeMicros: 1, walletReceivableMicros: -1 }),
    reseller(sales, amount),
    reseller(credit, { amountMicros: -1, debtChangeMicros: -1, receivableMicros: 1 }),
    reseller(customerDebt, { debtChangeMicros: 1, receivableMicros: -1 }),
    reseller(serviceWallet, { costMicros: 1, walletDebtChangeMicros: 1, walletReceivableMicros: -1 }),
    reseller(serviceDebt, { walletDebtChangeMicros: -1, walletReceivableMicros: 1 }),
    reseller(costOfSales, minusCost),
  ],
  CustomerAdjusted: [
    reseller('assets:gateway:manual', amount, { reason: ['payment'] }),
    reseller(gateway, amount, gatewayReasons),
    reseller(adjustments, amount, manualReasons),
    reseller(credit, { amountMicros: -1, debtChangeMicros: -1, receivableMicros: -1 }),
    reseller(customerDebt, { debtChangeMicros: 1, receivableMicros: 1 }),
  ],
  StatementLineBooked: statementLegs,
  StatementLineCorrected: statementLegs,
}
