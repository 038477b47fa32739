import { positionToken } from '../../../kernel/log-position.ts'
import { amountWriter } from '../../../kernel/money.ts'
import { type Html, html } from '../../../platform/ui/html.ts'
import type { Role } from '../../../platform/ui/session.ts'
import { type Column, tableOf } from '../../../platform/ui/table.ts'
import { timeText } from '../../../platform/ui/text.ts'
import { accountText } from '../gateway-names.ts'
import { type AccountSums, closingMicros } from '../journal.ts'
import { linkedText } from '../trail-pages.ts'
import { type Span, totalsOfBook } from '../trial-balance.ts'

type Sums = Omit<AccountSums, 'book' | 'account' | 'gateway'>

/** Writes micro-dollars with a typographic minus sign and the decimals that the table needs. */
export const writerOf = (allSums: readonly Sums[]): ((micros: bigint) => string) => {
  const write = amountWriter(
    allSums.flatMap((sums) => [sums.openingMicros, sums.debitMicros, sums.creditMicros, closingMicros(sums)]),
  )
  return (micros) => write(micros).replace('-', '\u2212')
}

/** The shown range in words: its positions and times. */
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

/** Balances, or (over a range) their movements. */
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
