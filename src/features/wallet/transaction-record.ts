import { z } from 'zod'
import type { TransactionRow } from '../../../projections/balances.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { customerIdField } from '../accounts/index.ts'

export const transactionTypes = [
  'deposit',
  'credit',
  'refund',
  'correction',
  'goodwill',
  'chargeback',
  'deposit_refund',
  'order',
  'hold',
  'capture',
  'release',
] as const satisfies readonly TransactionRow['type'][]

/** A movement of a wallet in the API and the console. */
export const Transaction = z
  .object({
    transactionId: z.string(),
    type: z.enum(transactionTypes),
    amountCents: z.int().meta({
      description:
        'The signed change of the balance in whole cents. The sum of these amounts is the balance.',
    }),
    amountMicros: z.int().meta({
      description:
        'The signed change of the balance in micro-dollars (10,000 micro-dollars are one cent). A credit that pays a debt changes the balance by less than the paid amount. A capture does not change the balance, because its hold already did.',
    }),
    balanceAfterCents: z.int(),
    balanceAfterMicros: z.int(),
    customerId: customerIdField,
    orderId: z.string().nullable(),
    depositId: z.string().nullable().meta({
      description:
        'The id of the deposit, for a deposit, for a chargeback or provider refund of it, and for the amount that a requested refund holds. Null: any other transaction.',
    }),
    scraper: z.string().nullable().meta({
      description:
        'The scraper of a hold, a capture or a release, as `platform/operation`. Null: a hold for a refund of a deposit, and any other transaction.',
    }),
    reference: z.string().nullable().meta({
      description:
        'The reference of a payment or a refund, or the text of an operator. For a hold: the `X-Request-Id` of the call, or the id of the refund.',
    }),
    createdAt: z.string().meta({ format: 'date-time' }),
  })
  .meta({ id: 'Transaction' })

export const publicTransaction = (row: TransactionRow): z.input<typeof Transaction> => {
  const balanceAfterCents = microsToCentsFloor(row.balanceAfterMicros)
  return {
    transactionId: row.transactionId,
    type: row.type,
    amountCents: balanceAfterCents - microsToCentsFloor(row.balanceAfterMicros - row.amountMicros),
    amountMicros: row.amountMicros,
    balanceAfterCents,
    balanceAfterMicros: row.balanceAfterMicros,
    customerId: row.customerId,
    orderId: row.orderId,
    depositId: row.depositId,
    scraper: row.scraper,
    reference: row.reference,
    createdAt: row.createdAt,
  }
}
