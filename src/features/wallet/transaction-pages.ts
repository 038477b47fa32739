import { type TransactionRow, transactionsAfter } from '../../../projections/balances.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import { accountPage, type ConsolePage } from '../../platform/ui/page.ts'
import { type Column, idColumn, microsColumn, nameColumn, timeColumn } from '../../platform/ui/table.ts'
import { buttonLink } from '../../platform/ui/text.ts'
import { transactionTypes } from './transaction-record.ts'

/** Parses a position of a link; null if invalid. */
const positionOf = (text: string | null): number | null =>
  text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null

const typeNames: Partial<Record<TransactionRow['type'], string>> = {
  deposit: 'Deposit',
  order: 'Order',
  refund: 'Refund',
  credit: 'Payment received elsewhere',
  goodwill: 'Goodwill credit',
  correction: 'Correction',
  bad_debt: 'Debt written off',
  chargeback: 'Chargeback',
  deposit_refund: 'Refund to the payer',
  hold: 'Amount held',
  release: 'Amount released',
}

/** The columns of movements. `linkOf` returns the page of an order or a deposit. */
export const transactionColumns = (
  linkOf: (row: TransactionRow) => string | null,
): readonly Column<TransactionRow>[] => [
  nameColumn('Transaction', (row) => ({
    text: typeNames[row.type] ?? row.type,
    href: linkOf(row),
    note: row.scraper ?? ((row.orderId ?? row.depositId) ? null : row.reference),
  })),
  idColumn('Order or deposit', ({ orderId, depositId }) => orderId ?? depositId),
  microsColumn('Amount', ({ amountMicros }) => amountMicros, { place: 'lead' }),
  microsColumn('Debt', ({ owedChangeMicros }) => owedChangeMicros || null),
  microsColumn('Balance', ({ balanceAfterMicros }) => balanceAfterMicros),
  timeColumn('Time', ({ createdAt }) => createdAt, { place: 'plain' }),
  idColumn('Transaction id', ({ transactionId }) => transactionId, { place: 'file' }),
  idColumn('Reference', ({ reference }) => reference, { place: 'file' }),
]

const empty: Html = html`<p>Your wallet has no transactions yet.</p><p>${buttonLink('/console/top-up', 'Top up', 'first')}</p>`

/** The movements of an account's wallet, as a table and as a file. */
export const transactionPages = ({
  db,
  reads,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
}): readonly ConsolePage[] => [
  listPage(accountPage, {
    path: '/console/transactions',
    name: 'showTransactions',
    summary: 'The movements of the wallet',
    title: 'Transactions',
    actions: html`${buttonLink('/console/top-up', 'Top up', 'first')}${buttonLink('/console/low-balance', 'Low balance')}`,
    filters: { type: { label: 'Type', choices: labelled(transactionTypes, typeNames) } },
    caption: 'Movements of the wallet',
    search: 'Order, deposit or reference',
    orderedBy: 'Time',
    file: 'transactions',
    load: async ({ account: { accountId } }, page) => {
      await reads.settled(accountId)
      return transactionsAfter(db, wholeAccount(accountId), page)
    },
    parseKey: positionOf,
    keyOf: ({ position }) => String(position),
    columns: (_) =>
      transactionColumns(({ orderId, depositId }) =>
        orderId !== null
          ? `/console/orders/${orderId}`
          : depositId === null
            ? null
            : `/console/deposits/${depositId}`,
      ),
    empty,
    cliEquivalents: () => ['curl "$API/wallet/transactions?limit=50" -H "X-API-Key: $KEY"'],
  }),
]
