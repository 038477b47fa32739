import { z } from 'zod'
import { positionToken } from '../../kernel/log-position.ts'
import { integerQuery, pageShape, positionField } from '../../platform/http/query.ts'
import { momentForms, parseMoment } from './input-forms.ts'

const moment = (description: string) =>
  z
    .string()
    .transform((text, context) => {
      const parsed = parseMoment(text)
      if (parsed !== null) return parsed
      context.addIssue({ code: 'custom', message: `must be ${momentForms}` })
      return z.NEVER
    })
    .meta({ description: `${description}: ${momentForms}.`, override: { type: 'string' } })

/** The reported part of the log: up to a moment, or a half-open range. */
export const reportRangeQuery = {
  as_of: moment('The last position at or before it; not with `from` or `to`').optional(),
  from: moment('Only what came from there on').optional(),
  to: moment('Only what came before it').optional(),
} as const

export const bookQuery = z
  .string()
  .max(200)
  .meta({ description: '`service`, or `reseller:` and the id of a reseller; another one is refused.' })

export const depthQuery = integerQuery({
  min: 1,
  max: 10,
  description:
    'Cuts the names of accounts to so many parts, e.g. 2 for `liabilities:wallet`; the totals of a book stay the same.',
})

const micros = (description: string) =>
  z
    .string()
    .regex(/^-?\d+$/)
    .meta({ description: `${description} Whole micro-dollars as text: sums may pass 2^53.` })

const sums = {
  openingMicros: micros(
    'The balance before the range, 0 without one: a debit is above zero, a credit below.',
  ),
  debitMicros: micros('Debits in the range, from zero on.'),
  creditMicros: micros('Credits in the range, from zero on.'),
  balanceMicros: micros('The balance at the end.'),
} as const

const span = {
  after: positionField('The range starts after this position; without a range that is the start of the log.'),
  position: positionField('The position of the log that it ends with.'),
  at: z.iso
    .datetime()
    .nullable()
    .meta({ description: 'Accounting time as of there; null before the first event.' }),
  currency: z.literal('USD'),
} as const

const book = z.string().meta({ description: '`service`, or `reseller:` and the id of a reseller.' })
const account = z
  .string()
  .meta({ description: 'A name of the chart of accounts, e.g. `revenue:orders:isp`.' })

const gateway = z.string().nullable().meta({
  description:
    "Of an account of a reseller's own gateway, `assets:gateway:crd_…`: its provider and rail, e.g. `stripe card`. Null for any other account.",
})

const AccountSums = z.object({ book, account, gateway, ...sums }).meta({ id: 'AccountSums' })

export const TrialBalance = z
  .object({
    ...span,
    totals: z.array(z.object({ book, ...sums }).meta({ id: 'BookTotals' })).meta({
      description:
        'Of each book, over all of its accounts that moved or held anything, on any page and at any depth: `balanceMicros` is 0.',
    }),
    accounts: z
      .array(AccountSums)
      .meta({ description: 'Also those that are at zero again: all pages add up to the totals.' }),
    ...pageShape,
  })
  .meta({ id: 'TrialBalance' })

export const AccountBalance = z
  .object({
    ...span,
    book,
    account,
    ...sums,
    accounts: z.array(AccountSums).meta({ description: 'The account itself and those below it.' }),
    ...pageShape,
  })
  .meta({ id: 'AccountBalance' })

const entry = {
  position: positionField("The event's position in the log: the name of the entry."),
  at: z.iso.datetime().meta({ description: 'Accounting time.' }),
  type: z.string().meta({ description: 'The type of the event, e.g. `WalletDebited`.' }),
  accountId: z.string().nullable().meta({
    description: "In whose ledger the event stands; null for a line of a provider's statement.",
  }),
  orderId: z.string().nullable(),
  customerId: z.string().nullable(),
  depositId: z
    .string()
    .nullable()
    .meta({ description: 'The deposit that was paid, or that a chargeback takes back.' }),
  reference: z.string().nullable(),
  actor: z
    .string()
    .meta({ description: 'Who caused it: `key:`, `session:`, `operator:` or `system:` and a name.' }),
  correlationId: z.string().meta({ description: 'The request or run that caused it.' }),
} as const

export const AccountStatement = z
  .object({
    ...span,
    book,
    account,
    gateway,
    ...sums,
    lines: z.array(
      z
        .object({
          ...entry,
          account,
          amountMicros: micros('A debit is above zero, a credit below.'),
          balanceMicros: micros('The balance right after.'),
          against: z.array(z.string()).meta({ description: 'The other accounts of the entry in this book.' }),
        })
        .meta({ id: 'AccountStatementLine' }),
    ),
    ...pageShape,
  })
  .meta({ id: 'AccountStatement' })

export const OrderEntries = z
  .object({
    orderId: z.string(),
    entries: z.array(
      z
        .object({
          ...entry,
          postings: z.array(
            z
              .object({ book, account, amountMicros: micros('A debit is above zero, a credit below.') })
              .meta({ id: 'JournalPosting' }),
          ),
        })
        .meta({ id: 'JournalEntry' }),
    ),
  })
  .meta({ id: 'OrderEntries' })

const spanExample = {
  after: positionToken(0),
  position: positionToken(1284),
  at: '2026-11-21T02:30:00.000Z',
  currency: 'USD',
} as const
const sumsExample = {
  openingMicros: '0',
  debitMicros: '0',
  creditMicros: '12500000',
  balanceMicros: '-12500000',
} as const
const balanced = { ...sumsExample, debitMicros: '12500000', balanceMicros: '0' } as const
const service = 'service'
const revenue = { book: service, account: 'revenue:orders:isp', gateway: null, ...sumsExample } as const
const wallet = 'liabilities:wallet:acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b'
const entryExample = {
  position: positionToken(1284),
  at: '2026-11-21T02:30:00.000Z',
  type: 'WalletDebited',
  accountId: 'acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  orderId: 'ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
  customerId: null,
  depositId: null,
  reference: null,
  actor: 'key:key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8c',
  correlationId: 'req_0199f3b2c1d07a3e9b1f2c4d5e6f7a8d',
} as const
const page = { total: 1, limit: 50, offset: 0 } as const

export const examples = {
  trialBalance: {
    ...spanExample,
    totals: [{ book: service, ...balanced }],
    accounts: [
      {
        book: service,
        account: wallet,
        gateway: null,
        ...sumsExample,
        debitMicros: '12500000',
        creditMicros: '0',
        balanceMicros: '12500000',
      },
      revenue,
    ],
    ...page,
    total: 2,
  },
  account: {
    ...spanExample,
    book: service,
    account: 'revenue',
    ...sumsExample,
    accounts: [revenue],
    ...page,
  },
  statement: {
    ...spanExample,
    book: service,
    account: 'revenue:orders:isp',
    gateway: null,
    ...sumsExample,
    lines: [
      {
        ...entryExample,
        account: 'revenue:orders:isp',
        amountMicros: '-12500000',
        balanceMicros: '-12500000',
        against: [wallet],
      },
    ],
    ...page,
  },
  entries: {
    orderId: entryExample.orderId,
    entries: [
      {
        ...entryExample,
        postings: [
          { book: service, account: 'revenue:orders:isp', amountMicros: '-12500000' },
          { book: service, account: wallet, amountMicros: '12500000' },
        ],
      },
    ],
  },
} as const
