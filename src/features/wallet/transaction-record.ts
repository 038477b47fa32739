import { z } from 'zod'
import type { TransactionRow } from '../../../projections/balances.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import { customerIdField } from '../accounts/index.ts'

export const transactionTypes = [
  'deposit',
  'credit',
  'refund',
  'correction',
  'goodwill',
  'bad_debt',
  'chargeback',
  'deposit_refund',
  'order',
  'hold',
  'release',
] as const satisfies readonly TransactionRow['type'][]

/** A movement of a wallet in the API and the console. */
export const Transaction = z
  .object({
    transactionId: z.string(),
    type: z.enum(transactionTypes),
    amountCents: z.int().meta({
      description:
        'The signed amount in whole cents. The sum of all `amountCents` and `owedChangeCents` is the balance.',
    }),
    amountMicros: z.int().meta({
      description: 'The signed amount in micro-dollars (10,000 micro-dollars are one cent).',
    }),
    balanceAfterCents: z.int(),
    balanceAfterMicros: z.int(),
    owedChangeCents: z.int().meta({
      description:
        'The change of the debt in whole cents. Above 0: this part of the amount was not covered by the balance and is owed. Below 0: this part of the amount paid a debt.',
    }),
    customerId: customerIdField,
    orderId: z.string().nullable(),
    depositId: z.string().nullable().meta({
      description:
        'The id of the deposit, for a deposit, for a chargeback or provider refund of it, and for the amount that a requested refund holds. Null: any other transaction.',
    }),
    scraper: z.string().nullable().meta({
      description:
        'The scraper of a hold or a release, as `platform/operation`. Null: a hold for a refund of a deposit, and any other transaction.',
    }),
    reference: z.string().nullable().meta({
      description:
        'The reference of a payment or a refund, or the text of an operator. For a hold: the `X-Request-Id` of the call, or the id of the refund.',
    }),
    createdAt: z.string().meta({ format: 'date-time' }),
  })
  .meta({ id: 'Transaction' })

export const publicTransaction = (row: TransactionRow): z.input<typeof Transaction> => {
  const balanceBeforeMicros = row.balanceAfterMicros - row.amountMicros - row.owedChangeMicros
  const balanceAfterCents = microsToCentsFloor(row.balanceAfterMicros)
  const owedChangeCents =
    microsToCentsCeil(row.owedAfterMicros) - microsToCentsCeil(row.owedAfterMicros - row.owedChangeMicros)
  return {
    transactionId: row.transactionId,
    type: row.type,
    amountCents: balanceAfterCents - microsToCentsFloor(balanceBeforeMicros) - owedChangeCents,
    amountMicros: row.amountMicros,
    balanceAfterCents,
    balanceAfterMicros: row.balanceAfterMicros,
    owedChangeCents,
    customerId: row.customerId,
    orderId: row.orderId,
    depositId: row.depositId,
    scraper: row.scraper,
    reference: row.reference,
    createdAt: row.createdAt,
  }
}
