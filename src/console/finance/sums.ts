import { amountWriter } from '../../books/finance/amounts.ts'
import { accountText } from '../../books/finance/gateway-names.ts'
import { type AccountSums, closingMicros } from '../../books/finance/journal-sums.ts'
import { type Span, totalsOfBook } from '../../books/finance/trial-balance.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { positionToken } from '../../terms/position.ts'
import type { Role } from '../frame/roles.ts'
import { type Column, tableOf } from '../frame/table.ts'
import { timeText } from '../frame/text.ts'
import { linkedText } from '../staff/trail.ts'

type Sums = Omit<AccountSums, 'book' | 'account' | 'gateway'>

/** Micro-dollars with a true minus and the decimals that the table needs. */
export const writerOf = (all: readonly Sums[]): ((micros: bigint) => string) => {
  const write = amountWriter(
    all.flatMap((sums) => [sums.openingMicros, sums.debitMicros, sums.creditMicros, closingMicros(sums)]),
  )
  return (micros) => write(micros).replace('-', '\u2212')
}

/** What was shown, in words: where the range stands in the log and in time. */
export const spanOf = (span: Span, ranged: boolean, roles: ReadonlySet<Role>, asOf: string): Html => {
  const end = html`${linkedText(positionToken(span.position), roles, asOf)}${
    span.at === null ? null : html` (${timeText(span.at)})`
  }`
  return ranged
    ? html`<p class="soft">After ${linkedText(positionToken(span.after), roles, asOf)} up to ${end}, in US dollars. A credit is negative.</p>`
    : html`<p class="soft">As of ${end}, in US dollars. A credit is negative.</p>`
}

/** A row of sums: an account, or a book's total. */
export type SumsRow = Sums & { readonly name: Html | string }

export const sumsRow = (sums: AccountSums, hrefOf: (sums: AccountSums) => string): SumsRow => ({
  ...sums,
  name: html`<a href="${hrefOf(sums)}">${accountText(sums.account, sums.gateway)}</a>`,
})

export const totalRow = (name: string, accounts: readonly AccountSums[]): SumsRow => ({
  name: html`<strong>${name}</strong>`,
  ...totalsOfBook(accounts),
})

/** Balances, or (over a range) what moved them. */
export const sumsTable = ({
  caption,
  rows,
  ranged,
}: {
  readonly caption: string
  readonly rows: readonly SumsRow[]
  readonly ranged: boolean
}): Html => {
  const write = writerOf(rows)
  const number = (title: string, of: (row: SumsRow) => bigint): Column<SumsRow> => ({
    title,
    number: true,
    cell: (row) => write(of(row)),
  })
  return tableOf({
    caption,
    rows,
    empty: html`<p>No account moved.</p>`,
    columns: [
      { title: 'Account', head: true, cell: ({ name }) => name },
      ...(ranged ? [number('Before', ({ openingMicros }) => openingMicros)] : []),
      number('Debits', ({ debitMicros }) => debitMicros),
      number('Credits', ({ creditMicros }) => creditMicros),
      number(ranged ? 'After' : 'Balance', closingMicros),
    ],
  })
}
