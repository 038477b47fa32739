import { z } from 'zod'
import { type EntryKind, entryKinds } from '../../domain/finance/entry-kinds.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { integerQuery, positionField } from '../../platform/http/query.ts'
import { exampleRows, reportShape } from '../../platform/http/report-rows.ts'
import { momentForms, parseMoment } from './input-forms.ts'

const momentPattern = '^(pos_[0-9]+_[0-9]+|[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?)$'

const moment = (description: string) =>
  z
    .string()
    .transform((text, context) => {
      const parsed = parseMoment(text)
      if (parsed !== null) return parsed
      context.addIssue({ code: 'custom', message: `must be ${momentForms}` })
      return z.NEVER
    })
    .meta({
      description: `${description}: ${momentForms}.`,
      override: { type: 'string', pattern: momentPattern },
    })

export const asOfQuery = moment('The report is as of this moment').optional()

/** The reported part of the log: up to a moment, or a half-open range. */
export const reportRangeQuery = {
  as_of: moment(
    'Not allowed with `from` or `to`. The report ends at this moment. As of a time in a month that is not closed, fees and payouts can be added later',
  ).optional(),
  from: moment('Only entries at or after this moment').optional(),
  to: moment('Only entries before this moment').optional(),
} as const

export const bookQuery = z
  .string()
  .max(200)
  .meta({
    override: { type: 'string', maxLength: 200, pattern: '^(service|reseller:.+)$' },
    description:
      'The name of a book: `service`, or `reseller:` with the id of a reseller. Other values are rejected.',
  })

export const depthQuery = integerQuery({
  min: 1,
  max: 10,
  description:
    'Shortens account names to this number of parts, e.g. 2 for `liabilities:wallet`. The totals of a book do not change.',
})

const micros = (description: string) =>
  z
    .string()
    .regex(/^-?\d+$/)
    .meta({ description: `${description} Whole micro-dollars as text, because sums can exceed 2^53.` })

const sums = {
  openingMicros: micros(
    'The balance before the range; 0 without a range. A debit balance is above zero, a credit balance below zero.',
  ),
  debitMicros: micros('The sum of the debits in the range, never negative.'),
  creditMicros: micros('The sum of the credits in the range, never negative.'),
  balanceMicros: micros(
    'The balance at the end of the range. A debit balance is above zero, a credit balance below zero.',
  ),
} as const

const span = {
  after: positionField('The range starts after this position. Without a range: the start of the log.'),
  position: positionField(
    'The range ends with this position of the log: the last one at or before the moment. Fees and payouts of a statement that are dated up to the moment and have later positions are included.',
  ),
  at: z.iso
    .datetime()
    .nullable()
    .meta({ description: 'The accounting time of the last position. Null: before the first event.' }),
  currency: z.literal('USD'),
} as const

const book = z
  .string()
  .meta({ description: 'The name of the book: `service`, or `reseller:` with the id of a reseller.' })
const account = z.string().meta({ description: 'The name of a ledger account, e.g. `revenue:orders:isp`.' })

const gateway = z.string().nullable().meta({
  description:
    "The provider and the rail of an account of a reseller's own gateway (`assets:gateway:crd_…`), e.g. `stripe card`. Null: any other account.",
})

const AccountSums = z.object({ book, account, gateway, ...sums }).meta({ id: 'AccountSums' })

export const TrialBalance = z
  .object({
    ...span,
    totals: z.array(z.object({ book, ...sums }).meta({ id: 'BookTotals' })).meta({
      description:
        'The totals of each book over all of its accounts, the same at every depth, also if accounts are left out. `balanceMicros` is 0.',
    }),
    accounts: z.array(AccountSums).meta({
      description:
        'The accounts, including those with a balance of zero after movements. All of them add up to the totals.',
    }),
    ...reportShape,
  })
  .meta({ id: 'TrialBalance' })

export const AccountBalance = z
  .object({
    ...span,
    book,
    account,
    ...sums,
    accounts: z.array(AccountSums).meta({ description: 'The account itself and its subaccounts.' }),
    ...reportShape,
  })
  .meta({ id: 'AccountBalance' })

