import { z } from 'zod'
import type { FoundDeposit } from '../../../projections/deposits.ts'
import {
  isPayable,
  type ShownDepositStatus,
  shownDepositStatus,
  shownDepositStatuses,
} from '../../domain/deposits/fold.ts'
import type { Rail } from '../../domain/payments/payments.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import type { Html } from '../../platform/ui/html.ts'
import { stateText } from '../../platform/ui/text.ts'
import { customerField, customerIdField } from '../accounts/index.ts'
import type { DepositPages } from './deposit-urls.ts'

const railNamesOfPeople: Partial<Record<Rail, string>> = {
  card: 'Card',
  crypto: 'Crypto',
  alipay: 'Alipay',
  wechat: 'WeChat Pay',
}

/** The readable name of a payment method. */
export const railName = (rail: string): string => railNamesOfPeople[rail as Rail] ?? rail

export const depositBadges: Readonly<
  Record<ShownDepositStatus, readonly [string, 'good' | 'warn' | 'bad' | 'off']>
> = {
  awaiting_payment: ['awaits payment', 'warn'],
  processing: ['being confirmed', 'warn'],
  paid: ['paid', 'good'],
  partially_paid: ['paid in part', 'warn'],
  expired: ['expired', 'off'],
  failed: ['failed', 'bad'],
  canceled: ['canceled', 'off'],
  charged_back: ['charged back', 'bad'],
}

export const depositState = (status: ShownDepositStatus): Html => stateText(...depositBadges[status])

const time = z.string().meta({ format: 'date-time' })

export const owedCentsField = z.int().min(0).meta({
  description:
    'The debt of the payer after a refund or a dispute, in whole cents, when the deposit was created. The payment pays it first. If the payment places an order, `amount_cents` includes it.',
})

/** docs/reference/api.md, "Deposits". */
export const DepositRecord = z
  .object({
    deposit_id: z.string(),
    status: namedEnum('DepositStatus', shownDepositStatuses).meta({
      description:
        "The status of the deposit. `processing`: the provider reported a payment, and the payment is not final. `partially_paid`: the invoice closed with less than its amount, and the payments were credited. Later payments are credited too. `canceled`: its order was paid otherwise, has another invoice, failed or was canceled, so the page takes no more payments. `charged_back`: the payer's bank took money back in a dispute. A won dispute restores the status from before.",
    }),
    amount_cents: z
      .int()
      .min(0)
      .meta({ description: 'The amount of the invoice in whole cents, raised to the minimum of the rail.' }),
    owed_cents: owedCentsField,
    credited_cents: z
      .int()
      .min(0)
      .meta({ description: 'The amount that was paid and credited until now, in whole cents.' }),
    charged_back_cents: z.int().min(0).meta({
      description:
        "The part of the payment that the payer's bank took back in a dispute, in whole cents. A won dispute resets this amount.",
    }),
    refunded_cents: z.int().min(0).meta({
      description:
        'The part of the payment that the payment provider refunded, in whole cents. A refund does not change the status. A failed refund resets this amount.',
    }),
    method: z.string(),
    for_order: z.boolean().meta({
      description:
        'True: an order without enough balance created the deposit. The payment places this order.',
    }),
    order_id: z.string().nullable(),
    customer_id: customerIdField,
    customer: customerField,
    pay_url: z.string().nullable().meta({
      description:
        'The URL of the pay page. Null: no more payments are possible, because the deposit is paid, closed or expired.',
    }),
    return_url: z.string().nullable(),
    created_at: time,
    paid_at: time.nullable(),
    expires_at: time.nullable(),
  })
  .meta({ id: 'Deposit' })

export const depositExample = {
  deposit_id: 'dep_0190d0a2c1d27f0e8f6e5c4b3a291807',
  status: 'paid',
  amount_cents: 2500,
  owed_cents: 0,
  credited_cents: 2500,
  charged_back_cents: 0,
  refunded_cents: 0,
  method: 'card',
  for_order: false,
  order_id: null,
  customer_id: null,
  customer: null,
  pay_url: null,
  return_url: 'https://shop.example.com/thanks',
  created_at: '2026-11-21T02:30:00.000Z',
  paid_at: '2026-11-21T02:31:12.000Z',
  expires_at: '2026-11-22T02:30:00.000Z',
} as const

/** @param nowMs decides whether the pay page has expired; `pages` verifies the addresses, null leaves them out */
export const depositRecord = (
  row: FoundDeposit,
  nowMs: number,
  pages: Pick<DepositPages, 'of'> | null,
): z.input<typeof DepositRecord> => {
  const urls = pages?.of(row) ?? null
  return {
    deposit_id: row.depositId,
    status: shownDepositStatus(row),
    amount_cents: row.amountCents,
    owed_cents: row.owedCents,
    credited_cents: microsToCentsFloor(row.creditedMicros),
    charged_back_cents: microsToCentsFloor(row.chargedBackMicros),
    refunded_cents: microsToCentsFloor(row.refundedMicros),
    method: row.rail,
    for_order: row.orderId !== null,
    order_id: row.orderId,
    customer_id: row.customerId,
    customer: row.customerRef,
    pay_url: isPayable({ status: row.status, expiresAt: row.expiresAt }, nowMs)
      ? (urls?.payUrl ?? null)
      : null,
    return_url: urls?.returnUrl ?? null,
    created_at: row.openedAt,
    paid_at: row.paidAt,
    expires_at: row.expiresAt,
  }
}
