import { Readable } from 'node:stream'
import { type TransactionRow, transactionsBefore } from '../../../projections/balances.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type CsvValue, csvHead, csvLines } from '../../kernel/csv.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  type ShownAccount,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { dollarText, idText, microsText, timeText } from '../../platform/ui/text.ts'
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

type TransactionReads = { readonly db: Db; readonly reads: Pick<Reads, 'settled'> }

const list = async ({ db, reads }: TransactionReads, { account, query }: AccountVisit) => {
  const before = positionOf(query.get('before'))
  await reads.settled(account.accountId)
  const transactionRows = await transactionsBefore(db, wholeAccount(account.accountId), {
    before,
    limit: pageRows + 1,
  })
  const { rows, next } = pagedOf(transactionRows, ({ position }) => String(position))
  return show({
    title: 'Transactions',
    acts: html`<a class="button" href="/console/transactions.csv">All as CSV</a>`,
    body: html`${tableOf({
      caption: 'What moved the wallet, newest first',
      rows,
      empty: html`<p>${before === null ? 'Nothing moved the wallet yet.' : 'Nothing is older.'}</p>`,
      columns: [
        { title: 'When', cell: ({ createdAt }) => timeText(createdAt) },
        { title: 'What', head: true, cell: ({ type }) => type },
        { title: 'About', cell: subjectOf },
        { title: 'Moved, USD', number: true, cell: ({ amountMicros }) => microsText(amountMicros) },
        {
          title: 'Balance, USD',
          number: true,
          cell: ({ balanceAfterMicros }) => microsText(balanceAfterMicros),
        },
      ],
    })}
${rows.length === 0 ? nothing : html`<p class="soft">${rows.length} movements of this page come to ${dollarText(rows.reduce((sum, row) => sum + publicTransaction(row).amountCents, 0))} in whole cents.</p>`}
${pagerOf('/console/transactions', {}, { before: before === null ? null : String(before), next })}`,
    same: ['curl "$API/wallet/transactions?limit=50" -H "X-API-Key: $KEY"'],
  })
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

const valuesOf = (row: TransactionRow): readonly CsvValue[] => {
  const publicRow = publicTransaction(row)
  return headings.map((heading) => publicRow[heading])
}

const rowsAtOnce = 1_000

/** Every movement of the account, newest first, as CSV. It is streamed, so its length needs no memory. */
async function* csvOf(db: Db, { accountId }: ShownAccount): AsyncGenerator<string> {
  yield csvHead(headings)
  for (let before: number | null = null; ; ) {
    const rows: readonly TransactionRow[] = await transactionsBefore(db, wholeAccount(accountId), {
      before,
      limit: rowsAtOnce,
    })
    yield csvLines(rows.map(valuesOf))
    before = rows.at(-1)?.position ?? null
    if (before === null) return
  }
}

/** The movements of an account's wallet, as a table and as a file. */
export const transactionPages = ({ db, reads }: TransactionReads): readonly ConsolePage[] => [
  accountPage({
    path: '/console/transactions',
    name: 'showTransactions',
    summary: 'What moved the wallet of the account',
    nav: { label: 'Transactions' },
    show: (visit) => list({ db, reads }, visit),
  }),
  accountPage({
    path: '/console/transactions.csv',
    name: 'downloadTransactions',
    summary: 'What moved the wallet of the account, as a file',
    show: async ({ account, nowMs }) => {
      await reads.settled(account.accountId)
      const day = isoTime(nowMs).slice(0, 10)
      return {
        kind: 'file',
        name: `transactions-${day}.csv`,
        mediaType: 'text/csv',
        content: Readable.from(csvOf(db, account)),
      }
    },
  }),
]
