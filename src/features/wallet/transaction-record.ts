import { z } from 'zod'
import type { TransactionRow } from '../../../projections/balances.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { customerIdField } from '../accounts/index.ts'

const transactionTypes = [
  'deposit',
  'credit',
  'refund',
  'correction',
  'goodwill',
  'chargeback',
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
      description: 'How the balance in whole cents moved, signed: these amounts add up to the balance.',
    }),
    amountMicros: z.int().meta({
      description:
        'How the balance moved, signed, in micro-dollars (10,000 are a cent). A credit that paid a debt moved it by less than was paid in; a capture does not move it, the hold did.',
    }),
    balanceAfterCents: z.int(),
    balanceAfterMicros: z.int(),
    customerId: customerIdField,
    orderId: z.string().nullable(),
    depositId: z
      .string()
      .nullable()
      .meta({ description: 'Of a deposit, and of a chargeback that takes one back.' }),
    scraper: z
      .string()
      .nullable()
      .meta({ description: 'Of a hold, a capture and a release: platform/operation.' }),
    reference: z.string().nullable().meta({
      description:
        'Of a payment, a refund, or what an operator wrote; of a hold, the X-Request-Id of its call.',
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
