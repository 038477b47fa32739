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
import type { ReadModel, Rows, Table } from '../../platform/projections/read-model.ts'
import { inDollars, recordViolation } from './violation.ts'

/** The balances of an account's wallet in the books. Micro-dollars. */
type WalletRow = {
  account_id: string
  /** The log has created the account. */
  created: boolean
  reseller: boolean
  available: number
  held: number
  receivable: number
  /** `assets:service-wallet` in the reseller's own book. */
  mirror: number
  /** `liabilities:service-debt` in the reseller's own book; above zero when the reseller owes money. */
  mirror_debt: number
}

/** The balances of a customer's credit in the reseller's book. */
type CreditRow = { account_id: string; customer_id: string; credit: number; receivable: number }

const walletsTable: Table<WalletRow> = {
  name: 'audit_wallets',
  columns: {
    account_id: { type: 'text' },
    created: { type: 'boolean' },
    reseller: { type: 'boolean' },
    available: { type: 'bigint' },
    held: { type: 'bigint' },
    receivable: { type: 'bigint' },
    mirror: { type: 'bigint' },
    mirror_debt: { type: 'bigint' },
  },
  key: ['account_id'],
  indexes: [],
}

const creditsTable: Table<CreditRow> = {
  name: 'audit_customer_credit',
  columns: {
    account_id: { type: 'text' },
    customer_id: { type: 'text' },
    credit: { type: 'bigint' },
    receivable: { type: 'bigint' },
  },
  key: ['account_id', 'customer_id'],
  indexes: [],
}

const ledgerPrefix = 'ledger-'
const accountPrefix = 'account-'
const ownerOf = ({ stream }: RecordedEvent): AccountId | null =>
  stream.startsWith(ledgerPrefix) ? (stream.slice(ledgerPrefix.length) as AccountId) : null

const customerOf = (event: RecordedEvent): string | null =>
  (event.data as { customerId?: string }).customerId ?? null

const emptyWallet = (accountId: string): WalletRow => ({
  account_id: accountId,
  created: false,
  reseller: false,
  available: 0,
  held: 0,
  receivable: 0,
  mirror: 0,
  mirror_debt: 0,
})

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

const checkWallet = (event: RecordedEvent<LedgerEvent>, rows: Rows, wallet: WalletRow): void => {
  const report = (rule: string, problem: string): void => recordViolation(rows, event, rule, problem)
  const { availableAfterMicros } = event.data
  if (wallet.available !== availableAfterMicros)
    report(
      'wallet-balance',
      `it leaves ${inDollars(availableAfterMicros)} available as it says, but ${inDollars(wallet.available)} by its postings`,
    )
  if (availableAfterMicros < 0 || wallet.available < 0)
    report(
      'wallet-below-zero',
      `the wallet of ${wallet.account_id} is below zero: ${inDollars(wallet.available)}`,
    )
  if (wallet.held < 0) report('holds-below-zero', `the open holds of ${wallet.account_id} are below zero`)
  if (wallet.receivable < 0) report('debt-below-zero', `more than the debt of ${wallet.account_id} was paid`)
  if (wallet.reseller && wallet.mirror !== wallet.available + wallet.held)
    report(
      'cross-book',
      `the wallet and holds of ${wallet.account_id} are ${inDollars(wallet.available + wallet.held)} in the service's book, its service wallet ${inDollars(wallet.mirror)} in its own`,
    )
  if (wallet.reseller && wallet.mirror_debt !== wallet.receivable)
    report(
      'cross-book',
      `${wallet.account_id} owes ${inDollars(wallet.receivable)} in the service's book, ${inDollars(wallet.mirror_debt)} in its own`,
    )
}

const checkCredit = (
  event: RecordedEvent<LedgerEvent>,
  rows: Rows,
  postings: readonly Posting[],
  accountId: AccountId,
): void => {
  if (!('creditAfterMicros' in event.data)) return
  const { customerId, creditAfterMicros } = event.data
  const book = resellerBook(accountId)
  const previous = rows.get(creditsTable, [accountId, customerId])
  const credit = (previous?.credit ?? 0) - sumOf(postings, book, customerAccount(customerId))
  const receivable =
    (previous?.receivable ?? 0) + sumOf(postings, book, customerReceivableAccount(customerId))
  if (credit !== creditAfterMicros)
    recordViolation(
      rows,
      event,
      'customer-credit',
      `it leaves the customer ${inDollars(creditAfterMicros)} as it says, but ${inDollars(credit)} by its postings`,
    )
  if (creditAfterMicros < 0 || credit < 0)
    recordViolation(rows, event, 'credit-below-zero', `the credit of ${customerId} is below zero`)
  if (receivable < 0)
    recordViolation(rows, event, 'customer-debt-below-zero', `more than the debt of ${customerId} was paid`)
  rows.put(creditsTable, {
    account_id: accountId,
    customer_id: customerId,
    credit: creditAfterMicros,
    receivable,
  })
}