const entry = {
  position: positionField('The position of the event in the log. It identifies the entry.'),
  at: z.iso.datetime().meta({
    description:
      'The accounting time of the entry. Of a fee or a payout of a statement: the time in the statement, unless its month was closed when it was posted.',
  }),
  recordedAt: z.iso.datetime().meta({ description: 'The time at which the entry was recorded.' }),
  type: z.string().meta({ description: 'The type of the event, e.g. `WalletDebited`.' }),
  kind: namedEnum('EntryKind', Object.keys(entryKinds) as EntryKind[]).meta({
    description: `What the entry is: ${Object.entries(entryKinds)
      .map(([kind, means]) => `\`${kind}\` ${means}`)
      .join('; ')}.`,
  }),
  happenedAt: z.iso
    .datetime()
    .nullable()
    .meta({ description: "The time in the provider's statement. Null: the entry is not from a statement." }),
  accountId: z.string().nullable().meta({
    description: "The account whose ledger has the event. Null: a line of a provider's statement.",
  }),
  orderId: z.string().nullable(),
  customerId: z.string().nullable(),
  depositId: z
    .string()
    .nullable()
    .meta({ description: 'The id of the deposit that was paid, or that a chargeback reversed.' }),
  reference: z.string().nullable(),
  reason: z.string().nullable().meta({
    description:
      "Why a line of a provider's statement was corrected; in the list of entries by hand also why a refund was made. Null: any other entry. The reason of a movement by hand is its `reference`.",
  }),
  file: z.string().nullable().meta({
    description: 'The name of the file that a person posted. Null: the entry is not from a file.',
  }),
  fileSha256: z
    .string()
    .nullable()
    .meta({ description: 'SHA-256 of that file, lower-case hex. Null: the entry is not from a file.' }),
  proposalId: z.string().nullable().meta({
    description:
      'The approved proposal with the line of the statement; in the list of entries by hand that of any entry. Null: none.',
  }),
  actor: z.string().meta({
    description: 'The actor that caused the entry: `key:`, `session:`, `operator:` or `system:` and a name.',
  }),
  correlationId: z.string().meta({ description: 'The id of the request or run that caused the entry.' }),
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
          amountMicros: micros('The amount of the line. A debit is above zero, a credit below zero.'),
          balanceMicros: micros('The balance of the account directly after the line.'),
          against: z.array(z.string()).meta({ description: 'The other accounts of the entry in this book.' }),
        })
        .meta({ id: 'AccountStatementLine' }),
    ),
    ...reportShape,
  })
  .meta({ id: 'AccountStatement' })

const postings = z.array(
  z
    .object({
      book,
      account,
      amountMicros: micros('The amount of the line. A debit is above zero, a credit below zero.'),
    })
    .meta({ id: 'JournalPosting' }),
)

export const ManualEntries = z
  .object({
    ...span,
    entries: z.array(
      z
        .object({
          ...entry,
          proposedBy: z.string().nullable().meta({
            description:
              'Who proposed it. Null: one operator was enough. `actor` and `approvedBy` approved it.',
          }),
          approvedBy: z
            .string()
            .nullable()
            .meta({ description: 'Who approved it. Null: one operator was enough.' }),
          postings,
        })
        .meta({ id: 'ManualEntry' }),
    ),
    ...reportShape,
  })
  .meta({ id: 'ManualEntries' })

export const DeferredRevenue = z
  .object({
    position: span.position,
    at: span.at,
    currency: span.currency,
    deferredMicros: micros('The total of all products.'),
    products: z.array(
      z
        .object({
          productId: z.string(),
          orders: z.int().min(0).meta({ description: 'The orders that are not delivered completely.' }),
          deferredMicros: micros('What of their price is not delivered.'),
          remainingSeconds: z
            .int()
            .min(0)
            .meta({ description: 'The rest of the paid time of all rentals and plans, in seconds.' }),
          unusedBytes: z.int().min(0).meta({ description: 'The unused traffic of all plans, in bytes.' }),
        })
        .meta({ id: 'DeferredProduct' }),
    ),
    ...reportShape,
  })
  .meta({ id: 'DeferredRevenue' })

export const OrderEntries = z
  .object({
    orderId: z.string(),
    entries: z.array(z.object({ ...entry, postings }).meta({ id: 'JournalEntry' })),
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
  recordedAt: '2026-11-21T02:30:00.000Z',
  type: 'WalletDebited',
  kind: 'order',
  happenedAt: null,
  accountId: 'acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  orderId: 'ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
  customerId: null,
  depositId: null,
  reference: null,
  reason: null,
  file: null,
  fileSha256: null,
  proposalId: null,
  actor: 'key:key_0199f3b2c1d07a3e9b1f2c4d5e6f7a8c',
  correlationId: 'req_0199f3b2c1d07a3e9b1f2c4d5e6f7a8d',
} as const

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
    ...exampleRows,
    total: 2,
  },
  account: {
    ...spanExample,
    book: service,
    account: 'revenue',
    ...sumsExample,
    accounts: [revenue],
    ...exampleRows,
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
    ...exampleRows,
  },
  deferredRevenue: {
    position: spanExample.position,
    at: spanExample.at,
    currency: 'USD',
    deferredMicros: '6250000',
    products: [
      {
        productId: 'isp-dedicated',
        orders: 1,
        deferredMicros: '6250000',
        remainingSeconds: 1_296_000,
        unusedBytes: 0,
      },
    ],
    ...exampleRows,
  },
  manualEntries: {
    ...spanExample,
    entries: [
      {
        ...entryExample,
        type: 'StatementLineBooked',
        kind: 'payout',
        happenedAt: '2026-11-20T00:00:00.000Z',
        accountId: null,
        orderId: null,
        reference: 'txn_1QZ3',
        file: 'payouts.csv',
        fileSha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
        proposalId: 'prp_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
        proposedBy: 'operator:bob',
        approvedBy: 'operator:alice',
        actor: 'operator:alice',
        postings: [
          { book: service, account: 'assets:gateway:stripe', amountMicros: '-20000000' },
          { book: service, account: 'assets:bank', amountMicros: '20000000' },
        ],
      },
    ],
    ...exampleRows,
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
