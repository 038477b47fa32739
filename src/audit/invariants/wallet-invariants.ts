import type { AccountCreated } from '../../domain/accounts/events.ts'
import { resellerBook, serviceBook } from '../../domain/ledger/books.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import {
  customerAccount,
  customerReceivableAccount,
  holdsAccount,
  type Posting,
  postingsOf,
  receivableAccount,
  serviceDebtAccount,
  serviceWalletAccount,
  walletAccount,
} from '../../domain/ledger/postings.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import {
  column,
  type ReadModel,
  type RowOf,
  type Rows,
  readTable,
} from '../../platform/projections/read-model.ts'
import {
  inDollars,
  type Report,
  recordedMs,
  recordViolation,
  rowKey,
  staleMs,
  subjectOf,
} from './invariant.ts'

/** The balances of an account's wallet in the books. Micro-dollars. */
export const walletsTable = readTable({
  name: 'audit_wallets',
  columns: {
    accountId: column.text(),
    /** The log has created the account. */
    created: column.boolean(),
    reseller: column.boolean(),
    available: column.bigint(),
    held: column.bigint(),
    receivable: column.bigint(),
    /** `assets:service-wallet` in the reseller's own book. */
    mirror: column.bigint(),
    /** `liabilities:service-debt` in the reseller's own book; above zero when the reseller owes money. */
    mirrorDebt: column.bigint(),
    /** The lowest available balance since `lowestSinceMs`, and that of a period of at least `staleMs` before it. */
    lowest: column.bigint(),
    lowestSinceMs: column.bigint(),
    lowestBefore: column.bigint(),
  },
  key: ['accountId'],
})
/** The balances of a customer's credit in the reseller's book. */
const creditsTable = readTable({
  name: 'audit_customer_credit',
  columns: {
    accountId: column.text(),
    customerId: column.text(),
    credit: column.bigint(),
    receivable: column.bigint(),
  },
  key: ['accountId', 'customerId'],
})

type WalletRow = RowOf<typeof walletsTable>
type LedgerRecord = RecordedEvent<LedgerEvent>

const emptyWallet = (accountId: string): WalletRow => ({
  accountId,
  created: false,
  reseller: false,
  available: 0,
  held: 0,
  receivable: 0,
  mirror: 0,
  mirrorDebt: 0,
  lowest: 0,
  lowestSinceMs: 0,
  lowestBefore: 0,
})

const withLowest = (previous: WalletRow, available: number, atMs: number): Partial<WalletRow> => {
  if (atMs - previous.lowestSinceMs <= staleMs) return { lowest: Math.min(previous.lowest, available) }
  return {
    lowest: Math.min(previous.available, available),
    lowestSinceMs: atMs,
    lowestBefore: previous.lowest,
  }
}

/** The lowest balance that a decision at this time can have read. It may be one from before `staleMs`. Micro-dollars. */
export const lowestMicros = (wallet: WalletRow | undefined, atMs: number): number => {
  if (wallet === undefined) return 0
  const { available, lowest, lowestSinceMs, lowestBefore } = wallet
  return atMs - lowestSinceMs > 2 * staleMs ? available : Math.min(lowest, lowestBefore)
}

/** A leg as a signed debit. */
const signedDebit = ({ debitMicros, creditMicros }: Posting): number => debitMicros - creditMicros

const sumOf = (postings: readonly Posting[], book: string, account: string): number =>
  postings.reduce(
    (sum, leg) => (leg.book === book && leg.account === account ? sum + signedDebit(leg) : sum),
    0,
  )

/** The first book of an entry with a sum other than zero; null without one. */
const unbalanced = (postings: readonly Posting[]): string | null => {
  const sums = new Map<string, bigint>()
  for (const leg of postings) sums.set(leg.book, (sums.get(leg.book) ?? 0n) + BigInt(signedDebit(leg)))
  return [...sums].find(([, sum]) => sum !== 0n)?.[0] ?? null
}

