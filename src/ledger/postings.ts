import type { AccountId } from '../ids.ts'
import type { LedgerEvent, WalletAdjusted, WalletCredited } from './events.ts'
import { assertSafe } from './money.ts'
import { movementOf } from './movement.ts'

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

export const serviceBook = 'service'
export const resellerBook = (reseller: AccountId): string => `reseller:${reseller}`

/** The accounts that a wallet's events touch: the service's own, and those of a reseller's mirror book. */
export const walletAccount = (account: AccountId): string => `liabilities:wallet:${account}`
export const holdsAccount = (account: AccountId): string => `liabilities:holds:${account}`
export const receivableAccount = (account: AccountId): string => `assets:receivable:${account}`
export const serviceWalletAccount = 'assets:service-wallet'

/** A leg as a signed debit: below zero it is a credit. */
type Leg = readonly [account: string, debitMicros: number]

const required = (name: string | null, what: string): string => {
  if (name === null) throw new Error(`a money event without its ${what} cannot be booked`)
  return name
}

/** Where a credit comes from, seen from the service: a gateway's account, or the revenue that a refund takes back. */
const sourceAccount = ({ source, gateway, family }: WalletCredited['data']): string =>
  source === 'refund'
    ? `revenue:orders:${required(family, 'family')}`
    : `assets:gateway:${required(gateway, 'gateway')}`

const adjustmentAccount = ({ reason, gateway }: WalletAdjusted['data']): string =>
  reason === 'chargeback'
    ? `assets:gateway:${required(gateway, 'gateway')}`
    : `expenses:adjustments:${reason}`

/** The other side of the service's entry: what the event's amount comes from (a debit) or goes to (a credit). */
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
    case 'FundsHeld':
    case 'HoldReleased':
      return null
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

const serviceLegs = (event: LedgerEvent, account: AccountId): Leg[] => {
  const moved = movementOf(event)
  const other = counterpart(event)
  return [
    ...(other ? [other] : []),
    [walletAccount(account), -moved.availableMicros],
    [holdsAccount(account), -moved.heldMicros],
    [receivableAccount(account), moved.receivableMicros],
  ]
}

/** What the reseller used itself: above zero for a purchase, below for a refund of one. */
const ownUse = (event: LedgerEvent): number => {
  switch (event.type) {
    case 'WalletDebited':
    case 'HoldCaptured':
      return event.data.amountMicros
    case 'WalletCredited':
      return event.data.source === 'refund' ? -event.data.amountMicros : 0
    case 'WalletAdjusted':
    case 'FundsHeld':
    case 'HoldReleased':
      return 0
    default: {
      const unknown: never = event
      throw new Error(`unknown ledger event ${JSON.stringify(unknown)}`)
    }
  }
}

/**
 * The mirror in the reseller's own book: its `assets:service-wallet` moves as the service's wallet and holds do. What
 * is neither bought nor given back is funding; the part of a refund that paid a debt at the service is that too.
 */
const mirrorLegs = (event: LedgerEvent): Leg[] => {
  const { availableMicros, heldMicros } = movementOf(event)
  const walletMicros = availableMicros + heldMicros
  const usedMicros = ownUse(event)
  return [
    [serviceWalletAccount, walletMicros],
    ['expenses:own-use', usedMicros],
    ['equity:funding', -walletMicros - usedMicros],
  ]
}

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
 * The double entries of a money event, in the service's book and, for a reseller's wallet, in the reseller's own (design
 * section 4, table of flows). Each book sums to zero. This is the only place that knows the chart of accounts.
 * @throws when the event lacks what an account's name needs, or its entry does not balance.
 */
export const postingsOf = (event: LedgerEvent, { accountId, reseller }: LedgerOwner): readonly Posting[] => [
  ...toPostings(serviceBook, serviceLegs(event, accountId)),
  ...(reseller ? toPostings(resellerBook(accountId), mirrorLegs(event)) : []),
]