/** The booked margin equals price minus cost of the order. */
const checkMargin = (event: RecordedEvent<LedgerEvent>, rows: Rows, postings: readonly Posting[]): void => {
  if (event.type !== 'CustomerCharged') return
  const { order } = event.data
  const book = resellerBook(ownerOf(event)!)
  const bookedMargin =
    -sumOf(postings, book, 'revenue:sales') - sumOf(postings, book, 'expenses:cost-of-sales')
  const expectedMargin = centsToMicros(order.amountCents - (order.costCents ?? 0))
  if (bookedMargin !== expectedMargin)
    recordViolation(
      rows,
      event,
      'margin',
      `its margin is ${inDollars(expectedMargin)} by price and cost of the order, ${inDollars(bookedMargin)} by its postings`,
    )
}

const applyMoney = (event: RecordedEvent<LedgerEvent>, accountId: AccountId, rows: Rows): void => {
  const previous = rows.get(walletsTable, [accountId]) ?? emptyWallet(accountId)
  if (!previous.created)
    recordViolation(
      rows,
      event,
      'account-unknown',
      `there is no account ${accountId} at this place of the log`,
    )
  let postings: readonly Posting[]
  try {
    postings = postingsOf(event, { accountId, reseller: previous.reseller })
  } catch (error) {
    recordViolation(rows, event, 'postings', `it cannot be booked: ${(error as Error).message}`)
    rows.put(walletsTable, { ...previous, available: event.data.availableAfterMicros })
    return
  }
  const unbalancedBook = unbalanced(postings)
  if (unbalancedBook !== null)
    recordViolation(rows, event, 'postings', `its entry in the book ${unbalancedBook} does not sum to zero`)
  const wallet: WalletRow = {
    ...previous,
    available: previous.available - sumOf(postings, serviceBook, walletAccount(accountId)),
    held: previous.held - sumOf(postings, serviceBook, holdsAccount(accountId)),
    receivable: previous.receivable + sumOf(postings, serviceBook, receivableAccount(accountId)),
    mirror: previous.mirror + sumOf(postings, resellerBook(accountId), serviceWalletAccount),
    mirror_debt: previous.mirror_debt - sumOf(postings, resellerBook(accountId), serviceDebtAccount),
  }
  checkWallet(event, rows, wallet)
  checkCredit(event, rows, postings, accountId)
  checkMargin(event, rows, postings)
  // One wrong figure is one finding: later events are compared with the balance that this event claims.
  rows.put(walletsTable, { ...wallet, available: event.data.availableAfterMicros })
}

/**
 * Money only moves on existing accounts. Every entry sums to zero in each of its books. Each balance that an event
 * claims equals the postings and is never below zero. The service's book and the reseller's own book agree on the
 * reseller's wallet and debt.
 */
export const walletRules: ReadModel = {
  name: 'audit-wallets',
  version: 2,
  tables: [walletsTable, creditsTable],
  takes: { types: new Set(['AccountCreated']), streams: new Set([ledgerPrefix]) },
  reads: (event) => {
    if (event.type === 'AccountCreated')
      return [{ table: walletsTable.name, key: [(event.data as AccountCreated['data']).accountId] }]
    const accountId = ownerOf(event)
    if (accountId === null) return []
    const customerId = customerOf(event)
    const wallet = { table: walletsTable.name, key: [accountId] }
    return customerId === null
      ? [wallet]
      : [wallet, { table: creditsTable.name, key: [accountId, customerId] }]
  },
  apply: (event, rows) => {
    const accountId = ownerOf(event)
    if (accountId !== null) return applyMoney(event as RecordedEvent<LedgerEvent>, accountId, rows)
    if (event.type !== 'AccountCreated') return
    const { accountId: createdId, reseller } = event.data as AccountCreated['data']
    const previous = rows.get(walletsTable, [createdId])
    if (event.stream !== `${accountPrefix}${createdId}`)
      recordViolation(rows, event, 'account-elsewhere', `it makes the account ${createdId}`)
    if (previous?.created)
      recordViolation(rows, event, 'account-twice', `account ${createdId} was made before`)
    rows.put(walletsTable, { ...(previous ?? emptyWallet(createdId)), created: true, reseller })
  },
}
