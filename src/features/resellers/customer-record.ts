import { z } from 'zod'
import type { CustomerRow } from '../../../projections/resellers.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { positionField } from '../../platform/http/query.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CustomerRecord } from '../accounts/index.ts'

const cents = z.int()
const currency = z.literal('USD')
const instant = z.string().meta({ format: 'date-time' })

/** The chat of a customer with a messaging bot: a chat number, a channel's @name, or empty. */
export const chatForm = /^(-?\d{1,20}|@[A-Za-z0-9_]{5,32}|)$/

/** The longest label and chat id, characters. */
export const maxLabelLength = 64

export const ResellerCustomer = z
  .object({
    customerId: z.string(),
    customer: z.string().nullable().meta({ description: 'Your own id of it; null once it was erased.' }),
    label: z.string().nullable(),
    botChatId: z.string().nullable().meta({ description: 'Where your messaging bot reaches it.' }),
    creditCents: cents.meta({ description: 'What it can spend.' }),
    owedCents: cents.meta({ description: 'What a chargeback left owing; the next payments pay it first.' }),
    currency,
    totals: z.object({
      orders: z.int(),
      depositedCents: cents.meta({ description: 'What it paid at your gateways.' }),
      refundedCents: cents.meta({ description: 'What came back to its credit.' }),
      revenueCents: cents.meta({ description: 'Its prices, less refunds.' }),
      costCents: cents.meta({ description: 'What you paid for that, less refunds.' }),
      marginCents: cents.meta({ description: 'revenueCents less costCents.' }),
    }),
    createdAt: instant,
  })
  .meta({ id: 'ResellerCustomer' })

/** A customer from the vault and, after its first money movement, from its row. */
export const customerRecord = (
  { customerId, ref, label, chatId, createdAt }: CustomerRecord,
  row: CustomerRow | undefined,
): z.infer<typeof ResellerCustomer> => {
  const centsOf = (micros: number | undefined): number => microsToCentsFloor(micros ?? 0)
  const refundedCents = centsOf(row?.refundedMicros)
  const revenueCents = centsOf(row?.chargedMicros) - refundedCents
  const costCents = centsOf(row?.costMicros) - centsOf(row?.refundedCostMicros)
  return {
    customerId,
    customer: ref,
    label,
    botChatId: chatId,
    creditCents: centsOf(row?.creditMicros),
    owedCents: centsOf(row?.receivableMicros),
    currency: 'USD',
    totals: {
      orders: row?.orders ?? 0,
      depositedCents: centsOf(row?.depositedMicros),
      refundedCents,
      revenueCents,
      costCents,
      marginCents: revenueCents - costCents,
    },
    createdAt,
  }
}

export const customerExample: z.infer<typeof ResellerCustomer> = {
  customerId: 'cus_9f3c2a1b5e6d4f708192a3b4c5d6e7f8',
  customer: 'alice-17',
  label: 'Alice',
  botChatId: '123456789',
  creditCents: 1250,
  owedCents: 0,
  currency: 'USD',
  totals: {
    orders: 3,
    depositedCents: 5000,
    refundedCents: 0,
    revenueCents: 3750,
    costCents: 2520,
    marginCents: 1230,
  },
  createdAt: '2026-11-21T02:30:00.000Z',
}

const amountFields = {
  orders: z.int().meta({ description: 'How many sales.' }),
  revenueCents: cents.meta({ description: 'What customers were charged, less refunds.' }),
  costCents: cents.meta({ description: 'What your wallet paid for it, less refunds.' }),
  marginCents: cents.meta({ description: 'revenueCents less costCents; may be negative.' }),
}

export const MarginList = z.object({
  margins: z.array(
    z
      .object({
        key: z.string().meta({ description: 'The day (UTC), product or customer.' }),
        ...amountFields,
        currency,
        customer: z.string().nullable().optional().meta({
          description: 'By customer only: your own id of it; null once it was erased.',
        }),
      })
      .meta({ id: 'Margin' }),
  ),
})

export const marginExample = {
  key: '2026-11-21',
  orders: 3,
  revenueCents: 3750,
  costCents: 2520,
  marginCents: 1230,
  currency: 'USD',
} as const

const Line = z
  .object({
    at: instant,
    type: z.enum(['sale', 'refund']),
    orderId: z.string(),
    refundId: z.string().nullable(),
    customerId: z.string(),
    customer: z.string().nullable().meta({ description: 'Your own id of it; null once it was erased.' }),
    productId: z.string(),
    quantity: z.int().meta({ description: 'Of the order.' }),
    revenueCents: cents,
    costCents: cents,
    marginCents: cents,
    currency,
    eventId: z.string().meta({ description: 'The event that moved the money.' }),
    eventType: z.enum(['CustomerCharged', 'CustomerRefunded']),
    position: positionField("The event's place in the log."),
  })
  .meta({ id: 'StatementLine' })

export const Statement = z
  .object({
    from: instant.nullable(),
    to: instant.nullable(),
    currency,
    totals: z.object(amountFields).meta({ description: 'Of the whole period, on every page.' }),
    lines: z.array(Line),
    nextAfter: z
      .string()
      .nullable()
      .meta({ description: 'Send it as `after` for the lines that follow; null when there are none.' }),
  })
  .meta({ id: 'Statement' })

export const lineExample: z.infer<typeof Line> = {
  at: '2026-11-21T02:30:00.000Z',
  type: 'sale',
  orderId: 'ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718',
  refundId: null,
  customerId: 'cus_9f3c2a1b5e6d4f708192a3b4c5d6e7f8',
  customer: 'alice-17',
  productId: 'isp-static',
  quantity: 2,
  revenueCents: 728,
  costCents: 490,
  marginCents: 238,
  currency: 'USD',
  eventId: '0199f3b2-c1d0-7a3e-9b1f-2c4d5e6f7a8b',
  eventType: 'CustomerCharged',
  position: positionToken(4711),
}

/** Customers of a reseller with their credit and totals, in the given order. */
export const customerRecords = async (
  db: Db,
  reseller: AccountId,
  customers: readonly CustomerRecord[],
): Promise<readonly z.infer<typeof ResellerCustomer>[]> => {
  const rows =
    customers.length === 0
      ? []
      : await db
          .selectFrom('read.customers')
          .selectAll()
          .where('accountId', '=', reseller)
          .where(
            'customerId',
            'in',
            customers.map(({ customerId }) => customerId),
          )
          .execute()
  const rowsById = new Map(rows.map((row) => [row.customerId, row]))
  return customers.map((customer) => customerRecord(customer, rowsById.get(customer.customerId)))
}
