import { isAtGateway } from '../ledger/adjustment-reasons.ts'
import type { CustomerAdjusted, LedgerEvent, WalletAdjusted } from '../ledger/events.ts'
import type { StatementLineEvent } from '../ledger/statement-lines.ts'

/** What an entry is, in the words of an accountant, and what each word means. */
export const entryKinds = {
  deposit: 'a payment at a payment provider',
  payment_elsewhere: 'a payment that was received elsewhere, such as a bank transfer',
  order: 'a sale',
  order_refund: 'a refund of an order',
  refund: 'a refund of a payment to the payer',
  refund_reversal: 'a refund of a payment that failed',
  dispute: "a payment that the payer's bank took back",
  dispute_reversal: 'the part of a dispute that came back',
  goodwill: 'a gift',
  correction: 'a correction by hand',
  bad_debt: 'a debt that is written off',
  hold: 'an amount that is reserved for a scrape, or for a refund to the payer',
  hold_release: 'a reserved amount that is given back',
  scrape: 'a billed scrape',
  fee: 'a fee of a payment provider',
  payout: 'a payout of a payment provider to the bank',
  payout_reversal: 'a payout that came back',
  statement_correction: 'a correction of a fee or a payout',
} as const
export type EntryKind = keyof typeof entryKinds

/** The word for people: `order_refund` is `order refund`. */
export const kindText = (kind: EntryKind): string => kind.replaceAll('_', ' ')

const kindOfAdjustment = ({ data }: WalletAdjusted | CustomerAdjusted): EntryKind => {
  const { reason, amountMicros } = data
  if (reason === 'payment') return 'payment_elsewhere'
  if (!isAtGateway(reason)) return reason
  const kind = reason === 'chargeback' ? 'dispute' : 'refund'
  return amountMicros < 0 ? kind : `${kind}_reversal`
}

export const entryKindOf = (event: LedgerEvent | StatementLineEvent): EntryKind => {
  switch (event.type) {
    case 'WalletCredited':
      if (event.data.source === 'refund') return 'order_refund'
      return event.data.source === 'manual' ? 'payment_elsewhere' : 'deposit'
    case 'CustomerCredited':
      return 'deposit'
    case 'WalletAdjusted':
    case 'CustomerAdjusted':
      return kindOfAdjustment(event)
    case 'WalletDebited':
    case 'CustomerCharged':
      return 'order'
    case 'CustomerRefunded':
      return 'order_refund'
    case 'FundsHeld':
      return 'hold'
    case 'HoldCaptured':
      return 'scrape'
    case 'HoldReleased':
      return 'hold_release'
    case 'StatementLineBooked':
      if (event.data.payoutMicros === 0) return 'fee'
      return event.data.payoutMicros > 0 ? 'payout' : 'payout_reversal'
    case 'StatementLineCorrected':
      return 'statement_correction'
    default: {
      const unknown: never = event
      throw new Error(`unknown money event ${JSON.stringify(unknown)}`)
    }
  }
}
