import { z } from 'zod'
import { createAvailableMicros, listTransactions } from '../../../projections/balances.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { pageShape, pagingCodes, pagingQuery } from '../../platform/http/query.ts'
import { accountOnly, type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { publicTransaction, Transaction } from './transaction-record.ts'

const Wallet = z
  .object({
    balanceCents: z.int().meta({ description: 'What can be spent, whole cents: open holds are taken off.' }),
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
  customerId: null,
  orderId: 'ord_6c0f4e7d2b1a5c3e8f9d0a1b2c3d4e5f',
  depositId: null,
  scraper: null,
  reference: null,
  createdAt: '2026-11-21T02:30:00.000Z',
} as const

/** The wallet and its movements. */
export const walletRoutes = ({
  reads,
  db,
}: {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
}): readonly Route[] => {
  const availableMicros = createAvailableMicros(db)
  return [
    route({
      method: 'GET',
      path: '/api/v1/wallet',
      operationId: 'getWallet',
      summary: 'Read the balance',
      description: 'What the account can spend right now, its own last order included.',
      tag: 'Account',
      access: 'buy',
      writes: false,
      customer: accountOnly('a customer has credit (GET /api/v1/reseller/customers), and the wallet is'),
      responses: {
        200: { description: 'The balance.', body: Wallet, example: { balanceCents: 98750, currency: 'USD' } },
      },
      errors: [],
      handler: async ({ caller, after }) => {
        await reads.settled(caller.accountId, after ?? 0)
        const balanceCents = microsToCentsFloor(await availableMicros(caller.accountId))
        return { status: 200, body: { balanceCents, currency: 'USD' as const } }
      },
    }),

    route({
      method: 'GET',
      path: '/api/v1/wallet/transactions',
      operationId: 'listTransactions',
      summary: 'List what moved the wallet',
      description:
        "Every movement of the wallet, newest first. For a reseller's customer: what its orders and their refunds moved.",
      tag: 'Account',
      access: 'buy',
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
