import { Readable } from 'node:stream'
import { type TransactionRow, transactionsBefore } from '../../../projections/balances.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type CsvValue, csvHead, csvLines } from '../../kernel/csv.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { html } from '../../platform/ui/html.ts'
import { accountPage, type ConsolePage, fileOf, type ShownAccount } from '../../platform/ui/page.ts'
import { listOf } from '../../platform/ui/table.ts'
import { buttonLink, idText, microsText, timeText } from '../../platform/ui/text.ts'
import { publicTransaction } from './transaction-record.ts'

/** Parses a position of a link; null if invalid. */
const positionOf = (text: string | null): number | null =>
  text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null

/** The subject of a movement, with a link if it has a page. */
const subjectOf = ({ orderId, depositId, reference }: TransactionRow) => {
  if (orderId !== null) return html`<a href="/console/orders/${orderId}">${orderId}</a>`
  if (depositId !== null) return idText(depositId)
  return reference ?? ''
}

const headings = [
  'transactionId',
  'createdAt',
  'type',
  'amountCents',
  'amountMicros',
  'balanceAfterCents',
  'balanceAfterMicros',
  'customerId',
  'orderId',
  'depositId',
  'reference',
] as const

const rowsAtOnce = 1_000

/** Every movement of the account, newest first, as CSV. It is streamed, so its length needs no memory. */
async function* csvOf(db: Db, { accountId }: ShownAccount): AsyncGenerator<string> {
  yield csvHead(headings)
  for (let before: number | null = null; ; ) {
    const page = { before, limit: rowsAtOnce }
    const rows: readonly TransactionRow[] = await transactionsBefore(db, wholeAccount(accountId), page)
    yield csvLines(
      rows.map((row) => {
        const publicRow = publicTransaction(row)
        return headings.map((heading): CsvValue => publicRow[heading])
      }),
    )
    before = rows.at(-1)?.position ?? null
    if (before === null) return
  }
}

/** The movements of an account's wallet, as a table and as a file. */
export const transactionPages = ({
  db,
  reads,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
}): readonly ConsolePage[] => [
  accountPage({
    path: '/console/transactions',
    name: 'showTransactions',
    summary: 'The movements of the wallet',
    nav: { label: 'Transactions' },
    show: async (visit) => {
      const { accountId } = visit.account
      await reads.settled(accountId)
      return {
        title: 'Transactions',
        actions: buttonLink('/console/transactions.csv', 'Download CSV'),
        body: await listOf<TransactionRow, number>(visit, {
          caption: 'Movements of the wallet, newest first',
          load: ({ after, limit }) =>
            transactionsBefore(db, wholeAccount(accountId), { before: after, limit }),
          parseKey: positionOf,
          keyOf: ({ position }) => String(position),
          empty: 'There are no transactions yet.',
          columns: [
            { title: 'Time', cell: ({ createdAt }) => timeText(createdAt) },
            { title: 'Type', head: true, cell: ({ type }) => type },
            { title: 'Subject', cell: subjectOf },
            { title: 'Amount, USD', number: true, cell: ({ amountMicros }) => microsText(amountMicros) },
            { title: 'Balance, USD', number: true, cell: (row) => microsText(row.balanceAfterMicros) },
          ],
        }),
        cliEquivalents: ['curl "$API/wallet/transactions?limit=50" -H "X-API-Key: $KEY"'],
      }
    },
  }),
  accountPage({
    path: '/console/transactions.csv',
    name: 'downloadTransactions',
    summary: 'The movements of the wallet as a file',
    show: async ({ account, nowMs }) => {
      await reads.settled(account.accountId)
      return fileOf(`transactions-${isoTime(nowMs).slice(0, 10)}.csv`, Readable.from(csvOf(db, account)))
    },
  }),
]
