import { positionToken } from '../../terms/position.ts'
import { plainDollars } from '../finance/amounts.ts'
import { csvField } from '../finance/csv.ts'
import { type ExportHead, type JournalWriter, legsByBook } from './format.ts'

const columns = [
  'position',
  'time',
  'event',
  'type',
  'book',
  'account',
  'debit',
  'credit',
  'currency',
  'owner',
  'order',
  'customer',
  'deposit',
  'reference',
  'gateway',
] as const

/**
 * One line a posting, RFC 4180 with LF; exact dollars with six decimals, in the column of its side. `jsonl` has texts as
 * they are.
 */
export const csvWriter = ({ book: only, gatewayOf }: ExportHead): JournalWriter => ({
  head: () => `${columns.join(',')}\n`,
  entry: (entry) => {
    const { position, at, eventId, type, accountId, orderId, customerId, depositId, reference } = entry
    const before = `${positionToken(position)},${at},${eventId},${csvField(type)}`
    const after = `USD,${accountId ?? ''},${orderId ?? ''},${customerId ?? ''},${depositId ?? ''},${csvField(reference)}`
    let text = ''
    for (const legs of legsByBook(entry, only).values())
      for (const { book, account, amountMicros } of legs) {
        const debit = amountMicros > 0 ? plainDollars(BigInt(amountMicros)) : ''
        const credit = amountMicros < 0 ? plainDollars(BigInt(-amountMicros)) : ''
        text += `${before},${csvField(book)},${csvField(account)},${debit},${credit},${after},${csvField(gatewayOf(account))}\n`
      }
    return text
  },
  end: () => '',
})
