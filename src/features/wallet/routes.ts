import { z } from 'zod'
import { readLowBalanceMicros } from '../../../projections/accounts.ts'
import { createReadPurse, listTransactions } from '../../../projections/balances.ts'
import { microsToCentsCeil, microsToCentsFloor } from '../../kernel/money.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { Accounts } from '../accounts/index.ts'
import { maxCents } from './input-forms.ts'
import { publicTransaction, Transaction } from './transaction-record.ts'

const Wallet = z
  .object({
    balanceCents: z
      .int()
      .meta({ description: 'The available balance in whole cents, without the amounts of open holds.' }),
    owedCents: z.int().min(0).meta({
      description:
        'The debt after refunds and disputes that the balance did not cover, in whole cents. The next payments pay it first.',
    }),
    currency: z.literal('USD'),
  })
  .meta({ id: 'Wallet' })

const TransactionList = z
  .object({ transactions: z.array(Transaction), ...pageShape })
  .meta({ id: 'TransactionList' })

const transactionExample = {
  transactionId: 'txn_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  type: 'order',
  amountCents: -1250,
  amountMicros: -12500000,
  balanceAfterCents: 98750,
  balanceAfterMicros: 987500000,
  owedChangeCents: 0,
  customerId: null,
  orderId: 'ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
  depositId: null,
  scraper: null,
  reference: null,
  createdAt: '2026-11-21T02:30:00.000Z',
} as const

const LowBalance = z
  .object({
    thresholdCents: z.int().nullable().meta({
      description: 'The balance in whole cents below which the account is notified. Null: no notification.',
    }),
    currency: z.literal('USD'),
  })
  .meta({ id: 'LowBalance' })

const lowBalanceExample = { thresholdCents: 5000, currency: 'USD' } as const

/** The wallet, its movements and the threshold of its low balance. */
export const walletRoutes = ({
  reads,
  db,
  accounts,
}: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly accounts: Pick<Accounts, 'setLowBalance'>
}): readonly Route[] => {
  const readPurse = createReadPurse(db)
  return [
    route({
      method: 'GET',
      path: '/api/v1/wallet',
      operationId: 'getWallet',
      summary: 'Read the balance',
      description:
        'The available balance and the debt of the account. It includes the latest order of the account.',
      tag: 'Account',
      access: 'any-key',
      writes: false,
      customer: accountOnly('a customer has credit (GET /api/v1/reseller/customers), and the wallet is'),
      responses: {
        200: {
          description: 'The balance.',
          body: Wallet,
          example: { balanceCents: 98750, owedCents: 0, currency: 'USD' },
        },
      },
      errors: [],
      handler: async ({ caller, after }) => {
        await reads.settled(caller.accountId, after ?? 0)
        const { availableMicros, receivableMicros } = await readPurse(caller.accountId)
        const balanceCents = microsToCentsFloor(availableMicros)
        const owedCents = microsToCentsCeil(receivableMicros)
        return { status: 200, body: { balanceCents, owedCents, currency: 'USD' as const } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/wallet/low-balance',
      operationId: 'getLowBalance',
      summary: 'Read the low-balance threshold',
      description: 'The balance below which the account is notified. PUT sets this threshold.',
      tag: 'Account',
      access: 'any-key',
      writes: false,
      customer: accountOnly('the wallet is'),
      responses: {
        200: { description: 'The threshold.', body: LowBalance, example: lowBalanceExample },
      },
      errors: [],
      handler: async ({ caller, after }) => {
        await reads.settled(caller.accountId, after ?? 0)
        const thresholdMicros = await readLowBalanceMicros(db, caller.accountId)
        const thresholdCents = thresholdMicros === null ? null : microsToCentsFloor(thresholdMicros)
        return { status: 200, body: { thresholdCents, currency: 'USD' as const } }
      },
    }),

    route({
      method: 'PUT',
      path: '/api/v1/wallet/low-balance',
      operationId: 'setLowBalance',
      summary: 'Set the low-balance threshold',
      description:
        'The account is notified each time a transaction moves the balance from the threshold or above to below the threshold: one e-mail to the account, and `wallet.low_balance` to its webhook endpoints. After a notification, the balance must rise to the threshold or above before the next one. No notification is sent if the balance is already below a new threshold. Null removes the threshold.',
      tag: 'Account',
      access: 'buy',
      writes: true,
      customer: accountOnly('the wallet is'),
      body: z.strictObject({ thresholdCents: z.int().min(1).max(maxCents).nullable() }),
      examples: { body: { thresholdCents: 5000 } },
      responses: {
        200: { description: 'The new threshold.', body: LowBalance, example: lowBalanceExample },
      },
      errors: [],
      handler: async ({ caller, body: { thresholdCents }, requestId }) => {
        const set = await accounts.setLowBalance(
          caller.accountId,
          thresholdCents,
          causeOf({ caller, requestId }),
        )
        if (set.outcome === 'refused') throw new Error(`the account ${caller.accountId} is gone`)
        return {
          status: 200,
          body: { thresholdCents, currency: 'USD' as const },
          position: set.position,
        }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/wallet/transactions',
      operationId: 'listTransactions',
      summary: 'List the wallet transactions',
      description:
        "Every transaction of the wallet, newest first. An event that changes neither the balance nor the debt, such as a billed call whose price was held, is no transaction. For a reseller's customer: the transactions of the customer's orders and refunds.",
      tag: 'Account',
      access: 'any-key',
      writes: false,
      customer: 'limits',
      query: z.object(pagingQuery),
      codes: { query: pagingCodes },
      examples: { query: { limit: 50, offset: 0 } },
      responses: {
        200: {
          description: 'A page of transactions.',
          body: TransactionList,
          example: { transactions: [transactionExample], total: 1, limit: 50, offset: 0 },
        },
      },
      errors: [],
      handler: async ({ scope, query, after }) => {
        await reads.settled(scope.accountId, after ?? 0)
        const { transactions, total } = await listTransactions(db, scope, query)
        return { status: 200, body: { transactions: transactions.map(publicTransaction), total, ...query } }
      },
    }),
  ]
}