const checkWallet = ({ data }: LedgerRecord, wallet: WalletRow, report: Report): void => {
  const { availableAfterMicros } = data
  const { accountId: account, available, held, receivable, mirror, mirrorDebt } = wallet
  if (available !== availableAfterMicros)
    report(
      'wallet-balance',
      `it leaves ${inDollars(availableAfterMicros)} available as it says, but ${inDollars(available)} by its postings`,
    )
  if (availableAfterMicros < 0 || available < 0)
    report('wallet-below-zero', `the wallet of ${account} is below zero: ${inDollars(available)}`)
  if ('owedAfterMicros' in data && !('customerId' in data) && data.owedAfterMicros !== receivable)
    report(
      'wallet-debt',
      `it leaves a debt of ${inDollars(data.owedAfterMicros ?? 0)} as it says, but ${inDollars(receivable)} by its postings`,
    )
  if (held < 0) report('holds-below-zero', `the open holds of ${account} are below zero`)
  if (receivable < 0) report('debt-below-zero', `more than the debt of ${account} was paid`)
  if (available > 0 && receivable > 0)
    report(
      'money-beside-debt',
      `${account} has ${inDollars(available)} available although it owes ${inDollars(receivable)}`,
    )
  if (wallet.reseller && mirror !== available + held)
    report(
      'cross-book',
      `the wallet and holds of ${account} are ${inDollars(available + held)} in the service's book, its service wallet ${inDollars(mirror)} in its own`,
    )
  if (wallet.reseller && mirrorDebt !== receivable)
    report(
      'cross-book',
      `${account} owes ${inDollars(receivable)} in the service's book, ${inDollars(mirrorDebt)} in its own`,
    )
}

const checkCredit = (
  { data }: LedgerRecord,
  postings: readonly Posting[],
  accountId: AccountId,
  rows: Rows,
  report: Report,
): void => {
  if (!('creditAfterMicros' in data)) return
  const { customerId, creditAfterMicros } = data
  const book = resellerBook(accountId)
  const previous = rows.get(creditsTable, [accountId, customerId])
  const credit = (previous?.credit ?? 0) - sumOf(postings, book, customerAccount(customerId))
  const receivable =
    (previous?.receivable ?? 0) + sumOf(postings, book, customerReceivableAccount(customerId))
  if (credit !== creditAfterMicros)
    report(
      'customer-credit',
      `it leaves the customer ${inDollars(creditAfterMicros)} as it says, but ${inDollars(credit)} by its postings`,
    )
  if ('owedAfterMicros' in data && data.owedAfterMicros !== receivable)
    report(
      'customer-debt',
      `it leaves the customer a debt of ${inDollars(data.owedAfterMicros ?? 0)} as it says, but ${inDollars(receivable)} by its postings`,
    )
  if (creditAfterMicros < 0 || credit < 0)
    report('credit-below-zero', `the credit of ${customerId} is below zero`)
  if (receivable < 0) report('customer-debt-below-zero', `more than the debt of ${customerId} was paid`)
  if (credit > 0 && receivable > 0)
    report(
      'credit-beside-debt',
      `${customerId} has a credit of ${inDollars(credit)} although it owes ${inDollars(receivable)}`,
    )
  rows.put(creditsTable, {
    accountId,
    customerId,
    credit: creditAfterMicros,
    receivable,
  })
}

/**
 * Both books have the amounts that an event of an order for a customer moves. The reseller's cost is the service's
 * revenue. The booked margin equals price minus cost of the order.
 */
const checkMargin = (
  event: LedgerRecord,
  postings: readonly Posting[],
  accountId: AccountId,
  report: Report,
): void => {
  if (event.type !== 'CustomerCharged' && event.type !== 'CustomerRefunded') return
  const sign = event.type === 'CustomerCharged' ? 1 : -1
  const [movedRevenue, movedCost] = [sign * event.data.amountMicros, sign * event.data.costMicros]
  const book = resellerBook(accountId)
  const revenue = 0 - sumOf(postings, book, 'revenue:sales')
  const cost = sumOf(postings, book, 'expenses:cost-of-sales')
  const { family } = event.type === 'CustomerCharged' ? event.data.order : event.data
  const earned = 0 - sumOf(postings, serviceBook, `revenue:orders:${family}`)
  if (movedRevenue !== revenue || movedCost !== cost)
    report(
      'margin-books',
      `it moves revenue ${inDollars(movedRevenue)}, cost ${inDollars(movedCost)}, the reseller's book says revenue ${inDollars(revenue)}, cost ${inDollars(cost)}`,
    )
  else if (movedCost !== earned)
    report('margin-books', `it costs ${inDollars(movedCost)}, the service's book earns ${inDollars(earned)}`)
  if (event.type !== 'CustomerCharged') return
  const { amountCents, costCents = 0 } = event.data.order
  const expected = centsToMicros(amountCents - costCents)
  if (revenue - cost !== expected)
    report(
      'margin',
      `its margin is ${inDollars(expected)} by price and cost of the order, ${inDollars(revenue - cost)} by its postings`,
    )
}

