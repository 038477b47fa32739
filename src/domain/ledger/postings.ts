import type { AccountId } from '../../kernel/ids.ts'
import { assertSafe } from '../../kernel/money.ts'
import { isAtGateway } from './adjustment-reasons.ts'
import { resellerBook, serviceBook } from './books.ts'
import type { CustomerEvent, LedgerEvent, WalletAdjusted, WalletCredited } from './events.ts'
import { customerMovementOf, movementOf } from './movements.ts'
import type { StatementLineEvent } from './statement-lines.ts'

/**
 * One leg of a double entry. `book` is `service` or `reseller:{account}`. Exactly one of the two amounts is above zero.
 */
export type Posting = {
  readonly book: string
  readonly account: string
  readonly debitMicros: number
  readonly creditMicros: number
}

export type LedgerOwner = { readonly accountId: AccountId; readonly reseller: boolean }

/** The accounts that a wallet's events use: the service's own, and those of the mirror in a reseller's book. */
export const walletAccount = (account: AccountId): string => `liabilities:wallet:${account}`
export const holdsAccount = (account: AccountId): string => `liabilities:holds:${account}`
export const receivableAccount = (account: AccountId): string => `assets:receivable:${account}`
/**
 * What a payment gateway owes. The service's gateways are identified by name, a reseller's by the reference of its
 * credentials, `crd_…`.
 */
export const gatewayAccount = (gateway: string): string => `assets:gateway:${gateway}`
/** Payments that were received elsewhere, such as bank transfers: no provider holds them. */
export const elsewhereAccount = gatewayAccount('manual')
/** Debts of accounts that are written off. */
export const badDebtsAccount = 'expenses:bad-debts'
/** The fees of the providers, by gateway, and the account that they pay out to. */
export const gatewayFeesAccount = (gateway: string): string => `expenses:gateway-fees:${gateway}`
export const bankAccount = 'assets:bank'
export const serviceWalletAccount = 'assets:service-wallet'
/** The reseller's debt to the service after a chargeback, in the reseller's book. */
export const serviceDebtAccount = 'liabilities:service-debt'
/** What a reseller's owner paid in: deposits and manual credits, less chargebacks and refunds. */
export const fundingAccount = 'equity:funding'
/** Manual adjustments by the service, in the reseller's book. In the service's book they are an expense. */
export const adjustmentRevenueAccount = (reason: string): string => `revenue:adjustments:${reason}`
/** The accounts of a customer, in the reseller's book. */
export const customerAccount = (customer: string): string => `liabilities:customer:${customer}`
export const customerReceivableAccount = (customer: string): string =>
  `assets:receivable:customer:${customer}`

/** A leg as a signed debit. A negative debit is a credit. */
type Leg = readonly [account: string, debitMicros: number]

const required = (name: string | null, what: string): string => {
  if (name === null) throw new Error(`a money event without its ${what} cannot be booked`)
  return name
}

/** The source of a credit in the service's book: a gateway's account, or the revenue that a refund takes back. */
const sourceAccount = ({ source, gateway, family }: WalletCredited['data']): string =>
  source === 'refund'
    ? `revenue:orders:${required(family, 'family')}`
    : gatewayAccount(required(gateway, 'gateway'))

const adjustmentAccount = ({
  reason,
  gateway,
}: Pick<WalletAdjusted['data'], 'reason' | 'gateway'>): string => {
  if (reason === 'bad_debt') return badDebtsAccount
  return isAtGateway(reason) ? gatewayAccount(required(gateway, 'gateway')) : `expenses:adjustments:${reason}`
}

/**
 * The counterpart leg in the service's book: the source of the event's amount (a debit) or its destination (a credit).
 */
