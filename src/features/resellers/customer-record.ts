import { z } from 'zod'
import type { CustomerRow } from '../../../projections/resellers.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
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
    customer: z
      .string()
      .nullable()
      .meta({ description: 'Your own id of the customer. Null: the id was erased.' }),
    label: z.string().nullable(),
    botChatId: z
      .string()
      .nullable()
      .meta({ description: 'The chat in which your messaging bot reaches the customer. Null: no chat.' }),
    creditCents: cents.meta({ description: 'The available credit of the customer, in whole cents.' }),
    owedCents: cents.meta({
      description:
        'The debt of the customer after a chargeback, in whole cents. The next payments of the customer pay this debt first.',
    }),
    currency,
    totals: z.object({
      orders: z.int(),
      depositedCents: cents.meta({
        description: "The sum of the customer's payments at your gateways, in whole cents.",
      }),
      refundedCents: cents.meta({
        description: "The sum of the refunds to the customer's credit, in whole cents.",
      }),
      revenueCents: cents.meta({
        description: 'The sum of the prices that the customer paid, minus refunds, in whole cents.',
      }),
      costCents: cents.meta({
        description: "The sum of your costs for the customer's orders, minus refunds, in whole cents.",
      }),
      marginCents: cents.meta({ description: '`revenueCents` minus `costCents`.' }),
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
    owedCents: microsToCentsCeil(row?.receivableMicros ?? 0),
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
  orders: z.int().meta({ description: 'The number of sales.' }),
  revenueCents: cents.meta({
    description: 'The sum that customers were charged, minus refunds, in whole cents.',
  }),
  costCents: cents.meta({
    description: 'The sum that your wallet paid for the sales, minus refunds, in whole cents.',
  }),
  marginCents: cents.meta({ description: '`revenueCents` minus `costCents`. The margin can be negative.' }),
}

export const MarginList = z.object({
  margins: z.array(
    z
      .object({
        key: z
          .string()
          .meta({ description: 'The key of the row: a day (UTC), a product id or a customer id.' }),
        ...amountFields,
        currency,
        customer: z.string().nullable().optional().meta({
          description: 'Only for margins by customer: your own id of the customer. Null: the id was erased.',
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
    customer: z
      .string()
      .nullable()
      .meta({ description: 'Your own id of the customer. Null: the id was erased.' }),
    productId: z.string(),
    quantity: z.int().meta({ description: 'The quantity of the order.' }),
    revenueCents: cents,
    costCents: cents,
    marginCents: cents,
    currency,
    eventId: z.string().meta({ description: 'The id of the event that moved the money.' }),
    eventType: z.enum(['CustomerCharged', 'CustomerRefunded']),
    position: positionField("The event's place in the log."),
  })
  .meta({ id: 'StatementLine' })

export const Statement = z
  .object({
    from: instant.nullable(),
    to: instant.nullable(),
    currency,
    totals: z
      .object(amountFields)
      .meta({ description: 'The totals of the whole period, the same on every page.' }),
    lines: z.array(Line),
    complete: z.boolean().meta({ description: 'Whether the answer has all lines of the period.' }),
    nextAfter: z
      .string()
      .nullable()
      .meta({ description: 'The value of `after` for the next lines. Null: this is the last page.' }),
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