const checkMoney = (event: LedgerRecord, accountId: AccountId, rows: Rows, report: Report): void => {
  const previous = rows.get(walletsTable, [accountId]) ?? emptyWallet(accountId)
  if (!previous.created)
    report('account-unknown', `there is no account ${accountId} at this place of the log`)
  // One wrong figure is one finding: later events are compared with the balance that this event claims.
  const available = event.data.availableAfterMicros
  let postings: readonly Posting[]
  try {
    postings = postingsOf(event, { accountId, reseller: previous.reseller })
  } catch (error) {
    report('postings', `it cannot be booked: ${(error as Error).message}`)
    rows.put(walletsTable, { ...previous, available, ...withLowest(previous, available, recordedMs(event)) })
    return
  }
  const unbalancedBook = unbalanced(postings)
  if (unbalancedBook !== null)
    report('postings', `its entry in the book ${unbalancedBook} does not sum to zero`)
  const ownBook = resellerBook(accountId)
  const wallet: WalletRow = {
    ...previous,
    available: previous.available - sumOf(postings, serviceBook, walletAccount(accountId)),
    held: previous.held - sumOf(postings, serviceBook, holdsAccount(accountId)),
    receivable: previous.receivable + sumOf(postings, serviceBook, receivableAccount(accountId)),
    mirror: previous.mirror + sumOf(postings, ownBook, serviceWalletAccount),
    mirrorDebt: previous.mirrorDebt - sumOf(postings, ownBook, serviceDebtAccount),
  }
  checkWallet(event, wallet, report)
  checkCredit(event, postings, accountId, rows, report)
  checkMargin(event, postings, accountId, report)
  rows.put(walletsTable, { ...wallet, available, ...withLowest(previous, available, recordedMs(event)) })
}

const isLedger = ({ stream }: RecordedEvent): boolean => stream.startsWith('ledger-')

/**
 * Money only moves on existing accounts. Every entry sums to zero in each of its books. Each balance that an event
 * claims equals the postings and is never below zero. Available money and a debt never exist together. The service's
 * book and the reseller's own book agree on the reseller's wallet and debt. Takes every event of a ledger, of any type.
 */
export const walletRules: ReadModel = {
  name: 'audit-wallets',
  version: 7,
  tables: [walletsTable, creditsTable],
  takes: { types: new Set(['AccountCreated']), streams: new Set(['ledger-']) },
  reads: (event) => {
    if (isLedger(event)) {
      const accountId = subjectOf(event)
      const { customerId } = event.data as { customerId?: string }
      const wallet = rowKey(walletsTable, accountId)
      return customerId == null ? [wallet] : [wallet, rowKey(creditsTable, accountId, customerId)]
    }
    return event.type === 'AccountCreated'
      ? [rowKey(walletsTable, (event.data as AccountCreated['data']).accountId)]
      : []
  },
  apply: (event, rows) => {
    const report: Report = (rule, problem) => recordViolation(rows, event, rule, problem)
    if (isLedger(event)) return checkMoney(event as LedgerRecord, subjectOf(event) as AccountId, rows, report)
    if (event.type !== 'AccountCreated') return
    const { accountId, reseller } = event.data as AccountCreated['data']
    const previous = rows.get(walletsTable, [accountId])
    if (event.stream !== `account-${accountId}`)
      report('account-elsewhere', `it makes the account ${accountId}`)
    if (previous?.created) report('account-twice', `account ${accountId} was made before`)
    rows.put(walletsTable, { ...(previous ?? emptyWallet(accountId)), created: true, reseller })
  },
}