const counterpart = (event: LedgerEvent): Leg | null => {
  switch (event.type) {
    case 'WalletCredited':
      return [sourceAccount(event.data), event.data.amountMicros]
    case 'WalletAdjusted':
      return [adjustmentAccount(event.data), event.data.amountMicros]
    case 'WalletDebited':
      return [`revenue:orders:${event.data.order.family}`, -event.data.amountMicros]
    case 'HoldCaptured':
      return [`revenue:scrapes:${event.data.platform}`, -event.data.amountMicros]
    case 'CustomerCharged':
      return [`revenue:orders:${event.data.order.family}`, -event.data.costMicros]
    case 'CustomerRefunded':
      return [`revenue:orders:${event.data.family}`, event.data.costMicros]
    case 'FundsHeld':
    case 'HoldReleased':
    case 'CustomerCredited':
    case 'CustomerAdjusted':
      return null
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

const serviceLegs = (event: LedgerEvent, account: AccountId): Leg[] => {
  const movement = movementOf(event)
  const other = counterpart(event)
  return [
    ...(other ? [other] : []),
    [walletAccount(account), -movement.availableMicros],
    [holdsAccount(account), -movement.heldMicros],
    [receivableAccount(account), movement.receivableMicros],
  ]
}

/** What the reseller bought from the service: positive for a purchase, negative for its refund. */
const purchaseLeg = (event: LedgerEvent): Leg => {
  switch (event.type) {
    case 'WalletDebited':
    case 'HoldCaptured':
      return ['expenses:own-use', event.data.amountMicros]
    case 'WalletCredited':
      return ['expenses:own-use', event.data.source === 'refund' ? -event.data.amountMicros : 0]
    case 'CustomerCharged':
      return ['expenses:cost-of-sales', event.data.costMicros]
    case 'CustomerRefunded':
      return ['expenses:cost-of-sales', -event.data.costMicros]
    case 'WalletAdjusted':
    case 'FundsHeld':
    case 'HoldReleased':
    case 'CustomerCredited':
    case 'CustomerAdjusted':
      return ['expenses:own-use', 0]
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The reseller's account for amounts that are neither a purchase nor a refund. A gift of the service is not funding by
 * the owner.
 */
const fundingSource = (event: LedgerEvent): string =>
  event.type === 'WalletAdjusted' && !isAtGateway(event.data.reason)
    ? adjustmentRevenueAccount(event.data.reason)
    : fundingAccount

/**
 * The mirror in the reseller's own book. Its `assets:service-wallet` moves like the service's wallet and holds, and its
 * `liabilities:service-debt` like the debt in the service's book. The rest, neither bought nor refunded, is funding.
 */
const mirrorLegs = (event: LedgerEvent): Leg[] => {
  const { availableMicros, heldMicros, receivableMicros } = movementOf(event)
  const walletMicros = availableMicros + heldMicros
  const purchase = purchaseLeg(event)
  return [
    [serviceWalletAccount, walletMicros],
    [serviceDebtAccount, 0 - receivableMicros],
    purchase,
    [fundingSource(event), receivableMicros - walletMicros - purchase[1]],
  ]
}

/** The counterpart account of a change of a customer's credit, in the reseller's book. */
const customerCounterpart = (event: CustomerEvent): string => {
  switch (event.type) {
    case 'CustomerCredited':
      return gatewayAccount(event.data.gateway)
    case 'CustomerCharged':
    case 'CustomerRefunded':
      return 'revenue:sales'
    case 'CustomerAdjusted': {
      const { reason, gateway } = event.data
      return reason === 'payment' ? elsewhereAccount : adjustmentAccount({ reason, gateway })
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown customer event ${JSON.stringify(unknown)}`)
    }
  }
}

const customerLegs = (event: CustomerEvent): Leg[] => {
  const { customerId } = event.data
  const { availableMicros: creditMicros, receivableMicros } = customerMovementOf(event)
  return [
    [customerCounterpart(event), creditMicros - receivableMicros],
    [customerAccount(customerId), -creditMicros],
    [customerReceivableAccount(customerId), receivableMicros],
  ]
}

const isCustomerEvent = (event: LedgerEvent): event is CustomerEvent => 'customerId' in event.data

const resellerLegs = (event: LedgerEvent): Leg[] =>
  isCustomerEvent(event) ? [...customerLegs(event), ...mirrorLegs(event)] : mirrorLegs(event)

const toPostings = (book: string, legs: readonly Leg[]): Posting[] => {
  const sum = legs.reduce((total, [, debit]) => total + BigInt(assertSafe(debit, 'a posting')), 0n)
  if (sum !== 0n) throw new Error(`an entry in the book ${book} is off by ${sum} micro-dollars`)
  return legs
    .filter(([, debit]) => debit !== 0)
    .map(([account, debit]) => ({
      book,
      account,
      debitMicros: Math.max(debit, 0),
      creditMicros: Math.max(-debit, 0),
    }))
}

/**
 * The double entries of a money event: in the service's book and, for a reseller's wallet, in the reseller's own book.
 * Each book sums to zero. Only this module contains the chart of accounts.
 * @throws if the event lacks a part of an account's name, if its entry does not balance, or if an account that is not a
 * reseller has customers
 */
export const postingsOf = (event: LedgerEvent, { accountId, reseller }: LedgerOwner): readonly Posting[] => {
  if (!reseller && isCustomerEvent(event))
    throw new Error(`${event.type} in the ledger of ${accountId}, which is no reseller`)
  return [
    ...toPostings(serviceBook, serviceLegs(event, accountId)),
    ...(reseller ? toPostings(resellerBook(accountId), resellerLegs(event)) : []),
  ]
}

/** The entry of a line of a statement, or of its correction, in the service's book: what left the gateway as a fee or to the bank. */
export const statementPostings = ({ data }: StatementLineEvent): readonly Posting[] => {
  const { gateway, feeMicros, payoutMicros } = data
  return toPostings(serviceBook, [
    [gatewayAccount(gateway), 0 - feeMicros - payoutMicros],
    [gatewayFeesAccount(gateway), feeMicros],
    [bankAccount, payoutMicros],
  ])
}
